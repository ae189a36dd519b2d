//! Files and sockets of ours in the process of a program that may close all it finds.

use std::{
    fmt::Debug,
    fs::File,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    ops::{Deref, DerefMut},
};

/// What has a descriptor, and something that tells it from whatever may have that later.
pub(crate) trait Told: Sized + Debug {
    /// What tells it.
    type Identity: PartialEq + Debug;

    fn identity(&self) -> io::Result<Self::Identity>;

    /// Lets go of the descriptor, and does not close it.
    fn leave(self);
}

/// A file or socket that is told from another one that got its descriptor: such a one is left alone, and not closed either.
#[derive(Debug)]
pub(crate) struct Own<T: Told> {
    /// Some until it is dropped.
    own: Option<T>,
    identity: T::Identity,
}

impl<T: Told> Own<T> {
    pub(crate) fn new(own: T) -> io::Result<Own<T>> {
        let identity = own.identity()?;
        Ok(Own { own: Some(own), identity })
    }

    /// Fails where the descriptor was closed, whether or not something else has it now.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.identity() {
            Ok(identity) if identity == self.identity => Ok(()),
            _ => Err(io::Error::other("the program closed its descriptor")),
        }
    }
}

impl<T: Told> Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.own.as_ref().unwrap_or_else(|| unreachable!("it is dropped"))
    }
}

impl<T: Told> DerefMut for Own<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.own.as_mut().unwrap_or_else(|| unreachable!("it is dropped"))
    }
}

impl<T: Told> Drop for Own<T> {
    fn drop(&mut self) {
        let is_gone = self.check().is_err();
        if let Some(own) = self.own.take().filter(|_| is_gone) {
            own.leave();
        }
    }
}

/// By device and number.
#[cfg(unix)]
impl Told for File {
    type Identity = (u64, u64);

    fn identity(&self) -> io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        self.metadata().map(|status| (status.dev(), status.ino()))
    }

    fn leave(self) {
        leave(self);
    }
}

/// By the address that it listens on, which no other socket of the process has.
impl Told for TcpListener {
    type Identity = SocketAddr;

    fn identity(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn leave(self) {
        leave(self);
    }
}

/// By the address that it was accepted at. The other end's is not asked for: it is gone with that.
impl Told for TcpStream {
    type Identity = SocketAddr;

    fn identity(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn leave(self) {
        leave(self);
    }
}

#[cfg(unix)]
fn leave(own: impl std::os::fd::IntoRawFd) {
    let _ = own.into_raw_fd();
}

// handles can't be closed by who doesn't know them
#[cfg(not(unix))]
impl Told for File {
    type Identity = ();

    fn identity(&self) -> io::Result<()> {
        Ok(())
    }

    fn leave(self) {}
}

#[cfg(not(unix))]
fn leave<T>(_: T) {}
