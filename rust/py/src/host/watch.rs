//! Functions of the standard library (and coroutines of tasks) that instruments look at, whatever sessions trace: which code
//! object is of interest to which of them.
//!
//! Looked at at each event of armed code, so the table is read without a lock; it grows by being replaced, and what it was is
//! left to whoever still reads it (each is twice as large as the last).

use super::{here::Here, instruments::HANDLERS, originals, Host};
use crate::{capture::Raised, ffi::frame::Frame};
use inviso_core::plan::events;
use pyo3::{ffi::PyObject, prelude::*};
use std::sync::{
    atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release},
    Mutex, MutexGuard,
};

/// How a watched call ends.
#[derive(Clone, Copy)]
pub enum Ended {
    /// It returns this value, borrowed.
    Returned(*mut PyObject),
    /// This exception leaves it.
    Raised(Raised),
}

impl Ended {
    /// The exception, if one leaves it.
    pub fn error(self) -> Option<Raised> {
        match self {
            Ended::Returned(_) => None,
            Ended::Raised(error) => Some(error),
        }
    }
}

/// Something happens to a watched call, in this frame: the event's, which stands.
pub type Event = fn(&mut Here, Frame);

/// A watched call ends.
pub type End = fn(&mut Here, Frame, Ended);

/// What an instrument wants to do at the events of a function.
pub struct Handler {
    /// It begins.
    pub begin: Option<Event>,
    /// It goes on after a suspension.
    pub resume: Option<Event>,
    /// It is suspended.
    pub pause: Option<Event>,
    /// It returns, or an exception leaves it.
    pub end: Option<End>,
    /// Of ends, only those by an exception are of interest.
    pub raises_only: bool,
}

impl Handler {
    /// Nothing.
    pub const NONE: Handler = Handler { begin: None, resume: None, pause: None, end: None, raises_only: false };

    fn needs(&self) -> u8 {
        let mut needs = 0;
        if self.begin.is_some() {
            needs |= events::CALL;
        }
        if self.end.is_some() {
            needs |= if self.raises_only { events::RAISE } else { events::END };
        }
        if self.pause.is_some() || self.resume.is_some() {
            needs |= events::PAUSE;
        }
        needs
    }
}

/// A set of handlers, one bit for each of [`HANDLERS`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handlers(u64);

const _: () = assert!(HANDLERS.len() <= u64::BITS as usize, "a set has no bit for the last handlers: widen it");

struct Slot {
    code: AtomicUsize,
    handlers: AtomicU64,
}

struct Table {
    slots: Box<[Slot]>,
}

static ON: AtomicBool = AtomicBool::new(false);
static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());
/// Places of the table that are taken. Held by whoever changes the table.
static USED: Mutex<usize> = Mutex::new(0);

fn lock() -> MutexGuard<'static, usize> {
    USED.lock().unwrap_or_else(|e| e.into_inner())
}

fn table() -> Option<&'static Table> {
    // SAFETY: null or made by `Box::leak`; tables are never freed.
    unsafe { TABLE.load(Acquire).as_ref() }
}

impl Table {
    fn start(&self, code: usize) -> usize {
        ((code as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (self.slots.len() - 1)
    }

    /// The place of a code object, or the free one where it would go.
    #[inline(always)]
    fn place(&self, code: usize) -> &Slot {
        let mut at = self.start(code);
        loop {
            let slot = &self.slots[at];
            let there = slot.code.load(Acquire);
            if there == code || there == 0 {
                return slot;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

/// The handlers of a code object; `None` if nobody watches it.
#[inline(always)]
pub fn find(code: *mut PyObject) -> Option<Handlers> {
    if !ON.load(Relaxed) {
        return None;
    }
    let handlers = table()?.place(code as usize).handlers.load(Acquire);
    (handlers != 0).then_some(Handlers(handlers))
}

impl Handlers {
    /// Whether a handler is one of them.
    pub fn has(self, handler: &'static Handler) -> bool {
        self.0 & number(handler) != 0
    }

    #[inline(always)]
    fn each(self, mut with: impl FnMut(&Handler)) {
        let mut left = self.0;
        while left != 0 {
            with(HANDLERS[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
    }

    /// The call begins.
    #[inline(always)]
    pub fn begin(self, here: &mut Here, frame: Frame) {
        self.each(|handler| handler.begin.into_iter().for_each(|begin| begin(here, frame)));
    }

    /// The call goes on.
    #[inline(always)]
    pub fn resume(self, here: &mut Here, frame: Frame) {
        self.each(|handler| handler.resume.into_iter().for_each(|resume| resume(here, frame)));
    }

    /// The call is suspended.
    #[inline(always)]
    pub fn pause(self, here: &mut Here, frame: Frame) {
        self.each(|handler| handler.pause.into_iter().for_each(|pause| pause(here, frame)));
    }

    /// The call ends.
    #[inline(always)]
    pub fn end(self, here: &mut Here, frame: Frame, how: Ended) {
        self.each(|handler| {
            if !handler.raises_only || matches!(how, Ended::Raised(_)) {
                handler.end.into_iter().for_each(|end| end(here, frame, how));
            }
        });
    }
}

fn number(handler: &'static Handler) -> u64 {
    let at = HANDLERS.iter().position(|known| std::ptr::eq(*known, handler));
    1 << at.unwrap_or_else(|| unreachable!("a handler that is not in the list"))
}

/// The events that a code object is watched for now, see [`events`].
pub fn needs_of(code: usize) -> u8 {
    table().map_or(0, |table| needs(table.place(code).handlers.load(Acquire)))
}

fn needs(handlers: u64) -> u8 {
    let mut needs = 0;
    Handlers(handlers).each(|handler| needs |= handler.needs());
    needs
}

/// A handler looks at these code objects from now on.
///
/// # Errors
/// What `sys.monitoring` raises.
pub fn add(py: Python<'_>, host: &Host, handler: &'static Handler, codes: &[Bound<'_, PyAny>]) -> PyResult<()> {
    let bit = number(handler);
    let mut changed = Vec::new();
    {
        let mut used = lock();
        for code in codes {
            let slot = put(&mut used, code.as_ptr() as usize);
            let was = slot.handlers.fetch_or(bit, Release);
            if was & bit == 0 {
                changed.push(code.clone());
            }
        }
        ON.store(true, Release);
    }
    if changed.is_empty() {
        return Ok(());
    }
    host.watch(py, &changed)
}

/// These handlers look at nothing any more.
///
/// # Errors
/// What `sys.monitoring` raises.
pub fn remove(py: Python<'_>, host: &Host, handlers: &[&'static Handler]) -> PyResult<()> {
    let bits = handlers.iter().fold(0, |all, handler| all | number(handler));
    let mut changed = Vec::new();
    let any = {
        let _one = lock();
        let mut any = false;
        for slot in table().into_iter().flat_map(|table| table.slots.iter()) {
            let was = slot.handlers.fetch_and(!bits, Release);
            if was & bits != 0 {
                changed.push(slot.code.load(Relaxed));
            }
            any |= was & !bits != 0;
        }
        ON.store(any, Release);
        any
    };
    if !any {
        originals::release();
    }
    host.unwatch(py, &changed)
}

/// The place of a code object in the table, which grows for it.
fn put(used: &mut usize, code: usize) -> &'static Slot {
    let room = table().map_or(0, |table| table.slots.len());
    if (*used + 1) * 2 > room {
        let slots = (0..(room * 2).max(64)).map(|_| Slot { code: AtomicUsize::new(0), handlers: AtomicU64::new(0) });
        let next = Table { slots: slots.collect() };
        *used = 0;
        for slot in table().into_iter().flat_map(|table| table.slots.iter()) {
            let handlers = slot.handlers.load(Relaxed);
            if handlers != 0 {
                let code = slot.code.load(Relaxed);
                let place = next.place(code);
                place.handlers.store(handlers, Relaxed);
                place.code.store(code, Relaxed);
                *used += 1;
            }
        }
        TABLE.store(Box::leak(Box::new(next)), Release);
    }
    let slot = table().unwrap_or_else(|| unreachable!("made a line above")).place(code);
    if slot.code.load(Relaxed) == 0 {
        slot.code.store(code, Release);
        *used += 1;
    }
    slot
}

/// In a forked child: nothing is watched.
pub fn forget() {
    ON.store(false, Release);
    // the lock may be held by a thread that is no more; nobody else is here
    for slot in table().into_iter().flat_map(|table| table.slots.iter()) {
        slot.handlers.store(0, Release);
    }
}
