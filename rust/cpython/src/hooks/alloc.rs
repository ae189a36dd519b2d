//! A count of the bytes that each thread requests from Python's allocators.
//!
//! A hook stands in front of `malloc`, `calloc` and `realloc` of the three domains (raw, mem, object) and adds the
//! requested size to [`tls::bytes`]. Frees are not counted. A request counts once: an allocator's own request to a
//! lower one (pymalloc passes more than 512 bytes on to the raw domain) is part of it. A request that fails counts
//! nothing.
//!
//! # Roles
//! Every thread of the process allocates, with or without the GIL, at any time, also while the hook is installed or
//! removed. `install`, `remove` and `state` run attached, one at a time (a mutex).
//!
//! # States
//! See [`State`]. A place of `ORIGINALS` is unused, or has five words that never change.
//!
//! # Orderings
//! Those of [`Original`], for each function of an allocator: CPython copies and reads its words plainly.
//!
//! # Checked by
//! `tests/python/test_tprof.py`.
//!
//! # Switching under running threads
//! `PyMem_SetAllocator` copies five words, not at once; a thread may see some old and some new ones. So every mixture
//! has to work: `ctx` and `free` stay the original's, and the three functions find the original functions in a static
//! that is written once, before they are first installed. Another original (a tool that came in between) takes another
//! of [`PLACES`] statics with functions of its own. Nothing is unloaded.
//!
//! # Other tools
//! A tool that installs its hook over ours (tracemalloc started later) keeps ours beneath. Then ours stays after its
//! removal, and its count is not used. A tool that was there before us and is removed restores *its* original, and our
//! hook is gone without notice. [`state`] shows that; it has to be called whenever the count is read.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::ffi::{self, PyMemAllocatorDomain, PyMemAllocatorEx};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use super::original::Original;
use crate::interpreter::tls;

/// How many different original allocators can be remembered for a domain. One is usual; each new kind of tool that
/// hooks before us takes another.
pub const PLACES: usize = 6;

const DOMAINS: [PyMemAllocatorDomain; 3] = [
    PyMemAllocatorDomain::PYMEM_DOMAIN_OBJ,
    PyMemAllocatorDomain::PYMEM_DOMAIN_MEM,
    PyMemAllocatorDomain::PYMEM_DOMAIN_RAW,
];

type Malloc = extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Calloc = extern "C" fn(*mut c_void, usize, usize) -> *mut c_void;
type Realloc = extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void;

/// Whether requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not counted, in one of the domains at least.
    Absent,
    /// Counted in every domain, and the hook is on top: it can be removed.
    Installed,
    /// Counted in every domain, but another tool's hook is on top in one at least.
    Buried,
}

/// The originals changed too often: there have been [`PLACES`] different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyOriginals;

/// The functions behind one set of ours. All null: not used yet. They are written once and never change.
struct Allocator {
    ctx: AtomicPtr<c_void>,
    malloc: Original,
    calloc: Original,
    realloc: Original,
    free: Original,
}

static ORIGINALS: [[Allocator; PLACES]; DOMAINS.len()] =
    [const { [const { Allocator::unused() }; PLACES] }; DOMAINS.len()];

/// Our functions, by domain and place.
static HOOKS: [[(Malloc, Calloc, Realloc); PLACES]; DOMAINS.len()] = [hooks::<0>(), hooks::<1>(), hooks::<2>()];

static CHANGING: Mutex<()> = Mutex::new(());

/// Installs the hook in every domain where requests aren't counted yet. Counting begins at once, on every thread.
///
/// # Errors
/// [`TooManyOriginals`]; the domains done before stay hooked, and [`remove`] has to be called.
pub fn install(py: Python<'_>) -> Result<(), TooManyOriginals> {
    let _changing = changing(py);
    for domain in 0..DOMAINS.len() {
        if counts(domain) {
            continue;
        }
        let there = current(domain);
        let place = place_for(domain, &there).ok_or(TooManyOriginals)?;
        let (malloc, calloc, realloc) = hooks_of(domain)[place];
        put(domain, PyMemAllocatorEx { malloc: Some(malloc), calloc: Some(calloc), realloc: Some(realloc), ..there });
    }
    Ok(())
}

/// Removes the hook from every domain where it is on top. False if it stays in a domain because another tool's hook
/// lies over it. There it goes on counting, which does no harm, and a later call removes it after that tool has gone.
pub fn remove(py: Python<'_>) -> bool {
    let _changing = changing(py);
    let mut gone = true;
    for domain in 0..DOMAINS.len() {
        while let Some(place) = place_of(domain, &current(domain)) {
            put(domain, originals_of(domain)[place].allocator());
        }
        gone &= !counts(domain);
    }
    gone
}

/// Whether requests are counted now. It requests a few bytes from each domain to see (some 100 ns); they don't count.
pub fn state(py: Python<'_>) -> State {
    let _changing = changing(py);
    let mut state = State::Installed;
    for domain in 0..DOMAINS.len() {
        if !counts(domain) {
            return State::Absent;
        }
        if place_of(domain, &current(domain)).is_none() {
            state = State::Buried;
        }
    }
    state
}

/// Whether every request is counted: [`State::Installed`] or [`State::Buried`].
pub fn is_installed(py: Python<'_>) -> bool {
    state(py) != State::Absent
}

extern "C" fn malloc<const DOMAIN: usize, const PLACE: usize>(ctx: *mut c_void, size: usize) -> *mut c_void {
    let before = tls::bytes();
    let original = ORIGINALS[DOMAIN][PLACE].malloc.behind();
    // SAFETY: written before this function was first installed, and a `Malloc`.
    let memory = unsafe { std::mem::transmute::<*mut (), Malloc>(original) }(ctx, size);
    count(before, size, memory)
}

extern "C" fn calloc<const DOMAIN: usize, const PLACE: usize>(ctx: *mut c_void, n: usize, size: usize) -> *mut c_void {
    let before = tls::bytes();
    let original = ORIGINALS[DOMAIN][PLACE].calloc.behind();
    // SAFETY: written before this function was first installed, and a `Calloc`.
    let memory = unsafe { std::mem::transmute::<*mut (), Calloc>(original) }(ctx, n, size);
    count(before, n.wrapping_mul(size), memory)
}

extern "C" fn realloc<const DOMAIN: usize, const PLACE: usize>(
    ctx: *mut c_void, old: *mut c_void, size: usize,
) -> *mut c_void {
    let before = tls::bytes();
    let original = ORIGINALS[DOMAIN][PLACE].realloc.behind();
    // SAFETY: written before this function was first installed, and a `Realloc`.
    let memory = unsafe { std::mem::transmute::<*mut (), Realloc>(original) }(ctx, old, size);
    count(before, size, memory)
}

/// Sets the count instead of adding to it: amounts that lower allocators counted for the same request are dropped.
#[inline(always)]
fn count(before: u64, size: usize, memory: *mut c_void) -> *mut c_void {
    let size = if memory.is_null() { 0 } else { size as u64 };
    tls::set_bytes(before.wrapping_add(size));
    memory
}

const fn hooks<const DOMAIN: usize>() -> [(Malloc, Calloc, Realloc); PLACES] {
    [
        (malloc::<DOMAIN, 0>, calloc::<DOMAIN, 0>, realloc::<DOMAIN, 0>),
        (malloc::<DOMAIN, 1>, calloc::<DOMAIN, 1>, realloc::<DOMAIN, 1>),
        (malloc::<DOMAIN, 2>, calloc::<DOMAIN, 2>, realloc::<DOMAIN, 2>),
        (malloc::<DOMAIN, 3>, calloc::<DOMAIN, 3>, realloc::<DOMAIN, 3>),
        (malloc::<DOMAIN, 4>, calloc::<DOMAIN, 4>, realloc::<DOMAIN, 4>),
        (malloc::<DOMAIN, 5>, calloc::<DOMAIN, 5>, realloc::<DOMAIN, 5>),
    ]
}

fn hooks_of(domain: usize) -> &'static [(Malloc, Calloc, Realloc); PLACES] {
    &HOOKS[domain]
}

fn originals_of(domain: usize) -> &'static [Allocator; PLACES] {
    &ORIGINALS[domain]
}

/// Whether a request in `domain` changes this thread's count.
fn counts(domain: usize) -> bool {
    let before = tls::bytes();
    // SAFETY: allowed in each domain while attached; the memory is given back to the same domain.
    let moved = unsafe {
        let memory = match domain {
            0 => ffi::PyObject_Malloc(24),
            1 => ffi::PyMem_Malloc(24),
            _ => ffi::PyMem_RawMalloc(24),
        };
        let moved = tls::bytes() != before;
        match domain {
            0 => ffi::PyObject_Free(memory),
            1 => ffi::PyMem_Free(memory),
            _ => ffi::PyMem_RawFree(memory),
        }
        moved
    };
    tls::set_bytes(before);
    moved
}

fn current(domain: usize) -> PyMemAllocatorEx {
    let mut there = MaybeUninit::uninit();
    // SAFETY: fills the structure.
    unsafe {
        ffi::PyMem_GetAllocator(DOMAINS[domain], there.as_mut_ptr());
        there.assume_init()
    }
}

fn put(domain: usize, mut allocator: PyMemAllocatorEx) {
    // SAFETY: the functions fit the `ctx`: an original as it was found, or ours in front of it (see the module's
    // comment).
    unsafe { ffi::PyMem_SetAllocator(DOMAINS[domain], &raw mut allocator) }
}

/// The place whose functions `there` has.
fn place_of(domain: usize, there: &PyMemAllocatorEx) -> Option<usize> {
    let malloc = there.malloc.map_or(0, |f| f as usize);
    hooks_of(domain).iter().position(|hook| hook.0 as usize == malloc)
}

/// The place that remembers `there` as its original; a fresh one if no place does.
fn place_for(domain: usize, there: &PyMemAllocatorEx) -> Option<usize> {
    let places = originals_of(domain);
    let wanted = words(there);
    if let Some(known) = places.iter().position(|place| words(&place.allocator()) == wanted) {
        return Some(known);
    }
    let fresh = places.iter().position(Allocator::is_unused)?;
    places[fresh].write(there);
    Some(fresh)
}

/// Waits detached, so that a thread which stops the world doesn't wait for this one.
fn changing(py: Python<'_>) -> MutexGuard<'static, ()> {
    CHANGING.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
}

/// The five words of an allocator.
fn words(allocator: &PyMemAllocatorEx) -> [*mut c_void; 5] {
    let function = |f: Option<usize>| f.unwrap_or(0) as *mut c_void;
    [
        allocator.ctx,
        function(allocator.malloc.map(|f| f as usize)),
        function(allocator.calloc.map(|f| f as usize)),
        function(allocator.realloc.map(|f| f as usize)),
        function(allocator.free.map(|f| f as usize)),
    ]
}

impl Allocator {
    const fn unused() -> Allocator {
        Allocator {
            ctx: AtomicPtr::new(ptr::null_mut()),
            malloc: Original::new(),
            calloc: Original::new(),
            realloc: Original::new(),
            free: Original::new(),
        }
    }

    fn is_unused(&self) -> bool {
        self.malloc.get().is_null()
    }

    /// Called once, under `CHANGING`, before the functions of this place are installed.
    fn write(&self, from: &PyMemAllocatorEx) {
        let [ctx, malloc, calloc, realloc, free] = words(from);
        self.ctx.store(ctx, Ordering::Release);
        self.calloc.set(calloc.cast());
        self.realloc.set(realloc.cast());
        self.free.set(free.cast());
        self.malloc.set(malloc.cast());
    }

    fn allocator(&self) -> PyMemAllocatorEx {
        // SAFETY: each word was taken from an allocator's field of the same type (or is null, which is `None`).
        unsafe {
            PyMemAllocatorEx {
                ctx: self.ctx.load(Ordering::Relaxed),
                malloc: std::mem::transmute::<*mut (), Option<Malloc>>(self.malloc.get()),
                calloc: std::mem::transmute::<*mut (), Option<Calloc>>(self.calloc.get()),
                realloc: std::mem::transmute::<*mut (), Option<Realloc>>(self.realloc.get()),
                free: std::mem::transmute::<*mut (), Option<extern "C" fn(*mut c_void, *mut c_void)>>(self.free.get()),
            }
        }
    }
}
