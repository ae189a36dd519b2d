//! A message of a log as text.

use super::merge_state::{aliases_of, About, MergeItem, MergeState, PART};
use inviso_cpython::interpreter::local_time::local_time;
use inviso_export::{
    erlang,
    lines::{Lines, Names as Naming},
    scan::Identity,
    text,
};
use inviso_log::{
    nodes::{Nodes, Origin},
    stamp::Stamp,
    ti::Aliases,
};
use inviso_term::{etf as format, term::Term};
use pyo3::{exceptions::PyValueError, prelude::*};

/// The longest name in bytes, if it is neither an atom nor text.
const NAME: usize = 200;

/// The names of processes of all logs.
struct Names<'a> {
    nodes: &'a Nodes,
    aliases: &'a mut [Aliases],
    log: usize,
}

impl Naming for Names<'_> {
    fn name(&mut self, of: &Identity<'_>, at: Stamp, out: &mut String) -> bool {
        let Ok(node) = std::str::from_utf8(of.node) else { return false };
        if of.is_port {
            return false;
        }
        let (log, own) = self.nodes.of(node, of.creation).map_or((self.log, None), |(log, own)| (log, Some(own)));
        let Some(aliases) = self.aliases.get_mut(log).filter(|aliases| !aliases.is_empty()) else { return false };
        let origin = own.cloned().unwrap_or_else(|| Origin { node: node.into(), creation: of.creation });
        let numbers = aliases.of(&origin, of.id, at).to_vec();
        // a registered name, or else that of a thread or a task
        let is_atom = |number: &&u32| matches!(aliases.name(**number), Some(Term::Atom(_)));
        let Some(name) = numbers.iter().rev().find(is_atom).or(numbers.last()).copied() else { return false };
        match aliases.name(name) {
            Some(Term::Atom(name)) => text::bare(name, out),
            Some(Term::Str(name)) => text::bare(name, out),
            Some(term) => text::show(&format::encode(term), NAME, out),
            None => return false,
        }
        true
    }
}

/// The form of records as text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// For people.
    Lines,
    /// As Inviso.
    Inviso,
}

pub(super) fn style(name: &str) -> PyResult<Style> {
    match name {
        "text" => Ok(Style::Lines),
        "inviso" => Ok(Style::Inviso),
        _ => Err(PyValueError::new_err(format!("no text {name}"))),
    }
}

impl MergeState {
    /// Adds up to `n` lines, or about [`PART`] bytes of them; returns whether there may be more.
    pub(super) fn text(&mut self, style: Style, colour: bool, n: usize, out: &mut String) -> PyResult<bool> {
        let (_, mut lines) = match self.lines.take() {
            Some(lines) if lines.0 == colour => lines,
            _ => (colour, Lines::new(colour, local_time)),
        };
        let (mut left, mut named) = (n, Vec::new());
        let more = self.read(usize::MAX, None, |about, log, item| {
            left -= usize::from(style == Style::Lines || !matches!(item, MergeItem::Damage(_)));
            match style {
                Style::Lines => line(&mut lines, about, log, item, &mut named, out),
                Style::Inviso => inviso(about, log, item, out),
            }
            Ok(left > 0 && out.len() < PART)
        });
        self.lines = Some((colour, lines));
        more
    }
}

/// Adds a line for people.
fn line(lines: &mut Lines, about: &mut About, log: usize, item: MergeItem<'_>, named: &mut Vec<u8>, out: &mut String) {
    let About { nodes, is_named, has_labels, aliases, .. } = about;
    let label = has_labels.then(|| nodes.name(log));
    match item {
        MergeItem::Term(_, payload, _) => {
            let payload = if *is_named {
                named.clear();
                nodes.put(log, payload, named);
                named
            } else {
                payload
            };
            lines.message(payload, label, &mut Names { nodes, aliases, log }, out);
        }
        MergeItem::Dropped(n) => lines.dropped(n.into(), label, out),
        MergeItem::Damage((at, _, what, path)) => {
            let path = path.as_ref().map_or(String::new(), |path| format!("{}, ", path.display()));
            lines.damage(&format!("{path}at byte {at}: {what}"), label, out);
        }
    }
    out.push('\n');
}

/// Adds a line in Inviso's form; nothing for damage.
pub(super) fn inviso(about: &mut About, log: usize, item: MergeItem<'_>, out: &mut String) {
    let begin = |about: &About, out: &mut String| {
        let name = Term::atom(about.nodes.name(log));
        erlang::write(&format::encode(&name), &mut |_| 0, out);
        out.push_str(" [");
    };
    match item {
        MergeItem::Damage(_) => return,
        MergeItem::Dropped(n) => {
            begin(about, out);
            out.push_str(&format!("] {{drop,{n}}}"));
        }
        MergeItem::Term(_, payload, stamp) => {
            begin(about, out);
            let names = aliases_of(about, log, payload, stamp).to_vec();
            for (n, name) in names.into_iter().enumerate() {
                out.push_str(if n == 0 { "" } else { "," });
                if let Some(term) = about.aliases[log].name(name) {
                    erlang::write(&format::encode(term), &mut |_| 0, out);
                }
            }
            out.push_str("] ");
            let own = about.nodes.own(log);
            let mut place = |of: &Identity<'_>| {
                let is_own = own.is_some_and(|own| own.node.as_bytes() == of.node && own.creation == of.creation);
                if of.is_own() || is_own {
                    0
                } else {
                    u64::from(of.creation.max(1))
                }
            };
            erlang::message(payload, &mut place, out);
        }
    }
    out.push('\n');
}
