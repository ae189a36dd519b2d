//! Messages as lines of text, in the manner of OTP's `dbg`, with processes' names where they are known.
//!
//! ```text
//! (<0.4.0>) call json:loads('[1]') at 2026-11-25 12:00:00.000001
//! shop-1@h (db) send <web@shop-2@h> ! 'done'
//! ```
//!
//! A process is `<0.Id.Serial>`, or `<name>` if it has a name. A process of another node than the line's contains that node's
//! name: `<shop-2@h.4.0>`, `<name@shop-2@h>`. The line begins with its node, the tracee's, if that has a name.

mod line;
mod message;
mod processes;

use self::{
    line::Line,
    message::{node_of, ParsedMessage},
    processes::ProcessNames,
};
use crate::{
    export::with_plain,
    scan::{Bytes, Identity},
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
