//! Writes records as messages in the external term format, for files and sockets. It needs no Python objects: payloads are terms
//! already and are copied, and names are encoded once.
//!
//! The shapes come from the table ([`Kind::shape`]), as those of the tuples that a tracer in the process gets.
//!
//! ```
//! use inviso_core::host::{drain::{drain_borrowed, Losses}, message::Messages};
//! use inviso_core::{kinds, Class, Flags, Op, Options, Program, What, Who};
//! use inviso_term::etf;
//!
//! let program = Program::new();
//! let order = program.point("shop", "order", 1);
//! let session = program.session("log", Options::default()).unwrap();
//! program.function(&session, &[&order], kinds::LOCAL, Op::On).unwrap();
//! program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
//! drop(order.enter(|out| out.int(7)));
//!
//! let (mut messages, mut bytes) = (Messages::new("shop@here", 1), Vec::new());
//! drain_borrowed(&session, 100, Losses::Between, |record| {
//!     if let What::Event(event) = &record.what {
//!         messages.put(program.node(), record.ticks, event, &mut bytes).unwrap();
//!     }
//! })
//! .unwrap();
//! assert!(etf::decode(&bytes).unwrap().to_string().ends_with(",call,{shop,order,[7]}}"));
//! ```
#![forbid(unsafe_code)]

use crate::{
    record::{
        event::Event,
        parts::{self, Part, Time},
    },
    state::{node::Node, tracee},
};
use inviso_term::{
    etf::{self, Encoder, Full},
    record::{numbered, Kind, TRACE, TRACE_TS},
};

/// A record without a message: this version doesn't know its kind, or its function has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record that is not a message")]
pub struct NoMessage;

/// Longest head of an identifier: its tag, and an atom of 255 characters of 4 bytes.
const HEAD: usize = 4 + 4 * etf::MAX_ATOM;

/// Writes messages of one node.
pub struct Messages {
    node: String,
    creation: u32,
    /// The bytes of a pid before its number.
    pid: Vec<u8>,
    /// The bytes of a port before its number.
    port: Vec<u8>,
    /// By number: module and function as atoms, the arity.
    names: Vec<Option<Name>>,
    /// By kind: the message's tag as an atom.
    tags: [Vec<u8>; 256],
    trace: Vec<u8>,
    trace_ts: Vec<u8>,
}

struct Name {
    atoms: Box<[u8]>,
    arity: u32,
}

impl Messages {
    /// Messages with the pids, ports and references of a node with this name and creation.
    #[must_use]
    pub fn new(node: &str, creation: u32) -> Messages {
        let mut tags = [const { Vec::new() }; 256];
        for kind in Kind::ALL {
            if let Some(place) = tags.get_mut(kind as usize) {
                *place = atom(kind.tag());
            }
        }
        let mut messages = Messages {
            node: String::new(),
            creation,
            pid: Vec::new(),
            port: Vec::new(),
            names: Vec::new(),
            tags,
            trace: atom(TRACE),
            trace_ts: atom(TRACE_TS),
        };
        messages.identify(node, creation);
        messages
    }

    /// The node has this name and creation from now on.
    pub fn identify(&mut self, node: &str, creation: u32) {
        if (node, creation) == (&*self.node, self.creation) {
            return;
        }
        let of = etf::Node { name: node, id: 0, rest: 0, creation };
        let head = |bytes: Vec<u8>| bytes.get(..bytes.len() - 12).unwrap_or_default().to_vec();
        self.pid = head(encoded(HEAD + 12, |out| out.pid_of(of)));
        self.port = head(encoded(HEAD + 12, |out| out.port_of(of)));
        (self.node, self.creation) = (node.to_owned(), creation);
    }

    /// Adds the message of an event that happened at `ticks`, with the version byte. A message about sending or receiving is followed
    /// by its number ([`numbered`]).
    ///
    /// # Errors
    /// [`NoMessage`]; then nothing was added.
    pub fn put(&mut self, node: &Node, ticks: u64, event: &Event<&[u8]>, out: &mut Vec<u8>) -> Result<(), NoMessage> {
        let at = out.len();
        let done = self.message(node, ticks, event, out);
        match event.message(ticks) {
            _ if done.is_err() => out.truncate(at),
            Some(number) => numbered::put(out, number),
            None => {}
        }
        done
    }

    fn message(&mut self, node: &Node, ticks: u64, event: &Event<&[u8]>, out: &mut Vec<u8>) -> Result<(), NoMessage> {
        let kind = Kind::from_u8(event.kind).ok_or(NoMessage)?;
        let mut parts = Parts::begin(out);
        for part in kind.shape().elements.iter().filter_map(|element| parts::part(*element, event)) {
            match part {
                Part::Trace(stamped) => parts.add(out, if stamped { &self.trace_ts } else { &self.trace }),
                Part::Tag => parts.add(out, self.tags.get(kind as usize).ok_or(NoMessage)?),
                Part::Identity(id) => self.identity(out, &mut parts, id),
                Part::Function(name) => {
                    let arity = self.begin_function(node, name, out, &mut parts)?.into();
                    number(out, arity);
                }
                Part::Call(name, arguments) => {
                    self.begin_function(node, name, out, &mut parts)?;
                    self.raw_term(out, arguments);
                }
                Part::Term(bytes) | Part::Value(bytes) => self.term(out, &mut parts, bytes),
                Part::Pair(bytes) => self.pair(out, &mut parts, &bytes)?,
                Part::Number(n) => parts.number(out, n),
                Part::Stamp => time(out, &mut parts, parts::time(&node.clock, ticks, event)),
            }
        }
        parts.end(out)
    }

    fn name(&mut self, node: &Node, number: u64) -> Result<&Name, NoMessage> {
        let place = u32::try_from(number).map_err(|_| NoMessage)? as usize;
        if self.names.get(place).is_none_or(Option::is_none) {
            let mfa = node.name(number as u32).ok_or(NoMessage)?;
            let atoms = [atom(&mfa.module), atom(&mfa.function)].concat().into();
            if self.names.len() <= place {
                self.names.resize_with(place + 1, || None);
            }
            self.names[place] = Some(Name { atoms, arity: mfa.arity });
        }
        self.names.get(place).and_then(Option::as_ref).ok_or(NoMessage)
    }

    /// Writes the tuple of a name without its last element; answers the arity.
    fn begin_function(
        &mut self, node: &Node, name: u64, out: &mut Vec<u8>, parts: &mut Parts,
    ) -> Result<u32, NoMessage> {
        let name = self.name(node, name)?;
        parts.add(out, &[TUPLE, 3]);
        out.extend_from_slice(&name.atoms);
        Ok(name.arity)
    }

    /// Writes a process or a port.
    fn identity(&self, out: &mut Vec<u8>, parts: &mut Parts, id: u64) {
        if tracee::Kind::of(id) == tracee::Kind::Port {
            parts.add(out, &self.port);
            out.extend_from_slice(&(id >> 2).to_be_bytes());
        } else {
            parts.add(out, &self.pid);
            // id and serial are the low half and the high half
            out.extend_from_slice(&id.rotate_left(32).to_be_bytes());
        }
        out.extend_from_slice(&self.creation.to_be_bytes());
    }

    /// Writes the two terms of a pair.
    fn pair(&self, out: &mut Vec<u8>, parts: &mut Parts, payload: &[u8]) -> Result<(), NoMessage> {
        let [TUPLE, 2, ..] = payload else { return Err(NoMessage) };
        let at = out.len();
        self.raw_term(out, payload);
        out.drain(at..at + 2);
        parts.count += 2;
        Ok(())
    }

    fn term(&self, out: &mut Vec<u8>, parts: &mut Parts, bytes: &[u8]) {
        parts.add(out, &[]);
        self.raw_term(out, bytes);
    }

    fn raw_term(&self, out: &mut Vec<u8>, bytes: &[u8]) {
        if self.creation == 0 && self.node == "nonode@nohost" {
            out.extend_from_slice(bytes);
        } else {
            etf::homed(bytes, &self.node, self.creation, out);
        }
    }
}

/// A tuple of at most 255 elements.
const TUPLE: u8 = 104;

/// A tuple that is being written. Its end knows how many elements it has.
struct Parts {
    at: usize,
    count: u8,
}

impl Parts {
    fn begin(out: &mut Vec<u8>) -> Parts {
        out.extend_from_slice(&[etf::VERSION, TUPLE, 0]);
        Parts { at: out.len() - 1, count: 0 }
    }

    /// Adds an element, or the beginning of one.
    fn add(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        out.extend_from_slice(bytes);
        self.count += 1;
    }

    fn number(&mut self, out: &mut Vec<u8>, n: u64) {
        number(out, n);
        self.count += 1;
    }

    /// The message is complete. A tuple without elements is an error.
    fn end(self, out: &mut [u8]) -> Result<(), NoMessage> {
        if self.count == 0 {
            return Err(NoMessage);
        }
        *out.get_mut(self.at).ok_or(NoMessage)? = self.count;
        Ok(())
    }
}

fn time(out: &mut Vec<u8>, parts: &mut Parts, time: Time) {
    match time {
        Time::Monotonic(ns) => parts.number(out, ns),
        Time::Strict(ns, unique) => {
            parts.add(out, &[TUPLE, 2]);
            number(out, ns);
            number(out, unique);
        }
        Time::Wall(megas, seconds, micros) => {
            parts.add(out, &[TUPLE, 3]);
            number(out, megas);
            number(out, seconds);
            number(out, micros);
        }
    }
}

fn number(out: &mut Vec<u8>, n: u64) {
    let mut buffer = [0; 16];
    let mut encoder = Encoder::new(&mut buffer);
    let done = match i64::try_from(n) {
        Ok(n) => encoder.int(n),
        Err(_) => encoder.big(false, &n.to_le_bytes()),
    };
    if done.is_ok() {
        out.extend_from_slice(encoder.written());
    }
}

fn atom(name: &str) -> Vec<u8> {
    encoded(HEAD, |out| out.atom(name))
}

fn encoded(room: usize, write: impl FnOnce(&mut Encoder<'_>) -> Result<(), Full>) -> Vec<u8> {
    let mut buffer = vec![0; room];
    let mut out = Encoder::new(&mut buffer);
    let done = write(&mut out);
    debug_assert!(done.is_ok(), "room for any name");
    out.written().to_vec()
}
