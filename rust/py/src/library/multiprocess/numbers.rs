//! Numbers of messages between operating system processes (`multiprocessing`): how a number is written after a pickle, and where it is kept
//! until its event.
//!
//! | number of | is kept until |
//! | --- | --- |
//! | an object pickled by `Connection.send` or `SimpleQueue.put` | the record of its sending, just before the bytes are written |
//! | an object put into a `Queue` | the feeder thread pickles it; see [`buffers`](super::buffers) |
//! | an unpickled object | the method that returns it to the program ends |

use crate::thread::here::Here;
use inviso_core::{flags::Flags, messages};
use inviso_cpython::frames::frame::Frame;
use inviso_port::origin::Origin;
use inviso_term::record::numbered::{MessageKind, Number};
use std::cell::RefCell;

/// Calls inside each other (by a signal's handler) that a thread keeps in mind.
const MOST: usize = 16;

/// A value for each of the innermost calls of a function in this thread.
pub struct Frames<T>(RefCell<Vec<([usize; 2], T)>>);

impl<T> Frames<T> {
    /// Nothing.
    pub const fn new() -> Self {
        Frames(RefCell::new(Vec::new()))
    }

    /// Keeps a value for this call. A value that an earlier call left for the same frame is dropped.
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

    /// Takes the value of this call.
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

/// A number for a message of the running process, which has been identified; 0 if no session traces what it sends.
pub fn reserve(here: &mut Here) -> u64 {
    match crate::instrument::parcels::is_asked(here, Flags::SEND) {
        true => messages::reserve(&here.host.node, &mut here.thread),
        false => 0,
    }
}

/// The same, kept for the method in this frame.
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

/// The number of the message that this method is about to write; 0 if it has none.
///
/// # Safety
/// See [`give`].
pub unsafe fn given(frame: Frame) -> u64 {
    // SAFETY: the caller's promise.
    GIVEN.with(|given| unsafe { given.take(frame) }).unwrap_or(0)
}

/// The message that the method in this frame returns has come with this number.
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

/// The number of the message that this method returns.
///
/// # Safety
/// See [`give`].
pub unsafe fn came(frame: Frame) -> Option<Number> {
    // SAFETY: the caller's promise.
    CAME.with(|came| unsafe { came.take(frame) })
}

/// The marker after a number. Before it stand 8 bytes of the number and 4 of the creation of the sender's pids.
const END: &[u8] = b"\x00inviso message 1\x00";
const SIZE: usize = 12;

/// Writes the number of a message of this process.
pub fn write(number: u64, behind: &mut Vec<u8>) {
    behind.extend_from_slice(&number.to_be_bytes());
    behind.extend_from_slice(&(Origin::here().creation() as u32).to_be_bytes());
    behind.extend_from_slice(END);
}

/// The number at the end of these bytes, if there is one. For a message of this very process the sender is left out.
pub fn read(bytes: &[u8]) -> Option<Number> {
    let (_, bytes) = bytes.strip_suffix(END)?.split_last_chunk::<SIZE>()?;
    let (number, sender) = bytes.split_first_chunk()?;
    let sender = u32::from_be_bytes(*sender.first_chunk()?);
    let number = u64::from_be_bytes(*number);
    let sender = if Origin::is_own(sender) { 0 } else { sender };
    Some(Number { number, sender, kind: MessageKind::Item }).filter(|of| of.number != 0)
}
