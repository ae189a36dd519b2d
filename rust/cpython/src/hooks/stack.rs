//! The C stack under a frame evaluation function (3.11): the rest of it, and more of it.
//!
//! An untouched 3.11 takes no C stack for a call from Python to Python, so a program may recurse as deep as its own
//! limit. While the function is installed, each such call takes some 500 bytes. Where the thread's stack comes to its
//! end, the call continues on a [`Segment`], a stack of our own, as long as that lasts, and then on a further one. C
//! code under such a call has its stack there: the switch is made while [`RESERVE`] is left.
//!
//! Without a segment the call is made while [`LAST`] is left, and then refused with RecursionError. That is so beside greenlet, without
//! memory, and on systems and processors without the switch of stacks, which is for Linux on x86-64 and aarch64.
//!
//! # Checked by
//! `tests/python/test_trace_depth.py`: the switch, and calls without a segment.
//!
//! A segment stays the thread's until the call has returned. If the thread is ended inside (a daemon thread at the end
//! of the interpreter) the segment leaks: no code here may be run by an unwinder.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::NonNull;

use pyo3::ffi::{self, _PyInterpreterFrame, PyObject, PyThreadState};

use super::eval::Unwinding;
use crate::platform;

/// The C stack that a call gets (half of a small stack), if a segment can be had.
const RESERVE: usize = 1024 * 1024;

/// The C stack that a call gets in any case: with less than that it is not made.
const LAST: usize = 64 * 1024;

/// Bytes of a segment; only the touched pages take memory.
const SEGMENT: usize = 8 * 1024 * 1024;

/// Bytes below a segment that must not be touched.
const GUARD: usize = 64 * 1024;

thread_local! {
    static ON_SEGMENT: Cell<Option<Stack>> = const { Cell::new(None) };
    static SPARE: Spare = const { Spare(Cell::new(None)) };
}

/// The end of the calling thread's C stack, which grows down: measured once a thread and segment, then one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    floor: usize,
    end: usize,
}

impl Stack {
    /// Measures the stack that the calling thread is on; takes some µs. If it can't be measured the result never has
    /// space.
    #[cold]
    pub fn of_this_thread() -> Stack {
        if let Some(stack) = ON_SEGMENT.get() {
            return stack;
        }
        match platform::own_stack() {
            Some((low, size)) => Stack::from(low, size),
            None => Stack { floor: usize::MAX, end: 0 },
        }
    }

    fn from(low: usize, size: usize) -> Stack {
        Stack { floor: low + RESERVE.min(size / 2), end: low + LAST.min(size / 4) }
    }

    /// Whether a call may be made here. It is to be called on the stack that was measured.
    #[inline(always)]
    pub fn room(&self) -> bool {
        let here = 0u8;
        &raw const here as usize > self.floor
    }

    /// Whether a call may be made here if there is no other place.
    pub fn last_room(&self) -> bool {
        let here = 0u8;
        &raw const here as usize > self.end
    }
}

/// A stack of our own for one call and what it calls.
#[derive(Clone, Copy, Debug)]
pub struct Segment(NonNull<u8>);

impl Segment {
    /// A segment for the calling thread. `None` if there is no memory, and if greenlet is imported, which copies stacks
    /// and expects a thread to have one.
    ///
    /// # Safety
    /// The calling thread is attached and has no exception set.
    #[cold]
    pub unsafe fn take() -> Option<Segment> {
        // SAFETY: the thread is attached; both results are borrowed, the second may be null, and no exception is left.
        let greenlet = unsafe { ffi::PyDict_GetItemString(ffi::PyImport_GetModuleDict(), c"greenlet".as_ptr()) };
        if !greenlet.is_null() {
            return None;
        }
        SPARE.try_with(|spare| spare.0.take()).ok().flatten().or_else(map)
    }

    /// Releases it, after the call has returned. The thread keeps one for the next call at the same depth.
    #[cold]
    pub fn give(self) {
        let before = SPARE.try_with(|spare| spare.0.replace(Some(self))).unwrap_or(Some(self));
        before.into_iter().for_each(unmap);
    }

    /// Records that the calling thread goes onto the segment; returns its bounds, and the argument for
    /// [`Segment::leave`].
    #[cold]
    pub fn enter(self) -> (Stack, Option<Stack>) {
        let stack = Stack::from(self.0.as_ptr() as usize + GUARD, SEGMENT - GUARD);
        (stack, ON_SEGMENT.replace(Some(stack)))
    }

    /// Records that the calling thread is back from a segment.
    #[cold]
    pub fn leave(outer: Option<Stack>) {
        ON_SEGMENT.set(outer);
    }

    /// Evaluates a frame on the segment.
    ///
    /// # Safety
    /// Between [`Segment::enter`] and [`Segment::leave`], with the arguments of a frame evaluation function.
    #[inline(always)]
    pub unsafe fn run(
        self, function: Unwinding, tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int,
    ) -> *mut PyObject {
        // SAFETY: the top lies at the mapping's end, aligned to pages, and nothing else is on the segment.
        unsafe {
            let top = self.0.as_ptr().add(SEGMENT);
            inviso_evaluate_on(tstate, frame, throwflag, function, top)
        }
    }
}

/// A segment between two calls; freed with the thread.
struct Spare(Cell<Option<Segment>>);

impl Drop for Spare {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(unmap);
    }
}

fn map() -> Option<Segment> {
    platform::map_stack(SEGMENT, GUARD).map(Segment)
}

fn unmap(segment: Segment) {
    // SAFETY: mapped by `map`, and nothing is on it.
    unsafe { platform::unmap_stack(segment.0, SEGMENT) };
}

extern "C-unwind" {
    /// Calls `function` with the first three arguments on the stack that grows down from `top`.
    fn inviso_evaluate_on(
        tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int, function: Unwinding,
        top: *mut u8,
    ) -> *mut PyObject;
}

// The frame pointer keeps the old stack, for the return and for unwinders and debuggers.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
std::arch::global_asm!(
    ".pushsection .text.inviso_evaluate_on,\"ax\",@progbits",
    ".globl inviso_evaluate_on",
    ".hidden inviso_evaluate_on",
    ".type inviso_evaluate_on,@function",
    "inviso_evaluate_on:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "mov rsp, r8",
    "call rcx",
    "mov rsp, rbp",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size inviso_evaluate_on, . - inviso_evaluate_on",
    ".popsection",
);

// The same. The first three arguments stay in x0 to x2, the function is in x3 and the top in x4. The frame record (x29 and
// x30) is the only thing to keep: the function itself keeps x19 to x28 and d8 to d15, by the platform's rules for calls.
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
std::arch::global_asm!(
    ".pushsection .text.inviso_evaluate_on,\"ax\",@progbits",
    ".balign 4",
    ".globl inviso_evaluate_on",
    ".hidden inviso_evaluate_on",
    ".type inviso_evaluate_on,@function",
    "inviso_evaluate_on:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset w29, -16",
    ".cfi_offset w30, -8",
    "mov x29, sp",
    ".cfi_def_cfa w29, 16",
    "mov sp, x4",
    "blr x3",
    "mov sp, x29",
    ".cfi_def_cfa wsp, 16",
    "ldp x29, x30, [sp], #16",
    ".cfi_restore w29",
    ".cfi_restore w30",
    ".cfi_def_cfa_offset 0",
    "ret",
    ".cfi_endproc",
    ".size inviso_evaluate_on, . - inviso_evaluate_on",
    ".popsection",
);
