//! Converts a log of either form to Erlang's.

use crate::{
    damage::{Damage, What},
    frame,
    reader::{Event, Reader},
};
use std::io::{self, Read, Write};

/// The result of [`to_erlang`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The number of written records.
    pub records: u64,
    /// The damage of the input.
    pub damage: Vec<Damage>,
}

/// Writes a log of either form in Erlang's form.
///
/// ```
/// use inviso_log::{convert, file::{FileLog, Form, Options}, sink::Sink};
/// # fn main() -> std::io::Result<()> {
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("trace");
/// let mut log = FileLog::create(&path, Options { form: Form::Blocks, ..Options::default() })?;
/// for _ in 0..1000 {
///     log.term(&[131, 104, 2, 97, 1, 97, 2])?;
/// }
/// log.close()?;
/// assert!(path.metadata()?.len() < 200);
///
/// let mut plain = Vec::new();
/// let done = convert::to_erlang(std::fs::File::open(&path)?, &mut plain)?;
/// assert_eq!((done.records, done.damage), (1000, vec![]));
/// assert_eq!(plain, [0, 0, 0, 0, 7, 131, 104, 2, 97, 1, 97, 2].repeat(1000));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The error of the reader or the writer.
pub fn to_erlang(from: impl Read, to: &mut impl Write) -> io::Result<Converted> {
    let mut reader = Reader::new(from);
    let mut done = Converted::default();
    let mut waiting = Vec::new();
    while let Some(event) = reader.read()? {
        match event {
            Event::Record { at, record } => match record.check() {
                Ok(()) => {
                    done.records += 1;
                    frame::put(&mut waiting, record);
                }
                Err(e) => done.damage.push(Damage { at, what: What::Term(e) }),
            },
            Event::Damage(damage) => done.damage.push(damage),
        }
        if waiting.len() >= 64 << 10 {
            to.write_all(&waiting)?;
            waiting.clear();
        }
    }
    to.write_all(&waiting)?;
    to.flush()?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Packer, MAGIC};
    use inviso_term::etf::DecodeError;

    #[test]
    fn a_conversion_has_all_records_and_all_damage() {
        let (nil, none) = ([0, 0, 0, 0, 2, 131, 106], [0, 0, 0, 0, 2, 131, 255]);
        // more than one write
        let many = nil.repeat(30_000);
        let mut log = MAGIC.to_vec();
        for records in [&many[..], &none, &nil] {
            Packer::default().put(&mut log, records);
        }
        for (from, cut) in [(log, None), ([&many[..], &none, &nil, &[0]].concat(), Some(1))] {
            let mut out = Vec::new();
            let done = to_erlang(&from[..], &mut out).unwrap();
            assert_eq!((done.records, &out), (30_001, &[&many[..], &nil].concat()));
            let at = many.len() as u64;
            let mut damage = vec![Damage { at, what: What::Term(DecodeError::Tag(255)) }];
            damage.extend(cut.map(|n| Damage { at: at + 14, what: What::Cut(n) }));
            assert_eq!(done.damage, damage);
        }
    }
}
