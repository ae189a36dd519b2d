//! Files and sockets of this crate, in a program that may close any descriptor.

use std::{
    fmt::Debug,
    fs::File,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    ops::{Deref, DerefMut},
};

/// An open file or socket with an identity that distinguishes it from others with the same descriptor later.
pub(crate) trait Identified: Sized + Debug {
    /// The identity.
    type Identity: PartialEq + Debug;

    fn identity(&self) -> io::Result<Self::Identity>;

    /// Releases the descriptor without closing it.
    fn release(self);
}

/// A file or socket that notices when the program has closed its descriptor. If another file has the descriptor now, that file is
/// neither used nor closed.
#[derive(Debug)]
pub(crate) struct Own<T: Identified> {
    /// `Some` until the drop.
    own: Option<T>,
    identity: T::Identity,
}

impl<T: Identified> Own<T> {
    pub(crate) fn new(own: T) -> io::Result<Own<T>> {
        let identity = own.identity()?;
        Ok(Own { own: Some(own), identity })
    }

    /// Fails if the descriptor was closed, whether or not another file has it now.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.identity() {
            Ok(identity) if identity == self.identity => Ok(()),
            _ => Err(io::Error::other("the program closed its descriptor")),
        }
    }
}

impl<T: Identified> Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.own.as_ref().unwrap_or_else(|| unreachable!("it is dropped"))
    }
}

impl<T: Identified> DerefMut for Own<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.own.as_mut().unwrap_or_else(|| unreachable!("it is dropped"))
    }
}

impl<T: Identified> Drop for Own<T> {
    fn drop(&mut self) {
        let is_gone = self.check().is_err();
        if let Some(own) = self.own.take().filter(|_| is_gone) {
            own.release();
        }
    }
}

/// By device and inode.
#[cfg(unix)]
impl Identified for File {
    type Identity = (u64, u64);

    fn identity(&self) -> io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        self.metadata().map(|status| (status.dev(), status.ino()))
    }

    fn release(self) {
        release(self);
    }
}

/// By the local address: no other socket of the process listens on it.
impl Identified for TcpListener {
    type Identity = SocketAddr;

    fn identity(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn release(self) {
        release(self);
    }
}

/// By the local address. The peer's address is not used: the system forgets it when the peer has gone.
impl Identified for TcpStream {
    type Identity = SocketAddr;

    fn identity(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn release(self) {
        release(self);
    }
}

#[cfg(unix)]
fn release(own: impl std::os::fd::IntoRawFd) {
    let _ = own.into_raw_fd();
}

// other code can't close a handle that it doesn't know
#[cfg(not(unix))]
impl Identified for File {
    type Identity = ();

    fn identity(&self) -> io::Result<()> {
        Ok(())
    }

    fn release(self) {}
}

#[cfg(not(unix))]
fn release<T>(_: T) {}
