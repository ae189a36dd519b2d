//! The calling thread's `PyThreadState`, read in one instruction where that is possible.
//!
//! `PyThreadState_Get` is a call into the interpreter's library, which gets the address of a thread-local word from the
//! loader (3.12 on): some 5 ns, twice at an event. If that library was loaded with the program, the word is at the same
//! distance from every thread's pointer. [`find`] looks for it once. Where it does not find it, the function is used.
//!
//! # Roles
//! One attached thread looks, at import. Any thread reads.
//!
//! # States
//! A distance, an offset or `MAIN` is 0 (not found), then the found value for ever.
//!
//! # Orderings
//! All are `Relaxed`: each is one whole fact about memory that does not change.
//!
//! # Checked by
//! The checks of [`find`] itself; `tests/python/test_trace_host.py`.

use pyo3::ffi::{self as api, PyThreadState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The calling thread's state.
///
/// # Safety
/// The calling thread is attached.
#[inline(always)]
pub unsafe fn current() -> *mut PyThreadState {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", Py_3_12, not(inviso_portable)))]
    // SAFETY: the caller promises that the calling thread is attached.
    return unsafe { state_word::current() };
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", Py_3_12, not(inviso_portable))))]
    // SAFETY: as above.
    unsafe {
        api::PyThreadState_Get()
    }
}

/// Whether [`current`] reads the state without a call of the interpreter. False before [`find`].
pub fn is_near() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", Py_3_12, not(inviso_portable)))]
    return state_word::DISTANCE.load(Relaxed) != 0;
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", Py_3_12, not(inviso_portable))))]
    false
}

/// The main interpreter, if [`find`] has verified that it is the third word of a thread's state: the field `interp`.
static MAIN: AtomicUsize = AtomicUsize::new(0);
const INTERPRETER: usize = 2;

/// Whether the calling thread runs another interpreter of this process than the main one, the only one that can load
/// this package.
///
/// # Safety
/// As [`current`].
#[inline(always)]
pub unsafe fn is_elsewhere() -> bool {
    let main = MAIN.load(Relaxed);
    // SAFETY: the caller promises an attached thread; its state stands, and an interpreter is only compared.
    unsafe {
        match main {
            0 => api::PyThreadState_GetInterpreter(current()) != api::PyInterpreterState_Main(),
            _ => *current().cast::<usize>().add(INTERPRETER) != main,
        }
    }
}

/// Whether the calling thread is attached to an interpreter.
#[inline]
pub fn is_attached() -> bool {
    extern "C" {
        #[cfg_attr(not(Py_3_13), link_name = "_PyThreadState_UncheckedGet")]
        fn PyThreadState_GetUnchecked() -> *mut PyThreadState;
    }
    // SAFETY: any thread may call this.
    unsafe { !PyThreadState_GetUnchecked().is_null() }
}

/// From a thread's state to the word that is null while no exception is set; 0 if [`find_exception`] has not found it.
static EXCEPTION: AtomicUsize = AtomicUsize::new(0);

/// Whether an exception is set in the calling thread, whose state this is.
///
/// # Safety
/// The calling thread is attached, with this state.
#[inline(always)]
pub unsafe fn has_exception(state: *mut PyThreadState) -> bool {
    // SAFETY: the caller promises an attached thread; `find_exception` has verified the word.
    unsafe {
        match EXCEPTION.load(Relaxed) {
            0 => has_occurred(),
            at => *state.cast::<usize>().byte_add(at) != 0,
        }
    }
}

#[cold]
#[inline(never)]
/// Whether an exception is set, by a call of the interpreter.
///
/// # Safety
/// As [`current`].
unsafe fn has_occurred() -> bool {
    // SAFETY: the caller promises an attached thread.
    unsafe { !api::PyErr_Occurred().is_null() }
}

/// Looks for the word that is null while no exception is set.
fn find_exception(_py: pyo3::Python<'_>) {
    /// The words of a thread's state that are searched: all versions have more.
    const WORDS: usize = 40;
    // SAFETY: the thread is attached; the state has more words than that. The exception is cleared at once.
    unsafe {
        let state = current().cast::<usize>();
        let words = |what: usize| (0..WORDS).filter(move |n| *state.add(*n) == what).collect::<Vec<_>>();
        let value = api::PyObject_CallNoArgs(api::PyExc_ValueError);
        if value.is_null() {
            return api::PyErr_Clear();
        }
        let (none, empty) = (words(value as usize), words(0));
        api::PyErr_SetObject(api::PyExc_ValueError, value);
        let set = words(value as usize);
        // before 3.12 the class stands before the value
        let before = usize::from(!cfg!(Py_3_12));
        api::PyErr_Clear();
        api::Py_DECREF(value);
        if let ([], [at]) = (&none[..], &set[..]) {
            let at = at - before;
            if empty.contains(&at) && *state.add(at) == 0 {
                EXCEPTION.store(at * size_of::<usize>(), Relaxed);
            }
        }
    }
}

/// Looks for the words, once and for all threads. Attached; detaches for a moment.
pub fn find(py: pyo3::Python<'_>) {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", Py_3_12, not(inviso_portable)))]
    state_word::find();
    // SAFETY: the thread is attached; a thread's state has more words than these.
    unsafe {
        let main = api::PyInterpreterState_Main() as usize;
        if *current().cast::<usize>().add(INTERPRETER) == main {
            MAIN.store(main, Relaxed);
        }
    }
    find_exception(py);
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", Py_3_12, not(inviso_portable)))]
mod state_word {
    use super::api;
    use libc::{c_int, c_void, dl_phdr_info, size_t};
    use std::{
        arch::asm,
        ptr,
        sync::atomic::{AtomicIsize, Ordering::Relaxed},
    };

    /// From the thread pointer to the word; 0 while that is not known.
    pub static DISTANCE: AtomicIsize = AtomicIsize::new(0);

    /// glibc keeps the thread-local words of modules that were loaded with the program below the thread pointer, within
    /// this distance.
    const NEAR: isize = 1 << 16;

    /// # Safety
    /// The calling thread is attached.
    #[inline(always)]
    pub unsafe fn current() -> *mut api::PyThreadState {
        let distance = DISTANCE.load(Relaxed);
        if distance == 0 {
            // SAFETY: the caller promises that the calling thread is attached.
            return unsafe { ask() };
        }
        // SAFETY: `find` has verified that the word lies there.
        unsafe { read(distance) }.cast()
    }

    #[cold]
    #[inline(never)]
    /// The state, by a call of the interpreter. Rare here, so it is out of line.
    ///
    /// # Safety
    /// As [`current`].
    unsafe fn ask() -> *mut api::PyThreadState {
        // SAFETY: the caller promises that the calling thread is attached.
        unsafe { api::PyThreadState_Get() }
    }

    /// # Safety
    /// There is such a word in every thread.
    #[inline(always)]
    unsafe fn read(distance: isize) -> *mut c_void {
        let word: *mut c_void;
        // SAFETY: the caller promises that the word exists. Not `pure`: it changes when the thread attaches and
        // detaches.
        unsafe {
            asm!(
                "mov {r}, qword ptr fs:[{d}]",
                r = out(reg) word,
                d = in(reg) distance,
                options(readonly, nostack, preserves_flags),
            );
        }
        word
    }

    /// The block of thread-local words of the module with a function, in the calling thread.
    struct Block {
        function: usize,
        start: usize,
        words: usize,
    }

    /// Records the block of a module that contains the function; 1 if it does, which ends the walk.
    ///
    /// # Safety
    /// Only `dl_iterate_phdr` calls it, with a [`Block`] that nothing else uses as `out`.
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _size: size_t, out: *mut c_void) -> c_int {
        // SAFETY: the loader passes a description that is valid during the call, and `out` is `Block::of`'s.
        unsafe {
            let (info, out) = (&*info, &mut *out.cast::<Block>());
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
            let holds = |h: &libc::Elf64_Phdr| {
                let begin = info.dlpi_addr as usize + h.p_vaddr as usize;
                h.p_type == libc::PT_LOAD && (begin..begin + h.p_memsz as usize).contains(&out.function)
            };
            if !headers.iter().any(holds) {
                return 0;
            }
            if let Some(own) = headers.iter().find(|h| h.p_type == libc::PT_TLS) {
                (out.start, out.words) = (info.dlpi_tls_data as usize, own.p_memsz as usize / size_of::<usize>());
            }
            1
        }
    }

    impl Block {
        fn of(function: usize) -> Block {
            let mut block = Block { function, start: 0, words: 0 };
            // SAFETY: `look` is such a callback, and `block` outlives the call.
            unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut block).cast()) };
            block
        }

        fn distance(&self) -> isize {
            let pointer: usize;
            // SAFETY: by the platform's rules for threads the first word at the thread pointer is its own address.
            unsafe { asm!("mov {r}, qword ptr fs:[0]", r = out(reg) pointer, options(pure, readonly, nostack)) };
            self.start.wrapping_sub(pointer) as isize
        }
    }

    pub fn find() {
        if DISTANCE.load(Relaxed) != 0 {
            return;
        }
        let function = api::PyThreadState_Get as *const () as usize;
        let block = Block::of(function);
        let near = |d: isize| (-NEAR..0).contains(&d);
        if block.start == 0 || !block.start.is_multiple_of(size_of::<usize>()) || !near(block.distance()) {
            return;
        }
        // another thread must have the block at the same distance
        let other = std::thread::spawn(move || Block::of(function).distance()).join();
        if other.ok() != Some(block.distance()) {
            return;
        }
        // SAFETY: the thread is attached. The words lie inside this thread's own block; while it is detached nothing
        // touches Python.
        let found: Vec<usize> = unsafe {
            let word = |n: usize| block.start as *const usize as usize + n * size_of::<usize>();
            let holds = |n: &usize, what: *const c_void| ptr::read_volatile(word(*n) as *const *const c_void) == what;
            let state = api::PyThreadState_Get();
            let mut found: Vec<usize> = (0..block.words).filter(|n| holds(n, state.cast())).collect();
            let state = api::PyEval_SaveThread();
            found.retain(|n| holds(n, ptr::null()));
            api::PyEval_RestoreThread(state);
            found.retain(|n| holds(n, state.cast()));
            found
        };
        if let [n] = found[..] {
            DISTANCE.store(block.distance() + (n * size_of::<usize>()) as isize, Relaxed);
        }
    }
}
