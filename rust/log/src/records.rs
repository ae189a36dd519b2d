//! The records of bytes in memory, borrowed from them.

use crate::{
    damage::{Damage, What},
    frame::{self, Next, Record},
    hole,
};
use inviso_term::etf;

/// The records of bytes in Erlang's form, each with its offset, and the damage between them.
///
/// ```
/// use inviso_log::{damage::{Damage, What}, frame::Record, records::Records};
/// let bytes = [1, 0, 0, 0, 9, 0, 0, 0, 0, 2, 131, 106, 0, 0];
/// let all: Vec<_> = Records::new(&bytes).collect();
/// assert_eq!(all[0], Ok((0, Record::Dropped(9))));
/// assert_eq!(all[1], Ok((5, Record::Term(&[131, 106]))));
/// assert_eq!(all[2], Err(Damage { at: 12, what: What::Cut(2) }));
/// assert_eq!(all.len(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    /// Reads from the start of the bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Records<'a> {
        Records { bytes, at: 0 }
    }

    /// The end of the part that was read.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(u64, Record<'a>), Damage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at as u64;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let damage = match frame::next(rest) {
            Next::Record(record, length) if begins_as_term(record) => {
                self.at += length;
                return Some(Ok((at, record)));
            }
            Next::Record(Record::Term([]), _) => {
                let zeros = hole::zeros(rest);
                let taken = hole::end(rest, zeros as u64, usize::MAX, true).unwrap_or(zeros);
                self.at += taken;
                no_term(taken as u64)
            }
            Next::Record(_, length) => {
                self.at += length;
                What::NoTerm
            }
            Next::Partial(_) | Next::Op(_) if rest.is_empty() => return None,
            Next::Partial(_) => {
                self.at = self.bytes.len();
                What::Cut(rest.len() as u64)
            }
            Next::Op(op) => {
                self.at = self.bytes.len();
                What::Op(op)
            }
        };
        Some(Err(Damage { at, what: damage }))
    }
}

/// Whether a payload has a version byte and more bytes.
#[inline]
pub(crate) fn begins_as_term(record: Record<'_>) -> bool {
    matches!(record, Record::Dropped(_) | Record::Term([etf::VERSION, _, ..]))
}

/// The damage that this many zeros are.
pub(crate) fn no_term(zeros: u64) -> What {
    match zeros {
        5 => What::NoTerm,
        zeros => What::Hole(zeros),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_where_the_next_begins() {
        let nil = [0, 0, 0, 0, 2, 131, 106];
        let bytes = [&nil[..], &[1, 0, 0, 0, 3], &[0, 0, 0, 0, 1, 9], &[0; 7], &nil, &[1, 0]].concat();
        let mut records = Records::new(&bytes);
        let steps: Vec<_> = std::iter::from_fn(|| records.next().map(|next| (next, records.at()))).collect();
        let damage = |at, what| Err(Damage { at, what });
        let expected = [
            (Ok((0, Record::Term(&[131, 106]))), 7),
            (Ok((7, Record::Dropped(3))), 12),
            (damage(12, What::NoTerm), 18),
            (damage(18, What::Hole(7)), 25),
            (Ok((25, Record::Term(&[131, 106]))), 32),
            (damage(32, What::Cut(2)), 34),
        ];
        assert_eq!(steps, expected);
        let mut records = Records::new(&[7, 7]);
        assert_eq!((records.next(), records.at(), records.next()), (Some(damage(0, What::Op(7))), 2, None));
    }
}
