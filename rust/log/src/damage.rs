//! What can be wrong with a log. None of it is an error of the reader: it is told as part of what was read.

use inviso_term::etf::DecodeError;
use thiserror::Error;

/// Something that could not be read.
///
/// ```
/// use inviso_log::{damage::What, reader::{Event, Reader}};
/// let mut reader = Reader::new(&[0, 0, 0, 0, 9, 131][..]);
/// let Some(Event::Damage(damage)) = reader.read().unwrap() else { unreachable!() };
/// assert_eq!((damage.at, damage.what), (0, What::Cut(6)));
/// assert_eq!(damage.to_string(), "at byte 0: the last record is cut off after 6 bytes");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("at byte {at}: {what}")]
pub struct Damage {
    /// Where it begins, in bytes from the start of the file or stream.
    pub at: u64,
    /// What it is.
    pub what: What,
}

/// What could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum What {
    /// The bytes end in the middle of a record; so many of it are there.
    #[error("the last record is cut off after {0} bytes")]
    Cut(u64),
    /// No record begins with this byte. Nothing tells where the next one is, so this ends the file.
    #[error("no record begins with {0}")]
    Op(u8),
    /// A record claims to have more bytes than the reader takes, which ends the file; or a block, and the next one is read.
    #[error("a record of {0} bytes")]
    Long(u64),
    /// The payload doesn't begin as terms do. The records behind it are read.
    #[error("a record without a term")]
    NoTerm,
    /// So many zeros stand where a record should be. What follows them is read, where a whole record with a whole term is found right
    /// behind them; otherwise as if they were records without a term, five by five.
    #[error("a hole of {0} zero bytes")]
    Hole(u64),
    /// The payload begins as terms do and is none. The records behind it are read.
    #[error("{0}")]
    Term(DecodeError),
    /// A compressed block is damaged. The blocks behind it are read.
    #[error("a damaged block")]
    Block,
    /// The writer of a wrap set came round and deleted the file that was being read, and perhaps others behind it. It goes on with
    /// the oldest one.
    #[error("the writer came round")]
    Overtaken,
    /// A file that is followed, also one of a wrap set, is shorter than what was read of it, or begins or goes on otherwise: somebody emptied it and began
    /// anew. It is read from its beginning.
    #[error("the file was begun anew")]
    Anew,
}

impl What {
    /// One word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            What::Cut(_) => "cut",
            What::Op(_) => "op",
            What::Long(_) => "long",
            What::NoTerm | What::Term(_) => "term",
            What::Hole(_) => "hole",
            What::Block => "block",
            What::Overtaken => "overtaken",
            What::Anew => "anew",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_damage_has_one_word_and_says_where_it_is() {
        let term = DecodeError::Short;
        let all = [
            (What::Cut(3), "cut"),
            (What::Op(7), "op"),
            (What::Long(9), "long"),
            (What::NoTerm, "term"),
            (What::Term(term), "term"),
            (What::Hole(6), "hole"),
            (What::Block, "block"),
            (What::Overtaken, "overtaken"),
            (What::Anew, "anew"),
        ];
        for (what, word) in all {
            assert_eq!(what.name(), word);
            assert_eq!(Damage { at: 12, what }.to_string(), format!("at byte 12: {what}"));
        }
    }
}
