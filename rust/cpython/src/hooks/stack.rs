//! The C stack under a frame evaluation function (3.11): how much is left, and more of it.
//!
//! An untouched 3.11 takes no C stack for a call from Python to Python, so a program may recurse as deep as it has set the
//! limit. While the function is in, each such call takes some 500 bytes. Where the thread's stack comes to its end the
//! call goes on a [`Segment`], a stack of our own, as long as it lasts; then on a further one. What C code needs on top
//! of such a call it finds there: a switch is made while [`RESERVE`] is left.
//!
//! A segment stays the thread's until the call has returned. If the thread is ended inside (a daemon thread at the end of
//! the interpreter) the segment is left behind: nothing here is to be run by an unwinder.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use pyo3::ffi::{self, _PyInterpreterFrame, PyObject, PyThreadState};

use super::eval::Unwinding;

/// C stack that a call finds (half of a small stack), if there is a segment to be had.
const RESERVE: usize = 1024 * 1024;

/// C stack that a call finds in any case: where not even that is left there is none.
const LAST: usize = 64 * 1024;

/// Bytes of a segment, of which as many are used as are needed.
const SEGMENT: usize = 8 * 1024 * 1024;

/// Bytes below a segment that must not be touched.
const GUARD: usize = 64 * 1024;

thread_local! {
    static ON_SEGMENT: Cell<Option<Stack>> = const { Cell::new(None) };
    static SPARE: Spare = const { Spare(Cell::new(None)) };
}

/// How far the calling thread's C stack may grow down: measured once a thread and segment, then one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    floor: usize,
    end: usize,
}

impl Stack {
    /// Measures the stack that the calling thread is on; takes some µs. Where that can't be done the result never has room.
    #[cold]
    pub fn of_this_thread() -> Stack {
        if let Some(stack) = ON_SEGMENT.get() {
            return stack;
        }
        match bounds() {
            Some((low, size)) => Stack::from(low, size),
            None => Stack { floor: usize::MAX, end: 0 },
        }
    }

    fn from(low: usize, size: usize) -> Stack {
        Stack { floor: low + RESERVE.min(size / 2), end: low + LAST.min(size / 4) }
    }

    /// Whether a call may be made here. To be asked on the stack that was measured.
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
    /// One for the calling thread. `None` if no memory is to be had, and beside greenlet, which copies stacks and takes a
    /// thread to have one.
    ///
    /// # Safety
    /// The calling thread is attached and has no exception set.
    #[cold]
    pub unsafe fn take() -> Option<Segment> {
        // SAFETY: attached; both answers are borrowed, the second may be null, and no exception is left.
        let greenlet = unsafe { ffi::PyDict_GetItemString(ffi::PyImport_GetModuleDict(), c"greenlet".as_ptr()) };
        if !greenlet.is_null() {
            return None;
        }
        SPARE.try_with(|spare| spare.0.take()).ok().flatten().or_else(map)
    }

    /// Gives it up, once the call has returned. The thread keeps one for the next call at the same depth.
    #[cold]
    pub fn give(self) {
        let before = SPARE.try_with(|spare| spare.0.replace(Some(self))).unwrap_or(Some(self));
        before.into_iter().for_each(unmap);
    }

    /// Notes that the calling thread goes onto the segment; answers its bounds, and what is to be given to
    /// [`Segment::leave`].
    #[cold]
    pub fn enter(self) -> (Stack, Option<Stack>) {
        let stack = Stack::from(self.0.as_ptr() as usize + GUARD, SEGMENT - GUARD);
        (stack, ON_SEGMENT.replace(Some(stack)))
    }

    /// Notes that the calling thread is back from a segment.
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
        // SAFETY: the top lies at the mapping's end, aligned to pages, and nobody else is on the segment.
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

extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, bytes: usize) -> c_int;
    fn mprotect(at: *mut c_void, bytes: usize, protection: c_int) -> c_int;
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn map() -> Option<Segment> {
    const READ_AND_WRITE: c_int = 3;
    const PRIVATE_ANONYMOUS_NORESERVE_STACK: c_int = 0x2 | 0x20 | 0x4000 | 0x2_0000;
    // SAFETY: a new mapping, of which the lowest part is then taken away.
    unsafe {
        let low = mmap(ptr::null_mut(), SEGMENT, READ_AND_WRITE, PRIVATE_ANONYMOUS_NORESERVE_STACK, -1, 0);
        if low as isize == -1 {
            return None;
        }
        if mprotect(low, GUARD, 0) != 0 {
            munmap(low, SEGMENT);
            return None;
        }
        NonNull::new(low.cast()).map(Segment)
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn map() -> Option<Segment> {
    None
}

fn unmap(segment: Segment) {
    // SAFETY: mapped by `map`, and nobody is on it.
    unsafe { munmap(segment.0.as_ptr().cast(), SEGMENT) };
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

/// The lowest address of the calling thread's own stack, and its size.
#[cfg(target_os = "linux")]
fn bounds() -> Option<(usize, usize)> {
    /// Room for a `pthread_attr_t`: 56 bytes with glibc and musl on 64-bit machines.
    #[repr(C, align(16))]
    struct Attributes([u8; 128]);
    extern "C" {
        fn pthread_self() -> usize;
        fn pthread_getattr_np(thread: usize, attributes: *mut Attributes) -> c_int;
        fn pthread_attr_getstack(attributes: *const Attributes, address: *mut *mut c_void, size: *mut usize) -> c_int;
        fn pthread_attr_getguardsize(attributes: *const Attributes, size: *mut usize) -> c_int;
        fn pthread_attr_destroy(attributes: *mut Attributes) -> c_int;
    }
    let mut attributes = MaybeUninit::<Attributes>::uninit();
    let (mut address, mut size, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: the calls fill what they are given; the attributes are initialised by the first and destroyed by the last.
    unsafe {
        if pthread_getattr_np(pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let got = pthread_attr_getstack(attributes.as_ptr(), &raw mut address, &raw mut size);
        pthread_attr_getguardsize(attributes.as_ptr(), &raw mut guard);
        pthread_attr_destroy(attributes.as_mut_ptr());
        (got == 0 && !address.is_null() && size > guard).then_some((address as usize + guard, size - guard))
    }
}

#[cfg(not(target_os = "linux"))]
fn bounds() -> Option<(usize, usize)> {
    None
}
