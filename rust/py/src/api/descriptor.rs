//! Operations of a tracer on a descriptor of its own. Its system calls never wait, so the thread keeps the GIL.
//!
//! A thread that releases the GIL beside a thread that computes gets it back five milliseconds later, however short the
//! call was. A tracer that did so a few times for each line would fall behind any busy program.

use crate::convert::errors::of_system;
use inviso_port::platform;
use pyo3::prelude::*;
use std::{io, mem::MaybeUninit, ptr};

/// Bytes for a descriptor that may wait for its reader: few enough to fit if there is any space.
const LITTLE: usize = 256;

/// The file of a descriptor: its device and its number there; None if the descriptor is closed.
#[pyfunction]
pub fn descriptor_file(number: i32) -> Option<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call writes a whole status, or reports an error.
    unsafe {
        if libc::fstat(number, status.as_mut_ptr()) != 0 {
            return None;
        }
        let status = status.assume_init();
        #[allow(clippy::unnecessary_cast)] // macOS has an i32
        Some((status.st_dev as u64, status.st_ino))
    }
}

/// Writes the bytes that a terminal, pipe or socket takes at once; returns their number. If the reader has gone, this
/// raises OSError, and the program gets no signal.
#[pyfunction]
pub fn descriptor_write(number: i32, data: &[u8]) -> PyResult<usize> {
    write_now(number, data).map_err(|error| of_system(&error, None))
}

fn write_now(number: i32, data: &[u8]) -> io::Result<usize> {
    let bytes = match may_wait(number)? {
        false => data,
        true if !has_room(number)? => return Ok(0),
        true => &data[..data.len().min(LITTLE)],
    };
    match without_signal(|| write(number, bytes)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        done => done,
    }
}

fn may_wait(number: i32) -> io::Result<bool> {
    // SAFETY: asks for flags.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(flags & libc::O_NONBLOCK == 0)
}

fn has_room(number: i32) -> io::Result<bool> {
    let mut asked = libc::pollfd { fd: number, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one descriptor; the call does not wait.
    match unsafe { libc::poll(&raw mut asked, 1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(false),
        _ => Ok(true),
    }
}

fn write(number: i32, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes stand for the whole call.
    let count = unsafe { libc::write(number, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Writes so that a reader that has gone doesn't end the process, if the program left `SIGPIPE` at the system's
/// default.
fn without_signal(write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    // SAFETY: the calls that get the sets and the action fill them before they are read.
    unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        if libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) != 0
            || action.assume_init().sa_sigaction != libc::SIG_DFL
        {
            return write();
        }
        let (mut pipe, mut before) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        let is_blocked = libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr()) == 0;
        let done = write();
        if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            platform::take_pending(pipe.assume_init_ref());
        }
        if is_blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        }
        done
    }
}
