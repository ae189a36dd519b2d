//! The records of a wrap set.

use crate::{
    damage::{Damage, What},
    growing::Growing,
    names::Names,
    reader::{Event, Found, Reader},
};
use std::{
    collections::VecDeque,
    fs::{File, Metadata},
    io,
    path::PathBuf,
};

/// Reads the files of a wrap set, oldest first.
///
/// With `follow` it reads a growing set, file after file: None means that there is nothing for now. It reports a file that
/// another program has emptied ([`What::Anew`]). If the reader is so slow that the writer deletes the file it reads, it reports
/// that ([`What::Overtaken`]) at the file's end and continues with the oldest file; files in between may be missing. Without
/// `follow` it reads the files that exist at the beginning, and reports each of them that the writer deletes meanwhile.
///
/// ```
/// use inviso_log::{frame::Record, names::Names, reader::Event, set::SetReader};
/// # fn main() -> std::io::Result<()> {
/// let folder = tempfile::tempdir()?;
/// let names = Names::new(&folder.path().join("trace"), ".log")?;
/// for (number, byte) in [(0, 30), (1, 40), (3, 20)] {
///     std::fs::write(names.path(number), [0, 0, 0, 0, 3, 131, 97, byte])?;
/// }
/// let mut reader = SetReader::open(names, false)?;
/// for byte in [20, 30, 40] {
///     let term = [131, 97, byte];
///     assert_eq!(reader.read()?, Some(Event::Record { at: 0, record: Record::Term(&term) }));
/// }
/// assert_eq!(reader.read()?, None);
/// assert_eq!(reader.number(), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SetReader {
    names: Names,
    follow: bool,
    /// The next files, when not following.
    rest: VecDeque<u64>,
    current: Option<Current>,
}

/// The file that is being read.
#[derive(Debug)]
struct Current {
    number: u64,
    reader: Reader<Growing>,
    /// Whether the writer has begun the next file, so that this one is complete.
    is_whole: bool,
}

impl SetReader {
    /// Begins with the oldest file. A set without files is empty; when following, the reader waits for the first file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(names: Names, follow: bool) -> io::Result<SetReader> {
        let mut reader = SetReader { names, follow, rest: VecDeque::new(), current: None };
        if follow {
            reader.open_oldest()?;
        } else {
            reader.rest = reader.names.present()?.into();
        }
        Ok(reader)
    }

    /// The number of the file of the last record or damage. Offsets are counted from its beginning.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.current.as_ref().map(|current| current.number)
    }

    /// The path of that file.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.number().map(|number| self.names.path(number))
    }

    /// The next record or damage; None at the end. When following, None means that there is none for now.
    ///
    /// # Errors
    /// The error of the system. The call can be repeated. If a file could not be opened, the next call continues with the oldest
    /// file.
    pub fn read(&mut self) -> io::Result<Option<Event<'_>>> {
        let found = self.find()?;
        Ok(found.map(|found| self.event(found)))
    }

    /// Whether a whole record is in memory.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.reader.is_ready())
    }

    pub(crate) fn find(&mut self) -> io::Result<Option<Found>> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(found) = current.reader.find()? {
                    return Ok(Some(found));
                }
                if let Some(restarted) = Growing::restarted(&mut current.reader)? {
                    current.reader.set_follow(!current.is_whole);
                    return Ok(Some(restarted));
                }
            }
            match if self.follow { self.open_next_written()? } else { self.open_next_listed()? } {
                Step::Next => {}
                Step::None => return Ok(None),
                Step::Overtaken => return Ok(Some(Found::Damage(Damage { at: 0, what: What::Overtaken }))),
            }
        }
    }

    pub(crate) fn event(&self, found: Found) -> Event<'_> {
        match (found, &self.current) {
            (Found::Damage(damage), _) => Event::Damage(damage),
            (found, Some(current)) => current.reader.event(found),
            (Found::Record { at, .. }, None) => Event::Damage(Damage { at, what: What::NoTerm }),
        }
    }

    /// Opens the next of the files that existed at the beginning.
    fn open_next_listed(&mut self) -> io::Result<Step> {
        let Some(number) = self.rest.pop_front() else { return Ok(Step::None) };
        Ok(if self.open_file(number)? { Step::Next } else { Step::Overtaken })
    }

    /// Opens the file after the current one if the writer has begun it, after the rest of the current one.
    fn open_next_written(&mut self) -> io::Result<Step> {
        let Some(current) = &self.current else {
            return Ok(if self.open_oldest()? { Step::Next } else { Step::None });
        };
        let number = current.number;
        let there = is_there(&self.names, current)?;
        let after = if there { self.present_after(number)? } else { None };
        if there && after.is_none() {
            return Ok(Step::None);
        }
        let Some(current) = self.current.take_if(|current| current.is_whole) else {
            if let Some(current) = &mut self.current {
                current.is_whole = true;
                current.reader.set_follow(false);
            }
            return Ok(Step::Next);
        };
        // while this file exists, no newer one was deleted. So the opened file is the next one
        let opened = match after {
            Some(after) => self.open_file(after)? && is_there(&self.names, &current)?,
            None => false,
        };
        if opened {
            return Ok(Step::Next);
        }
        self.open_oldest()?;
        Ok(Step::Overtaken)
    }

    fn present_after(&self, number: u64) -> io::Result<Option<u64>> {
        let present = self.names.present()?;
        let next = present.iter().position(|other| *other == number).map(|at| at + 1);
        Ok(next.and_then(|next| present.get(next).copied()))
    }

    fn open_oldest(&mut self) -> io::Result<bool> {
        self.current = None;
        while let Some(number) = self.names.present()?.first().copied() {
            if self.open_file(number)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens a file. Answers whether it exists.
    fn open_file(&mut self, number: u64) -> io::Result<bool> {
        match File::open(self.names.path(number)) {
            Ok(file) => {
                let reader = Growing::reader(file, self.follow)?;
                self.current = Some(Current { number, reader, is_whole: false });
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// How a set continues.
enum Step {
    Next,
    None,
    Overtaken,
}

/// Whether the file still has this name.
fn is_there(names: &Names, current: &Current) -> io::Result<bool> {
    match names.path(current.number).metadata() {
        Ok(there) => Ok(is_same(&there, &current.reader.get_ref().file.metadata()?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    a.created().ok() == b.created().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Record;
    use std::{
        fs::{self, OpenOptions},
        io::Write,
    };

    fn number(term: u8) -> [u8; 8] {
        [0, 0, 0, 0, 3, 131, 97, term]
    }

    /// The next event of a reader: its number, or the kind of damage.
    fn next(reader: &mut SetReader) -> Option<Result<u8, What>> {
        reader.read().unwrap().map(|event| match event {
            Event::Record { record: Record::Term(&[131, 97, n]), .. } => Ok(n),
            Event::Record { record, .. } => panic!("{record:?}"),
            Event::Damage(damage) => Err(damage.what),
        })
    }

    #[test]
    fn a_reader_says_which_file_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::new(&folder.path().join("trace"), ".log").unwrap();
        for (file, term) in [(0, 30), (1, 40), (3, 20)] {
            fs::write(names.path(file), number(term)).unwrap();
        }
        let mut reader = SetReader::open(names.clone(), false).unwrap();
        assert_eq!((reader.number(), reader.path()), (None, None));
        for (file, term) in [(3, 20), (0, 30), (1, 40)] {
            assert_eq!(next(&mut reader), Some(Ok(term)));
            assert_eq!((reader.number(), reader.path()), (Some(file), Some(names.path(file))));
        }
        assert_eq!((next(&mut reader), reader.number()), (None, Some(1)));
    }

    #[test]
    fn a_restarted_file_is_followed_until_there_is_a_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::new(&folder.path().join("trace"), ".log").unwrap();
        let path = names.path(0);
        let add = |bytes: &[u8]| OpenOptions::new().append(true).open(&path).unwrap().write_all(bytes).unwrap();
        fs::write(&path, number(1)).unwrap();
        let mut reader = SetReader::open(names.clone(), true).unwrap();
        assert_eq!([next(&mut reader), next(&mut reader)], [Some(Ok(1)), None]);
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        add(&number(2)[..6]);
        assert_eq!([next(&mut reader), next(&mut reader)], [Some(Err(What::Anew)), None]);
        add(&number(2)[6..]);
        assert_eq!([next(&mut reader), next(&mut reader)], [Some(Ok(2)), None]);
        fs::write(names.path(1), number(3)).unwrap();
        add(&[0, 0]);
        assert_eq!([next(&mut reader), next(&mut reader)], [Some(Err(What::Cut(2))), Some(Ok(3))]);
    }
}
