//! From a record to the message that a tracer gets, in the external term format: what files and sockets take. No Python, no
//! object of it: payloads are terms already and are copied, names are encoded once.
//!
//! The shapes are trace.md's, those of tuples that a tracer in the process gets.
//!
//! ```
//! use inviso_core::{control::Op, drain::{self, Losses, What}, flags::Flags, message::Messages, node::Who, plan::kinds};
//! use inviso_core::{point::Program, session::Options, tracee::Class};
//! use inviso_term::etf;
//!
//! let program = Program::new();
//! let order = program.point("shop", "order", 1);
//! let session = program.session("log", Options::default()).unwrap();
//! program.function(&session, &[&order], kinds::LOCAL, Op::On).unwrap();
//! program.node().flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
//! drop(order.enter(|out| out.int(7)));
//!
//! let (mut messages, mut bytes) = (Messages::new("shop@here", 1), Vec::new());
//! drain::drain_borrowed(&session, 100, Losses::Between, |record| {
//!     if let What::Event(event) = &record.what {
//!         messages.put(program.node(), record.ticks, event, &mut bytes).unwrap();
//!     }
//! })
//! .unwrap();
//! assert!(etf::decode(&bytes).unwrap().to_string().ends_with(",call,{shop,order,[7]}}"));
//! ```
#![forbid(unsafe_code)]

use crate::{drain::Event, emit::stamp, messages::with_receiver, node::Node, seq_event, tracee};
use inviso_term::{
    etf::{self, Encoder, Full},
    record::Kind,
};

/// A record that is no message: of a kind that this version doesn't know, or of a function that has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record that is no message")]
pub struct NoMessage;

/// What a message calls its event; nothing for records that are no trace messages.
#[must_use]
pub fn tag(kind: Kind) -> &'static str {
    match kind {
        Kind::Call | Kind::CallArity => "call",
        Kind::ReturnTo => "return_to",
        Kind::Spawn => "spawn",
        Kind::Spawned => "spawned",
        Kind::Exit => "exit",
        Kind::ReturnFrom => "return_from",
        Kind::ExceptionFrom => "exception_from",
        Kind::Send => "send",
        Kind::SendToNonExisting => "send_to_non_existing_process",
        Kind::Receive => "receive",
        Kind::Register => "register",
        Kind::Unregister => "unregister",
        Kind::Link => "link",
        Kind::Unlink => "unlink",
        Kind::GettingLinked => "getting_linked",
        Kind::GettingUnlinked => "getting_unlinked",
        Kind::In => "in",
        Kind::Out => "out",
        Kind::InExiting => "in_exiting",
        Kind::OutExiting => "out_exiting",
        Kind::OutExited => "out_exited",
        Kind::GcMinorStart => "gc_minor_start",
        Kind::GcMinorEnd => "gc_minor_end",
        Kind::GcMajorStart => "gc_major_start",
        Kind::GcMajorEnd => "gc_major_end",
        Kind::GcMaxHeapSize => "gc_max_heap_size",
        Kind::Open => "open",
        Kind::Closed => "closed",
        _ => "",
    }
}

/// Longest head of an identifier: its tag, and an atom of 255 characters of 4 bytes.
const HEAD: usize = 4 + 4 * etf::MAX_ATOM;

/// Writes messages of one node.
pub struct Messages {
    node: String,
    creation: u32,
    /// Everything of a pid before its number.
    pid: Vec<u8>,
    /// Everything of a port before its number.
    port: Vec<u8>,
    /// By number: module and function as atoms, the arity.
    names: Vec<Option<Name>>,
    /// By kind: the message's tag as an atom.
    tags: [Vec<u8>; 256],
    trace: Vec<u8>,
    trace_ts: Vec<u8>,
    monitor: Vec<u8>,
    seq_trace: Vec<u8>,
}

struct Name {
    atoms: Box<[u8]>,
    arity: u32,
}

impl Messages {
    /// Messages whose pids, ports and references are of a node of this name and creation.
    #[must_use]
    pub fn new(node: &str, creation: u32) -> Messages {
        let mut tags = [const { Vec::new() }; 256];
        for kind in Kind::ALL.into_iter().filter(|kind| !tag(*kind).is_empty()) {
            if let Some(place) = tags.get_mut(kind as usize) {
                *place = atom(tag(kind));
            }
        }
        let mut messages = Messages {
            node: String::new(),
            creation,
            pid: Vec::new(),
            port: Vec::new(),
            names: Vec::new(),
            tags,
            trace: atom("trace"),
            trace_ts: atom("trace_ts"),
            monitor: atom("monitor"),
            seq_trace: atom("seq_trace"),
        };
        messages.identify(node, creation);
        messages
    }

    /// The node has another name from now on.
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

    /// Adds the message of an event that happened at `ticks`, with the version byte.
    ///
    /// # Errors
    /// [`NoMessage`]; then nothing was added.
    pub fn put(&mut self, node: &Node, ticks: u64, event: &Event<&[u8]>, out: &mut Vec<u8>) -> Result<(), NoMessage> {
        let at = out.len();
        let done = self.message(node, ticks, event, out);
        if done.is_err() {
            out.truncate(at);
        }
        done
    }

    fn message(&mut self, node: &Node, ticks: u64, event: &Event<&[u8]>, out: &mut Vec<u8>) -> Result<(), NoMessage> {
        let kind = Kind::from_u8(event.kind).ok_or(NoMessage)?;
        let stamped = event.stamps & stamp::MASK != stamp::NONE;
        let mut parts = Parts::begin(out);
        match kind {
            Kind::Monitor => {
                // `{monitor, Pid, Event, Info}`
                parts.add(out, &self.monitor);
                self.identity(out, &mut parts, event.tracee);
                self.pair(out, &mut parts, event.payload)?;
                return parts.end(out);
            }
            Kind::Seq => {
                // `{seq_trace, Label, Info}`, and a time stamp perhaps
                parts.add(out, &self.seq_trace);
                self.pair(out, &mut parts, &seq_event::pair(event))?;
                if stamped {
                    time(out, &mut parts, node, ticks, event);
                }
                return parts.end(out);
            }
            _ => {}
        }
        parts.add(out, if stamped { &self.trace_ts } else { &self.trace });
        self.identity(out, &mut parts, event.tracee);
        let tag = self.tags.get(kind as usize).filter(|tag| !tag.is_empty()).ok_or(NoMessage)?;
        parts.add(out, tag);
        self.what(node, kind, event, out, &mut parts)?;
        if !event.extra.is_empty() {
            self.term(out, &mut parts, event.extra);
        }
        if event.stamps & stamp::SCHEDULER != 0 {
            parts.number(out, event.scheduler.into());
        }
        if stamped {
            time(out, &mut parts, node, ticks, event);
        }
        parts.end(out)
    }

    fn what(
        &mut self, node: &Node, kind: Kind, event: &Event<&[u8]>, out: &mut Vec<u8>, parts: &mut Parts,
    ) -> Result<(), NoMessage> {
        match kind {
            // nothing in the arguments' place: the interpreter did not show any
            Kind::Call | Kind::CallArity if kind == Kind::CallArity || event.payload.is_empty() => {
                self.mfa(node, event, out, parts)?;
            }
            Kind::Call => {
                let name = self.name(node, event.what)?;
                parts.add(out, &[TUPLE, 3]);
                out.extend_from_slice(&name.atoms);
                self.raw_term(out, event.payload);
            }
            Kind::ReturnTo if event.payload.is_empty() => self.mfa(node, event, out, parts)?,
            Kind::Spawn | Kind::Spawned | Kind::Open => {
                self.identity(out, parts, event.what);
                self.term(out, parts, event.payload);
            }
            Kind::ReturnFrom | Kind::ExceptionFrom => {
                self.mfa(node, event, out, parts)?;
                self.term(out, parts, event.payload);
            }
            Kind::Send | Kind::SendToNonExisting if event.what == 0 => {
                let (message, receiver) = with_receiver(event.payload);
                self.term(out, parts, message);
                self.term(out, parts, receiver);
            }
            Kind::Send | Kind::SendToNonExisting => {
                self.term(out, parts, event.payload);
                self.identity(out, parts, event.what);
            }
            Kind::Link | Kind::Unlink | Kind::GettingLinked | Kind::GettingUnlinked => {
                self.identity(out, parts, event.what);
            }
            _ => self.term(out, parts, event.payload),
        }
        Ok(())
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

    fn mfa(
        &mut self, node: &Node, event: &Event<&[u8]>, out: &mut Vec<u8>, parts: &mut Parts,
    ) -> Result<(), NoMessage> {
        let name = self.name(node, event.what)?;
        parts.add(out, &[TUPLE, 3]);
        out.extend_from_slice(&name.atoms);
        number(out, name.arity.into());
        Ok(())
    }

    /// A process or a port.
    fn identity(&self, out: &mut Vec<u8>, parts: &mut Parts, id: u64) {
        if tracee::Kind::of(id) == tracee::Kind::Port {
            parts.add(out, &self.port);
            out.extend_from_slice(&(id >> 2).to_be_bytes());
        } else {
            parts.add(out, &self.pid);
            // id and serial are the low and the high half
            out.extend_from_slice(&id.rotate_left(32).to_be_bytes());
        }
        out.extend_from_slice(&self.creation.to_be_bytes());
    }

    /// The two terms of a pair.
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

/// A tuple that is being written; how many elements it has is known at its end.
struct Parts {
    at: usize,
    count: u8,
}

impl Parts {
    fn begin(out: &mut Vec<u8>) -> Parts {
        out.extend_from_slice(&[etf::VERSION, TUPLE, 0]);
        Parts { at: out.len() - 1, count: 0 }
    }

    /// One element, or its beginning.
    fn add(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        out.extend_from_slice(bytes);
        self.count += 1;
    }

    fn number(&mut self, out: &mut Vec<u8>, n: u64) {
        number(out, n);
        self.count += 1;
    }

    fn end(self, out: &mut [u8]) -> Result<(), NoMessage> {
        *out.get_mut(self.at).ok_or(NoMessage)? = self.count;
        Ok(())
    }
}

/// The time stamp that the record's flags ask for.
fn time(out: &mut Vec<u8>, parts: &mut Parts, node: &Node, ticks: u64, event: &Event<&[u8]>) {
    let carried = (event.stamps & stamp::CARRIED != 0).then_some(event.carried);
    let monotonic = || carried.unwrap_or_else(|| node.clock.monotonic(ticks));
    match event.stamps & stamp::MASK {
        stamp::TIMESTAMP => {
            let micros = carried.unwrap_or_else(|| node.clock.wall(ticks)) / 1000;
            parts.add(out, &[TUPLE, 3]);
            number(out, micros / 1_000_000_000_000);
            number(out, micros / 1_000_000 % 1_000_000);
            number(out, micros % 1_000_000);
        }
        stamp::STRICT => {
            parts.add(out, &[TUPLE, 2]);
            number(out, monotonic());
            number(out, event.unique);
        }
        _ => parts.number(out, monotonic()),
    }
}

fn number(out: &mut Vec<u8>, n: u64) {
    let mut buffer = [0; 16];
    let mut encoder = Encoder::new(&mut buffer);
    if encoder.big(false, &n.to_le_bytes()).is_ok() {
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
