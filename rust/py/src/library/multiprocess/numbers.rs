//! Numbers of messages between operating system processes (`multiprocessing`). A number is written after a pickle, and
//! is kept until its event.
//!
//! | number of | is kept until |
//! | --- | --- |
//! | an object pickled by `Connection.send` or `SimpleQueue.put` | the record of its sending, just before the bytes are written |
//! | an object put into a `Queue` | the feeder thread pickles it; see [`buffers`](super::buffers) |
//! | an unpickled object | the method that returns it to the program ends |

use crate::state::thread::ThreadState;
use inviso_core::host::{flags::Flags, messages};
use inviso_cpython::frames::frame::Frame;
use inviso_port::origin::Origin;
use inviso_term::record::numbered::{MessageKind, Number};
use std::cell::RefCell;

/// The most nested calls (by a signal's handler) that a thread remembers.
const MOST: usize = 16;

/// A value for each of the innermost calls of a function in this thread.
pub struct Frames<T>(RefCell<Vec<([usize; 2], T)>>);

impl<T> Frames<T> {
    /// Without values.
    pub const fn new() -> Self {
        Frames(RefCell::new(Vec::new()))
    }

    /// Keeps a value for this call. A value that an earlier call left for the same frame is dropped.
    ///
    /// # Safety
    /// The frame runs, or begins or ends; the thread is attached.
    pub unsafe fn put(&self, frame: Frame, what: T) {
        // SAFETY: the caller promises that the frame runs, or begins or ends, and the thread is attached.
        let (before, key) = unsafe { (self.take(frame), key(frame)) };
        let mut all = self.0.borrow_mut();
        let oldest = if all.len() == MOST { Some(all.remove(0)) } else { None };
        all.push((key, what));
        drop(all);
        drop((before, oldest));
    }

    /// Takes the value of this call.
    ///
    /// # Safety
    /// As [`Frames::put`].
    pub unsafe fn take(&self, frame: Frame) -> Option<T> {
        // SAFETY: the caller promises that the frame runs, or begins or ends, and the thread is attached.
        let key = unsafe { key(frame) };
        let mut all = self.0.borrow_mut();
        let at = all.iter().rposition(|(known, _)| *known == key)?;
        Some(all.remove(at).1)
    }
}

/// # Safety
/// As [`Frames::put`].
unsafe fn key(frame: Frame) -> [usize; 2] {
    // SAFETY: the caller promises that the frame runs, or begins or ends, and the thread is attached.
    [frame.address(), unsafe { frame.code() } as usize]
}

thread_local! {
    static GIVEN: Frames<u64> = const { Frames::new() };
    static CAME: Frames<Number> = const { Frames::new() };
}

/// A number for a message of the running process; 0 if no session traces what it sends. The process has been
/// identified.
pub fn reserve(state: &mut ThreadState) -> u64 {
    match crate::instrument::sent_values::is_asked(state, Flags::SEND) {
        true => messages::reserve(&state.host.node, &mut state.thread),
        false => 0,
    }
}

/// Reserves such a number and keeps it for the method in this frame.
///
/// # Safety
/// As [`Frames::put`].
pub unsafe fn give(state: &mut ThreadState, frame: Frame) -> u64 {
    let number = reserve(state);
    // SAFETY: the caller promises that the frame runs, or begins or ends, and the thread is attached.
    GIVEN.with(|given| unsafe {
        match number {
            0 => drop(given.take(frame)),
            _ => given.put(frame, number),
        }
    });
    number
}

/// The number of the message that this method is about to write; 0 if it has none.
///
/// # Safety
/// As [`Frames::put`].
pub unsafe fn given(frame: Frame) -> u64 {
    // SAFETY: the caller promises that the frame runs, or begins or ends, and the thread is attached.
    GIVEN.with(|given| unsafe { given.take(frame) }).unwrap_or(0)
}

/// Records that the message which the method in this frame returns came with this number.
///
/// # Safety
/// As [`Frames::put`].
pub unsafe fn come(frame: Frame, number: Option<Number>) {
    // SAFETY: the caller promises that the frame runs, or begins or ends, and the thread is attached.
    CAME.with(|came| unsafe {
        match number {
            Some(number) => came.put(frame, number),
            None => drop(came.take(frame)),
        }
    });
}

/// The number of the message that this method returns.
///
/// # Safety
/// As [`Frames::put`].
pub unsafe fn came(frame: Frame) -> Option<Number> {
    // SAFETY: the caller promises that the frame runs, or begins or ends, and the thread is attached.
    CAME.with(|came| unsafe { came.take(frame) })
}

/// The marker after a number. The number (8 bytes) and the creation of the sender's pids (4 bytes) stand before it.
const END: &[u8] = b"\x00inviso message 1\x00";
const SIZE: usize = 12;

/// Writes the number of a message of this process after a pickle.
pub fn write(number: u64, behind: &mut Vec<u8>) {
    behind.extend_from_slice(&number.to_be_bytes());
    behind.extend_from_slice(&(Origin::own().creation() as u32).to_be_bytes());
    behind.extend_from_slice(END);
}

/// The number at the end of these bytes, if there is one. The sender is left out for a message of this very process.
pub fn read(bytes: &[u8]) -> Option<Number> {
    let (_, bytes) = bytes.strip_suffix(END)?.split_last_chunk::<SIZE>()?;
    let (number, sender) = bytes.split_first_chunk()?;
    let sender = u32::from_be_bytes(*sender.first_chunk()?);
    let number = u64::from_be_bytes(*number);
    let sender = if Origin::is_own(sender) { 0 } else { sender };
    Some(Number { number, sender, kind: MessageKind::Item }).filter(|of| of.number != 0)
}
