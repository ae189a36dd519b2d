//! A trace message, parsed as far as lines need it.

use crate::scan::{Bytes, Identity, Scan};

/// The name of a node without a name.
pub(super) const NAMELESS: &[u8] = b"nonode@nohost";

/// A message, parsed as far as lines need it.
pub(super) struct ParsedMessage<'a> {
    /// The tracee.
    pub(super) about: Bytes<'a>,
    pub(super) is_seq: bool,
    pub(super) tag: Bytes<'a>,
    pub(super) rest: Vec<Bytes<'a>>,
    pub(super) stamp: Option<Bytes<'a>>,
}

impl<'a> ParsedMessage<'a> {
    pub(super) fn of(term: Bytes<'a>) -> Option<ParsedMessage<'a>> {
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
pub(super) fn about(info: Bytes<'_>) -> Option<Bytes<'_>> {
    let mut scan = Scan(info);
    if scan.tuple()? != 5 {
        return None;
    }
    let word = scan.name()?;
    scan.skip()?;
    let (from, to) = (scan.term()?, scan.term()?);
    Some(if word == b"receive" { to } else { from })
}

pub(super) fn node_of(process: Bytes<'_>) -> Option<&[u8]> {
    Identity::of(process).map(|of| of.node).filter(|node| *node != NAMELESS)
}

/// The text of a term that is text in Python.
pub(super) fn text_of(term: Bytes<'_>) -> Option<&[u8]> {
    let name = Scan(term).name()?;
    let is_binary = term.first() == Some(&109);
    let is_text =
        if is_binary { std::str::from_utf8(name).is_ok() } else { !matches!(name, b"true" | b"false" | b"undefined") };
    is_text.then_some(name)
}

/// The class and the value of an exception.
pub(super) fn class(pair: Bytes<'_>) -> Option<(&[u8], Bytes<'_>)> {
    let mut scan = Scan(pair);
    if scan.tuple()? != 2 {
        return None;
    }
    let (name, value) = (text_of(scan.term()?)?, scan.term()?);
    (!name.starts_with(SPECIAL)).then_some((name, value))
}

/// The beginning of the first name of a tuple that stands for a value that Erlang has no type for (`inviso_term::etf`).
pub(super) const SPECIAL: &[u8] = b"$inviso.";
