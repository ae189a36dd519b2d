//! A file of ours in the process of a program that may close all it finds.

use std::{
    fs::File,
    io,
    ops::{Deref, DerefMut},
};

/// Device and number of a file, which tell it from whatever may have its descriptor later.
type Identity = (u64, u64);

/// A file that is told from another one that got its descriptor: such a one is left alone, and not closed either.
#[derive(Debug)]
pub(crate) struct Own {
    /// Some until it is dropped.
    file: Option<File>,
    identity: Identity,
}

impl Own {
    pub(crate) fn new(file: File) -> io::Result<Own> {
        let identity = identity(&file)?;
        Ok(Own { file: Some(file), identity })
    }

    /// Fails where the descriptor was closed, whether or not another file has it now.
    pub(crate) fn check(&self) -> io::Result<()> {
        match identity(self) {
            Ok(identity) if identity == self.identity => Ok(()),
            _ => Err(io::Error::other("the program closed its descriptor")),
        }
    }
}

impl Deref for Own {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().unwrap_or_else(|| unreachable!("it is dropped"))
    }
}

impl DerefMut for Own {
    fn deref_mut(&mut self) -> &mut File {
        self.file.as_mut().unwrap_or_else(|| unreachable!("it is dropped"))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let is_gone = self.check().is_err();
        if let Some(file) = self.file.take().filter(|_| is_gone) {
            leave(file);
        }
    }
}

#[cfg(unix)]
fn identity(file: &File) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map(|status| (status.dev(), status.ino()))
}

#[cfg(unix)]
fn leave(file: File) {
    use std::os::fd::IntoRawFd;
    let _ = file.into_raw_fd();
}

// handles can't be closed by who doesn't know them
#[cfg(not(unix))]
fn identity(_: &File) -> io::Result<Identity> {
    Ok((0, 0))
}

#[cfg(not(unix))]
fn leave(_: File) {}
