//! The damage that a log can have. It is no error of the reader: it is reported among the records.

use inviso_term::etf::DecodeError;
use thiserror::Error;

/// A part of a log that could not be read.
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
    /// The offset of its beginning in the file or stream.
    pub at: u64,
    /// The kind.
    pub what: What,
}

/// The kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum What {
    /// The bytes end in the middle of a record. This many of its bytes are there.
    #[error("the last record is cut off after {0} bytes")]
    Cut(u64),
    /// No record begins with this byte. The next record can't be found, so the file ends here.
    #[error("no record begins with {0}")]
    Op(u8),
    /// A record claims more bytes than the reader accepts. The file ends here. After a too long block, the next block is read.
    #[error("a record of {0} bytes")]
    Long(u64),
    /// The payload doesn't begin like a term. The following records are read.
    #[error("a record without a term")]
    NoTerm,
    /// This many zeros are in the place of a record. Reading goes on with the first whole record with a whole term after them. If
    /// there is none, each five zeros count as a record without a term.
    #[error("a hole of {0} zero bytes")]
    Hole(u64),
    /// The payload begins like a term but is not a valid one. The following records are read.
    #[error("{0}")]
    Term(DecodeError),
    /// A compressed block is damaged. The following blocks are read.
    #[error("a damaged block")]
    Block,
    /// The writer of a wrap set has deleted the file that was being read, and perhaps later ones. Reading goes on with the oldest
    /// file.
    #[error("the writer deleted the file that was being read")]
    Overtaken,
    /// A followed file is shorter than what was read of it, or has other contents: another program emptied and restarted it. The
    /// file may be one of a wrap set. It is read from its beginning.
    #[error("the file was emptied and started again")]
    Anew,
}

impl What {
    /// Its name in one word.
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
