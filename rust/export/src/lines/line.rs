//! The text of one line.

use super::{
    message::{class, text_of, ParsedMessage, SPECIAL},
    paint,
    processes::{int, ProcessNames},
    LocalTime,
};
use crate::{
    scan::{Bytes, Identity, Scan},
    text,
};
use std::fmt::Write;

pub(super) struct Line<'l, 'o> {
    pub(super) who: ProcessNames<'l>,
    pub(super) colour: bool,
    pub(super) local: LocalTime,
    pub(super) second: &'l mut Option<(i64, Option<String>)>,
    pub(super) out: &'o mut String,
}

impl Line<'_, '_> {
    pub(super) fn show(&mut self, term: Bytes<'_>) -> Option<()> {
        let who = &mut self.who;
        text::show_with(term, &mut |of, out| who.show(of, false, out), self.out)
    }

    pub(super) fn message(&mut self, message: &ParsedMessage<'_>) -> Option<()> {
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

    // more than 60 lines: one short arm for each tag of a message
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
        if module.starts_with(SPECIAL) || !matches!(last.first()?, 97 | 98 | 106 | 107 | 108) {
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
