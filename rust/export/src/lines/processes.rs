//! The text of processes in lines.

use super::{message::NAMELESS, Names};
use crate::{scan::Identity, text};
use inviso_log::stamp::Stamp;

/// The first number in pids of the second node without a name.
const OTHER: u64 = 64;

/// Formats processes.
pub(super) struct ProcessNames<'l> {
    pub(super) nameless: &'l mut Vec<u32>,
    pub(super) names: &'l mut dyn Names,
    pub(super) node: Option<&'l [u8]>,
    pub(super) at: Option<Stamp>,
}

impl ProcessNames<'_> {
    /// `<name>` or `<0.4.0>`. A tracee's name is without brackets.
    pub(super) fn show(&mut self, of: &Identity<'_>, is_tracee: bool, out: &mut String) {
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

pub(super) fn int(n: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(n));
}
