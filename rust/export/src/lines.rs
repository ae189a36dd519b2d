//! Messages as lines of text, in the manner of OTP's `dbg`, with processes' names where they are known.
//!
//! ```text
//! (<0.4.0>) call json:loads('[1]') at 2026-11-25 12:00:00.000001
//! shop-1@h (db) send <web@shop-2@h> ! 'done'
//! ```
//!
//! A process is `<0.Id.Serial>`, or `<name>` if it has a name. A process of another node than the line's contains that node's
//! name: `<shop-2@h.4.0>`, `<name@shop-2@h>`. The line begins with its node, the tracee's, if that has a name.

use crate::{
    export::with_plain,
    scan::{Bytes, Identity, Scan},
    text,
};
use inviso_log::stamp::{self, Stamp};
use inviso_term::etf;
use std::fmt::Write;

/// A source of names.
pub trait Names {
    /// Appends the name of a process at a time. Answers whether it has one.
    fn name(&mut self, of: &Identity<'_>, at: Stamp, out: &mut String) -> bool;
}

/// Without names.
impl Names for () {
    fn name(&mut self, _: &Identity<'_>, _: Stamp, _: &mut String) -> bool {
        false
    }
}

/// The local time of a second since 1970, as `2026-11-25 12:00:00`; None if the system has none for it.
pub type LocalTime = fn(i64) -> Option<String>;

/// Formats lines.
#[derive(Debug)]
pub struct Lines {
    colour: bool,
    local: LocalTime,
    /// The second that was formatted last.
    second: Option<(i64, Option<String>)>,
    /// Creations of nodes without a name, in the order of their first pids. The first one's pids begin with 0.
    nameless: Vec<u32>,
}

const NAMELESS: &[u8] = b"nonode@nohost";

/// The first number in pids of the second node without a name.
const OTHER: u64 = 64;

impl Lines {
    /// Creates a formatter, with or without a terminal's escape sequences. Control characters in messages are escaped in both
    /// cases.
    #[must_use]
    pub fn new(colour: bool, local: LocalTime) -> Lines {
        Lines { colour, local, second: None, nameless: Vec::new() }
    }

    /// Appends the line of a message, without a line end. `node` is the log's node, if it is known.
    ///
    /// ```
    /// use inviso_export::lines::Lines;
    /// use inviso_term::{etf, term::{Identifier, Term}};
    /// let mfa = Term::Tuple(vec![Term::atom("m"), Term::atom("f"), Term::List(vec![Term::str("a")])]);
    /// let parts = vec![Term::atom("trace_ts"), Term::Pid(Identifier::new(4, "shop@h", 3)), Term::atom("call"), mfa, Term::from(5)];
    /// let mut text = String::new();
    /// Lines::new(false, |_| None).message(&etf::encode(&Term::Tuple(parts)), None, &mut (), &mut text);
    /// assert_eq!(text, "shop@h (<0.4.0>) call m:f('a') at 5 ns");
    /// ```
    pub fn message(&mut self, payload: Bytes<'_>, node: Option<&str>, names: &mut dyn Names, out: &mut String) {
        with_plain(payload, |term| {
            let term = term.strip_prefix(&[etf::VERSION]).unwrap_or(term);
            let message = ParsedMessage::of(term);
            let of = message.as_ref().and_then(|message| node_of(message.about));
            let node = of.or(node.map(str::as_bytes));
            if let Some(node) = node {
                text::bare(&text::name(node), out);
                out.push(' ');
            }
            let head = out.len();
            let at = message.as_ref().and_then(|message| stamp::begins(message.stamp?));
            let mut line = Line {
                who: ProcessNames { nameless: &mut self.nameless, names, node, at },
                colour: self.colour,
                local: self.local,
                second: &mut self.second,
                out,
            };
            let shown = match &message {
                Some(message) => line.message(message),
                None => line.show(term),
            };
            if shown.is_none() {
                // an encoding that is not used any more, or too deep
                out.truncate(head);
                match etf::decode(term) {
                    Ok(term) => drop(write!(out, "{term}")),
                    Err(_) => out.push_str("..."),
                }
            }
        });
    }

    /// Appends the line of lost messages.
    pub fn dropped(&self, n: u64, node: Option<&str>, out: &mut String) {
        head(node, out);
        let text = format!("*** {n} message{} dropped", if n == 1 { " was" } else { "s were" });
        paint(self.colour, &text, b"drop", out);
    }

    /// Appends the line of a damage.
    pub fn damage(&self, what: &str, node: Option<&str>, out: &mut String) {
        head(node, out);
        let mut text = "*** damage: ".to_owned();
        text::bare(what, &mut text);
        paint(self.colour, &text, b"damage", out);
    }
}

fn paint(is_wanted: bool, text: &str, tag: &[u8], out: &mut String) {
    match colour(tag).filter(|_| is_wanted) {
        Some(colour) => drop(write!(out, "\x1b[{colour}m{text}\x1b[0m")),
        None => out.push_str(text),
    }
}

fn head(node: Option<&str>, out: &mut String) {
    if let Some(node) = node {
        text::bare(node, out);
        out.push(' ');
    }
}

fn colour(tag: &[u8]) -> Option<&'static str> {
    Some(match tag {
        b"call" => "36",
        b"return_from" => "32",
        b"return_to" => "2;32",
        b"exception_from" => "31",
        b"send" => "35",
        b"receive" => "34",
        b"drop" => "1;33",
        b"damage" => "1;31",
        b"time" => "2",
        _ => return None,
    })
}

/// A message, parsed as far as lines need it.
struct ParsedMessage<'a> {
    /// The tracee.
    about: Bytes<'a>,
    is_seq: bool,
    tag: Bytes<'a>,
    rest: Vec<Bytes<'a>>,
    stamp: Option<Bytes<'a>>,
}

impl<'a> ParsedMessage<'a> {
    fn of(term: Bytes<'a>) -> Option<ParsedMessage<'a>> {
        let mut scan = Scan(term);
        let n = scan.tuple()?;
        let head = scan.name()?;
        let is_seq = head == b"seq_trace";
        let has_stamp = head == b"trace_ts" || (is_seq && n == 4);
        let parts = match head {
            b"trace" | b"trace_ts" => n.checked_sub(3 + usize::from(has_stamp))?,
            b"seq_trace" if n == 3 || n == 4 => 1,
            _ => return None,
        };
        let first = scan.term()?;
        let tag: &[u8] = if is_seq { b"" } else { text_of(scan.term()?)? };
        let mut rest = Vec::with_capacity(parts.min(8));
        for _ in 0..parts {
            rest.push(scan.term()?);
        }
        let stamp = if has_stamp { Some(scan.term()?) } else { None };
        if is_seq {
            let about = rest.first().and_then(|info| about(info)).unwrap_or_default();
            rest.insert(0, first);
            return Some(ParsedMessage { about, is_seq, tag, rest, stamp });
        }
        Some(ParsedMessage { about: first, is_seq, tag, rest, stamp })
    }
}

/// The process of a token's message: its receiver, else its sender.
fn about(info: Bytes<'_>) -> Option<Bytes<'_>> {
    let mut scan = Scan(info);
    if scan.tuple()? != 5 {
        return None;
    }
    let word = scan.name()?;
    scan.skip()?;
    let (from, to) = (scan.term()?, scan.term()?);
    Some(if word == b"receive" { to } else { from })
}

fn node_of(process: Bytes<'_>) -> Option<&[u8]> {
    Identity::of(process).map(|of| of.node).filter(|node| *node != NAMELESS)
}

/// The text of a term that is text in Python.
fn text_of(term: Bytes<'_>) -> Option<&[u8]> {
    let name = Scan(term).name()?;
    let is_binary = term.first() == Some(&109);
    let is_text =
        if is_binary { std::str::from_utf8(name).is_ok() } else { !matches!(name, b"true" | b"false" | b"undefined") };
    is_text.then_some(name)
}

/// Formats processes.
struct ProcessNames<'l> {
    nameless: &'l mut Vec<u32>,
    names: &'l mut dyn Names,
    node: Option<&'l [u8]>,
    at: Option<Stamp>,
}

struct Line<'l, 'o> {
    who: ProcessNames<'l>,
    colour: bool,
    local: LocalTime,
    second: &'l mut Option<(i64, Option<String>)>,
    out: &'o mut String,
}

impl ProcessNames<'_> {
    /// `<name>` or `<0.4.0>`. A tracee's name is without brackets.
    fn show(&mut self, of: &Identity<'_>, is_tracee: bool, out: &mut String) {
        let is_here = self.node == Some(of.node);
        // a process with a name counts, too
        let nameless = (of.node == NAMELESS).then(|| self.nameless(of.creation));
        let begin = out.len();
        out.push_str(if is_tracee { "" } else { "<" });
        if let Some(true) = self.at.map(|at| self.names.name(of, at, out)) {
            if !is_here && of.node != NAMELESS {
                out.push('@');
                text::bare(&text::name(of.node), out);
            }
            return out.push_str(if is_tracee { "" } else { ">" });
        }
        out.truncate(begin);
        out.push_str(if of.is_port { "#Port<" } else { "<" });
        if is_here {
            out.push('0');
        } else if let Some(number) = nameless {
            int(number, out);
        } else {
            text::bare(&text::name(of.node), out);
        }
        out.push('.');
        if of.is_port {
            int(of.id, out);
        } else {
            int(of.id & 0xffff_ffff, out);
            out.push('.');
            int(of.id >> 32, out);
        }
        out.push('>');
    }

    /// The first number in pids of a node without a name.
    fn nameless(&mut self, creation: u32) -> u64 {
        let known = self.nameless.iter().position(|other| *other == creation);
        let at = known.unwrap_or_else(|| {
            self.nameless.push(creation);
            self.nameless.len() - 1
        });
        if at == 0 {
            0
        } else {
            OTHER + at as u64
        }
    }
}

fn int(n: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(n));
}

impl Line<'_, '_> {
    fn show(&mut self, term: Bytes<'_>) -> Option<()> {
        let who = &mut self.who;
        text::show_with(term, &mut |of, out| who.show(of, false, out), self.out)
    }

    fn message(&mut self, message: &ParsedMessage<'_>) -> Option<()> {
        if message.is_seq {
            self.out.push_str("seq_trace ");
            self.show(message.rest.first()?)?;
            self.out.push_str(": ");
            self.show(message.rest.get(1)?)?;
        } else {
            self.out.push('(');
            match Identity::of(message.about) {
                Some(of) => self.who.show(&of, true, self.out),
                None => self.show(message.about)?,
            }
            self.out.push_str(") ");
            self.event(message.tag, &message.rest)?;
        }
        if let Some(stamp) = message.stamp {
            self.out.push(' ');
            let begin = self.out.len();
            self.out.push_str("at ");
            self.moment(stamp)?;
            self.painted(begin, b"time");
        }
        Some(())
    }

    /// Colours the text since `begin`.
    fn painted(&mut self, begin: usize, tag: &[u8]) {
        if self.colour {
            let text = self.out.split_off(begin);
            paint(true, &text, tag, self.out);
        }
    }

    fn tag(&mut self, text: &str, tag: &[u8]) {
        let begin = self.out.len();
        text::bare(text, self.out);
        self.painted(begin, tag);
    }

    fn event(&mut self, tag: Bytes<'_>, rest: &[Bytes<'_>]) -> Option<()> {
        match (tag, rest) {
            (b"call", [mfa, extra @ ..]) => {
                self.tag("call", tag);
                self.out.push(' ');
                self.function(mfa)?;
                self.extras(extra)
            }
            (b"return_from", [mfa, value, extra @ ..]) => {
                self.tag("returned from", tag);
                self.out.push(' ');
                self.function(mfa)?;
                self.out.push_str(" -> ");
                self.show(value)?;
                self.extras(extra)
            }
            (b"exception_from", [mfa, pair, extra @ ..]) if class(pair).is_some() => {
                let (class, value) = class(pair)?;
                self.tag("exception from", tag);
                self.out.push(' ');
                self.function(mfa)?;
                self.out.push_str(": ");
                text::bare(&text::name(class), self.out);
                self.out.push(' ');
                self.show(value)?;
                self.extras(extra)
            }
            (b"return_to", [mfa, extra @ ..]) => {
                self.tag("returned to", tag);
                self.out.push(' ');
                self.function(mfa)?;
                self.extras(extra)
            }
            (b"send" | b"send_to_non_existing_process", [value, to, extra @ ..]) => {
                self.show(to)?;
                self.out.push(' ');
                self.tag("!", b"send");
                self.out.push(' ');
                self.show(value)?;
                self.out.push_str(if tag == b"send" { "" } else { " (no such process)" });
                self.extras(extra)
            }
            (b"receive", [value, extra @ ..]) => {
                self.tag("<<", tag);
                self.out.push(' ');
                self.show(value)?;
                self.extras(extra)
            }
            (b"spawn" | b"spawned", [who, mfa, extra @ ..]) => {
                self.tag(&text::name(tag), tag);
                self.out.push(' ');
                self.show(who)?;
                self.out.push_str(" as ");
                self.function(mfa)?;
                self.extras(extra)
            }
            (b"in" | b"out" | b"in_exiting" | b"out_exiting", [mfa, extra @ ..]) => {
                self.tag(&text::name(tag), tag);
                self.out.push(' ');
                self.function(mfa)?;
                self.extras(extra)
            }
            _ => {
                self.tag(&text::name(tag), tag);
                if !rest.is_empty() {
                    self.out.push(' ');
                    self.items(rest)?;
                }
                Some(())
            }
        }
    }

    fn items(&mut self, terms: &[Bytes<'_>]) -> Option<()> {
        for (n, term) in terms.iter().enumerate() {
            self.out.push_str(if n == 0 { "" } else { ", " });
            self.show(term)?;
        }
        Some(())
    }

    fn extras(&mut self, extra: &[Bytes<'_>]) -> Option<()> {
        if !extra.is_empty() {
            self.out.push_str(" (");
            self.items(extra)?;
            self.out.push(')');
        }
        Some(())
    }

    /// A function as messages write it, with its arguments or its arity.
    fn function(&mut self, term: Bytes<'_>) -> Option<()> {
        match self.named(term) {
            Some(shown) => shown,
            None => self.show(term),
        }
    }

    /// None if it is another term. Then nothing was appended.
    fn named(&mut self, term: Bytes<'_>) -> Option<Option<()>> {
        let mut scan = Scan(term);
        if scan.tuple()? != 3 {
            return None;
        }
        let (module, function) = (text_of(scan.term()?)?, text_of(scan.term()?)?);
        let last = scan.term()?;
        let mut arguments = Scan(last);
        if !matches!(last.first()?, 97 | 98 | 106 | 107 | 108) {
            return None;
        }
        let n = match last.first()? {
            108 => {
                let n = arguments.list()?;
                let mut tail = arguments;
                (0..n).try_for_each(|_| tail.skip())?;
                if tail.tag()? != 106 || n == 0 {
                    return None;
                }
                n
            }
            _ => 0,
        };
        text::bare(&text::name(module), self.out);
        self.out.push(':');
        text::bare(&text::name(function), self.out);
        Some((|| {
            match last {
                [97 | 98, ..] => {
                    self.out.push('/');
                    self.out.push_str(itoa::Buffer::new().format(arguments.int()?));
                }
                [107, _, _, bytes @ ..] => {
                    self.out.push('(');
                    for (n, byte) in bytes.iter().enumerate() {
                        self.out.push_str(if n == 0 { "" } else { ", " });
                        int(u64::from(*byte), self.out);
                    }
                    self.out.push(')');
                }
                _ => {
                    self.out.push('(');
                    for n in 0..n {
                        self.out.push_str(if n == 0 { "" } else { ", " });
                        self.show(arguments.term()?)?;
                    }
                    self.out.push(')');
                }
            }
            Some(())
        })())
    }

    /// A timestamp: the local time, or nanoseconds.
    fn moment(&mut self, stamp: Bytes<'_>) -> Option<()> {
        match self.time(stamp) {
            Some(()) => Some(()),
            None => self.show(stamp),
        }
    }

    fn time(&mut self, stamp: Bytes<'_>) -> Option<()> {
        let mut scan = Scan(stamp);
        if let Some(ns) = scan.int() {
            let _ = write!(self.out, "{ns} ns");
            return Some(());
        }
        match scan.tuple()? {
            2 => {
                let (ns, unique) = (scan.int()?, scan.int()?);
                let _ = write!(self.out, "{ns} ns ({unique})");
            }
            3 => {
                let (megas, seconds, micros) = (scan.int()?, scan.int()?, scan.int()?);
                let second = megas.checked_mul(1_000_000)?.checked_add(seconds)?;
                if self.second.as_ref().is_none_or(|(known, _)| *known != second) {
                    *self.second = Some((second, (self.local)(second)));
                }
                let (_, text) = self.second.as_ref()?;
                self.out.push_str(text.as_ref()?);
                let _ = write!(self.out, ".{micros:06}");
            }
            _ => return None,
        }
        Some(())
    }
}

/// The class and the value of an exception.
fn class(pair: Bytes<'_>) -> Option<(&[u8], Bytes<'_>)> {
    let mut scan = Scan(pair);
    if scan.tuple()? != 2 {
        return None;
    }
    Some((text_of(scan.term()?)?, scan.term()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use inviso_term::term::{Identifier, Term};

    fn line(term: &Term, node: Option<&str>) -> String {
        let mut text = String::new();
        let local: LocalTime = |second| (second >= 0).then(|| format!("second {second}"));
        Lines::new(false, local).message(&etf::encode_versioned(term), node, &mut Db, &mut text);
        text
    }

    /// Process 9 of every node is named `db`.
    struct Db;

    impl Names for Db {
        fn name(&mut self, of: &Identity<'_>, _: Stamp, out: &mut String) -> bool {
            if of.id == 9 {
                out.push_str("db");
            }
            of.id == 9
        }
    }

    fn wall(second: i64) -> Term {
        Term::Tuple(vec![Term::from(0), Term::from(second), Term::from(5)])
    }

    #[test]
    fn a_line_has_its_node() {
        let of = |id, node: &str| Term::Pid(Identifier::new(id, node, 3));
        let send = |from: Term, to: Term| {
            Term::Tuple(vec![Term::atom("trace_ts"), from, Term::atom("send"), Term::atom("hi"), to, wall(1)])
        };
        for (term, node, text) in [
            (send(of(4, "a@h"), of(5, "a@h")), None, "a@h (<0.4.0>) <0.5.0> ! 'hi' at second 1.000005"),
            (send(of(9, "a@h"), of(5, "b@h")), None, "a@h (db) <b@h.5.0> ! 'hi' at second 1.000005"),
            (send(of(4, "a@h"), of(9, "a@h")), Some("x@h"), "a@h (<0.4.0>) <db> ! 'hi' at second 1.000005"),
            (send(of(4, "a@h"), of(9, "b@h")), None, "a@h (<0.4.0>) <db@b@h> ! 'hi' at second 1.000005"),
            (
                send(of(4, "nonode@nohost"), of(9, "nonode@nohost")),
                Some("x@h"),
                "x@h (<0.4.0>) <db> ! 'hi' at second 1.000005",
            ),
            (send(of(9, "nonode@nohost"), of(5, "nonode@nohost")), None, "(db) <0.5.0> ! 'hi' at second 1.000005"),
        ] {
            assert_eq!(line(&term, node), text);
        }
        let unstamped = Term::Tuple(vec![Term::atom("trace"), of(9, "a@h"), Term::atom("exit"), Term::atom("normal")]);
        assert_eq!(line(&unstamped, None), "a@h (<0.9.0>) exit 'normal'", "no time, no name");
        let info = |word: &str| {
            let serial = Term::Tuple(vec![Term::from(0), Term::from(1)]);
            Term::Tuple(vec![Term::atom(word), serial, of(9, "a@h"), of(5, "b@h"), Term::atom("m")])
        };
        for (word, text) in [
            ("send", "a@h seq_trace 7: ('send', (0, 1), <db>, <b@h.5.0>, 'm') at second 1.000005"),
            ("receive", "b@h seq_trace 7: ('receive', (0, 1), <db@a@h>, <0.5.0>, 'm') at second 1.000005"),
        ] {
            assert_eq!(
                line(&Term::Tuple(vec![Term::atom("seq_trace"), Term::from(7), info(word), wall(1)]), None),
                text
            );
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        for bad in ["\x1b[2J", "a\nb", "\u{202e}", "\u{85}", "\u{2028}", "\u{e000}"] {
            let mfa =
                Term::Tuple(vec![Term::atom(bad), Term::atom(bad), Term::List(vec![Term::str(bad), Term::atom(bad)])]);
            let parts = vec![Term::atom("trace"), Term::Pid(Identifier::new(4, bad, 3)), Term::atom("call"), mfa];
            let shown = line(&Term::Tuple(parts), None);
            assert!(shown.chars().all(text::is_printable), "{shown:?}");
        }
    }

    #[test]
    fn a_cut_or_too_deep_message_has_a_line() {
        let mut deep = Term::List(vec![Term::from(1)]);
        for _ in 0..150 {
            deep = Term::List(vec![deep]);
        }
        let whole = Term::Tuple(vec![Term::atom("trace"), Term::Pid(Identifier::own(4)), Term::atom("exit"), deep]);
        let bytes = etf::encode_versioned(&whole);
        for length in 0..bytes.len() {
            let mut text = String::new();
            Lines::new(true, |_| None).message(
                bytes.get(..length).unwrap_or_default(),
                Some("a@h"),
                &mut (),
                &mut text,
            );
            assert!(text.starts_with("a@h "), "{text}");
        }
    }
}
