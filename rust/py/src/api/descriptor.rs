//! What a tracer does with a descriptor of its own: calls of the system that never wait, so the GIL is kept.
//!
//! Whoever gives the GIL away beside a thread that computes gets it back five milliseconds later, however short the call was: a
//! tracer that did so a few times for each line would fall behind any busy program.

use crate::convert::errors::of_system;
use pyo3::prelude::*;
use std::{io, mem::MaybeUninit, ptr};

/// Bytes for a descriptor that may wait for its reader: few enough to fit where there is room at all.
const LITTLE: usize = 256;

/// Which file a descriptor is of: its device and its number there; None where the descriptor is closed.
#[pyfunction]
pub fn descriptor_file(number: i32) -> Option<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call writes a whole status, or says that it has not.
    unsafe {
        if libc::fstat(number, status.as_mut_ptr()) != 0 {
            return None;
        }
        let status = status.assume_init();
        Some((status.st_dev, status.st_ino))
    }
}

/// Writes what a terminal, pipe or socket takes at once; answers how many bytes that were. A reader that has gone is an
/// `OSError` of ours, and no signal for the program.
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
    // SAFETY: one descriptor is asked for, and doesn't wait.
    match unsafe { libc::poll(&raw mut asked, 1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(false),
        _ => Ok(true),
    }
}

fn write(number: i32, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are there for the whole call.
    let count = unsafe { libc::write(number, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Does it so that a reader who has gone doesn't end the process, where the program left `SIGPIPE` as the system has it.
fn without_signal(write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    // SAFETY: the sets and the action are made by the calls that are given them, before they are read.
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
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(pipe.as_ptr(), ptr::null_mut(), &now);
        }
        if is_blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        }
        done
    }
}
