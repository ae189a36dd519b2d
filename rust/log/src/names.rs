//! The files of a wrap set, and their order.
//!
//! A set's files are named by a number between a name and a suffix. The numbers go up to a largest one and begin at 0 again. One
//! of them is always missing: the gap. The oldest file is the one after it.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

/// The file names of a wrap set.
///
/// ```
/// use inviso_log::names::Names;
/// let names = Names::new("logs/trace".as_ref(), ".log").unwrap();
/// assert_eq!(names.path(12).to_str(), Some("logs/trace12.log"));
/// assert!(Names::new("logs/trace".as_ref(), "").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    folder: PathBuf,
    name: OsString,
    suffix: String,
}

impl Names {
    /// Files `<name><number><suffix>`. The suffix must not be empty, as in Erlang.
    ///
    /// # Errors
    /// `InvalidInput`.
    pub fn new(name: &Path, suffix: &str) -> io::Result<Names> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        if suffix.is_empty() || suffix.contains(['/', '\0']) {
            return Err(invalid("the suffix of a wrap set is empty, or has a slash in it"));
        }
        let base = name.file_name().ok_or_else(|| invalid("a wrap set without a name"))?;
        let folder = match name.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Ok(Names { folder: folder.into(), name: base.into(), suffix: suffix.into() })
    }

    /// The file with this number.
    #[must_use]
    pub fn path(&self, number: u64) -> PathBuf {
        let mut name = self.name.clone();
        name.push(number.to_string());
        name.push(&self.suffix);
        if self.folder == Path::new(".") {
            return name.into();
        }
        self.folder.join(name)
    }

    /// The numbers of the existing files, oldest first.
    ///
    /// # Errors
    /// The error of the system.
    pub fn present(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        self.each(|name, number| {
            if self.path(number).file_name() == Some(name) {
                numbers.push(number);
            }
            Ok(())
        })?;
        Ok(oldest_first(numbers))
    }

    /// Deletes all files of the set, also those whose number has leading zeros.
    ///
    /// # Errors
    /// The error of the system.
    pub fn delete(&self) -> io::Result<()> {
        self.each(|name, _| ignore_missing(fs::remove_file(self.folder.join(name))))
    }

    fn each(&self, mut take: impl FnMut(&OsStr, u64) -> io::Result<()>) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            if let Some(number) = self.number(&name) {
                take(&name, number)?;
            }
        }
        Ok(())
    }

    fn number(&self, name: &OsStr) -> Option<u64> {
        let digits = name.as_encoded_bytes().strip_prefix(self.name.as_encoded_bytes())?;
        let digits = digits.strip_suffix(self.suffix.as_bytes())?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

/// Ignores the error of deleting a missing file.
pub(crate) fn ignore_missing(deleted: io::Result<()>) -> io::Result<()> {
    match deleted {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Sorts numbers from the oldest file to the newest: those after the first gap come first.
fn oldest_first(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    let hole = numbers.windows(2).position(|two| matches!(two, [a, b] if a + 1 != *b));
    numbers.rotate_left(hole.map_or(0, |at| at + 1));
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_after_the_gap_is_the_oldest() {
        for (there, order) in [
            (&[][..], &[][..]),
            (&[0], &[0]),
            (&[2, 0, 1], &[0, 1, 2]),
            (&[1, 2, 3], &[1, 2, 3]),
            (&[0, 1, 3, 4], &[3, 4, 0, 1]),
            (&[0, 2, 3, 4], &[2, 3, 4, 0]),
            // a writer that was killed after deleting the oldest file and before creating the newest
            (&[0, 1, 4], &[4, 0, 1]),
            (&[10, 9, 11, 0], &[9, 10, 11, 0]),
        ] {
            assert_eq!(oldest_first(there.to_vec()), order);
        }
    }

    #[test]
    fn only_digits_between_name_and_suffix_make_a_file_of_the_set() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::new(&folder.path().join("t"), ".w").unwrap();
        for name in
            ["t0.w", "t12.w", "t3.x", "tx.w", "t.w", "u1.w", "t1.w.gz", "t-1.w", "t07.w", "t99999999999999999999.w"]
        {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(names.present().unwrap(), [12, 0]);
        names.delete().unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["t-1.w", "t.w", "t1.w.gz", "t3.x", "t99999999999999999999.w", "tx.w", "u1.w"]);
    }
}
