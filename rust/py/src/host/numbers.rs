//! Numbers of messages that go from one operating system process to another, by `multiprocessing`: how they are written behind a pickle, and
//! where they wait for the event that they are of.
//!
//! | whose | waits |
//! | --- | --- |
//! | what `Connection.send` and `SimpleQueue.put` have pickled | for the record of its sending, which is written right before the bytes are |
//! | what was put into a `Queue` | for the feeder thread, in [`buffers`](super::buffers) |
//! | what has been unpickled | for the end of the method that gives it to the program |

use super::here::Here;
use crate::ffi::frame::Frame;
use inviso_core::{flags::Flags, messages};
use inviso_port::origin::Origin;
use inviso_term::record::numbered::Number;
use std::cell::RefCell;

/// Calls inside each other (by a signal's handler) that a thread keeps in mind.
const MOST: usize = 16;

/// Something for each call of a function that this thread is in, or that it forgot.
pub struct Frames<T>(RefCell<Vec<([usize; 2], T)>>);

impl<T> Frames<T> {
    /// Nothing.
    pub const fn new() -> Self {
        Frames(RefCell::new(Vec::new()))
    }

    /// Something for this call, and no more what was for an earlier one in the same place.
    ///
    /// # Safety
    /// The frame runs, or begins or ends; attached.
    pub unsafe fn put(&self, frame: Frame, what: T) {
        // SAFETY: the caller's promise.
        let (before, key) = unsafe { (self.take(frame), key(frame)) };
        let mut all = self.0.borrow_mut();
        let oldest = if all.len() == MOST { Some(all.remove(0)) } else { None };
        all.push((key, what));
        drop(all);
        drop((before, oldest));
    }

    /// What there is for this call.
    ///
    /// # Safety
    /// As [`Frames::put`].
    pub unsafe fn take(&self, frame: Frame) -> Option<T> {
        // SAFETY: the caller's promise.
        let key = unsafe { key(frame) };
        let mut all = self.0.borrow_mut();
        let at = all.iter().rposition(|(known, _)| *known == key)?;
        Some(all.remove(at).1)
    }
}

/// # Safety
/// As [`Frames::put`].
unsafe fn key(frame: Frame) -> [usize; 2] {
    // SAFETY: the caller's promise.
    [frame.address(), unsafe { frame.code() } as usize]
}

thread_local! {
    static GIVEN: Frames<u64> = const { Frames::new() };
    static CAME: Frames<Number> = const { Frames::new() };
}

/// A number for a message of the running process, which is known; 0 if nobody traces what it sends.
pub fn reserve(here: &mut Here) -> u64 {
    match super::parcels::is_asked(here, Flags::SEND) {
        true => messages::reserve(&here.host.node, &mut here.thread),
        false => 0,
    }
}

/// The same, for what the method in this frame sends.
///
/// # Safety
/// As [`Frames::put`], like those below.
pub unsafe fn give(here: &mut Here, frame: Frame) -> u64 {
    let number = reserve(here);
    // SAFETY: the caller's promise.
    GIVEN.with(|given| unsafe {
        match number {
            0 => drop(given.take(frame)),
            _ => given.put(frame, number),
        }
    });
    number
}

/// The number of what this method is about to write; 0 if it has none.
///
/// # Safety
/// See [`give`].
pub unsafe fn given(frame: Frame) -> u64 {
    // SAFETY: the caller's promise.
    GIVEN.with(|given| unsafe { given.take(frame) }).unwrap_or(0)
}

/// What the method in this frame gives to the program has come with this number.
///
/// # Safety
/// See [`give`].
pub unsafe fn come(frame: Frame, number: Option<Number>) {
    // SAFETY: the caller's promise.
    CAME.with(|came| unsafe {
        match number {
            Some(number) => came.put(frame, number),
            None => drop(came.take(frame)),
        }
    });
}

/// The number of what this method gives to the program.
///
/// # Safety
/// See [`give`].
pub unsafe fn came(frame: Frame) -> Option<Number> {
    // SAFETY: the caller's promise.
    CAME.with(|came| unsafe { came.take(frame) })
}

/// What ends a number behind a pickle: 8 bytes, and 4 of the creation of the sender's pids.
const END: &[u8] = b"\x00inviso message 1\x00";
const SIZE: usize = 12;

/// Writes the number of a message of this process.
pub fn write(number: u64, behind: &mut Vec<u8>) {
    behind.extend_from_slice(&number.to_be_bytes());
    behind.extend_from_slice(&(Origin::here().creation() as u32).to_be_bytes());
    behind.extend_from_slice(END);
}

/// The number that bytes end with, if they do. Of a message of this process it does not say so.
pub fn read(bytes: &[u8]) -> Option<Number> {
    let (_, bytes) = bytes.strip_suffix(END)?.split_last_chunk::<SIZE>()?;
    let (number, sender) = bytes.split_first_chunk()?;
    let sender = u32::from_be_bytes(*sender.first_chunk()?);
    let number = u64::from_be_bytes(*number);
    Some(Number { number, sender: if Origin::is_own(sender) { 0 } else { sender } }).filter(|of| of.number != 0)
}
