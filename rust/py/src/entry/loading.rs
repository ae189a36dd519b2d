//! Functions that come into being later: each new function object's code is offered to every session's `on_load` once.
//!
//! On 3.12 and later a function watcher tells; on 3.11 the frame evaluation function sees each frame and asks here about
//! code that it has not met.

#[cfg(Py_3_12)]
use super::door;
use super::{arming::Armer, codes};
use crate::host::Host;
use inviso_core::plan::Mfa;
use inviso_cpython::{frames::frame, interpreter::calling};
use pyo3::{ffi, prelude::*};
use rustc_hash::{FxHashMap, FxHashSet};
#[cfg(not(Py_3_12))]
use std::sync::atomic::AtomicU32;
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Mutex, MutexGuard,
};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether any session waits for new code.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// How often new code has begun to be noticed: code that a thread has met is known as long as that stays the same.
#[cfg(not(Py_3_12))]
static TIMES: AtomicU32 = AtomicU32::new(0);

/// Code that a thread has met lately, each at the one place that its address gives (3.11).
#[cfg(not(Py_3_12))]
#[derive(Default)]
pub struct Met {
    times: u32,
    codes: Vec<usize>,
}

#[cfg(not(Py_3_12))]
impl Met {
    /// A power of two.
    const PLACES: usize = 1024;

    #[inline(always)]
    fn place(code: usize) -> usize {
        (code >> 4 ^ code >> 14) & (Self::PLACES - 1)
    }

    #[inline(always)]
    fn has(&self, code: usize) -> bool {
        self.codes.get(Self::place(code)) == Some(&code) && self.times == TIMES.load(Ordering::Relaxed)
    }

    fn add(&mut self, code: usize) {
        let times = TIMES.load(Ordering::Relaxed);
        if self.times != times {
            self.times = times;
            self.codes.clear();
            self.codes.resize(Self::PLACES, 0);
        }
        self.codes[Self::place(code)] = code;
    }
}

std::thread_local! {
    static CHANGING: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// While one of these exists, this thread is inside a change: functions that come into being on it (a destructor may run
/// any code) wait until the change is done.
pub struct Changing(());

impl Changing {
    /// Begins.
    #[must_use]
    pub fn new() -> Self {
        CHANGING.set(CHANGING.get() + 1);
        Changing(())
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.set(CHANGING.get() - 1);
    }
}

/// Code that is known, so that what is not is new.
#[derive(Default)]
pub struct Loading {
    known: Mutex<Known>,
    /// Functions that came into being inside a change.
    late: Mutex<Vec<Py<PyAny>>>,
    /// What each session waits for; of a function that none does, nothing is armed.
    wanted: Mutex<FxHashMap<u64, Vec<codes::Pattern>>>,
}

#[derive(Default)]
struct Known {
    codes: FxHashSet<usize>,
    #[cfg(not(Py_3_12))]
    held: Vec<Py<PyAny>>,
    #[cfg(Py_3_12)]
    watchers: Option<(inviso_cpython::hooks::watch::Watcher, inviso_cpython::hooks::watch::Watcher)>,
}

impl Loading {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// From now on new code is noticed. What exists now is not new.
    ///
    /// # Errors
    /// No watcher slot is left; or what listing the functions raises.
    pub fn begin(&self, py: Python<'_>) -> PyResult<()> {
        if is_on() {
            return Ok(());
        }
        #[cfg(Py_3_12)]
        {
            // SAFETY: both callbacks keep to their contracts and are never unloaded.
            let watchers = unsafe {
                use inviso_cpython::hooks::watch::Watcher;
                let code = Watcher::code(py, code_event)
                    .map_err(|e| pyo3::exceptions::PyRuntimeError::new_err(e.to_string()))?;
                let function = Watcher::function(py, function_event)
                    .map_err(|e| pyo3::exceptions::PyRuntimeError::new_err(e.to_string()))?;
                (code, function)
            };
            self.known().watchers = Some(watchers);
        }
        #[cfg(not(Py_3_12))]
        TIMES.fetch_add(1, Ordering::Relaxed);
        ON.store(true, Ordering::Release);
        let all = codes::find(py, &codes::Pattern { module: None, function: None, arity: None })?;
        let mut known = self.known();
        known.codes.extend(all.iter().map(|found| found.code.as_ptr() as usize));
        #[cfg(not(Py_3_12))]
        known.held.extend(all.into_iter().map(|found| found.code));
        // code that goes with `all` comes here again
        drop(known);
        Ok(())
    }

    /// Nobody waits for new code any more.
    pub fn end(&self, py: Python<'_>) {
        if !ON.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut known = self.known();
        let old = std::mem::take(&mut *known);
        drop(known);
        #[cfg(Py_3_12)]
        if let Some((code, function)) = old.watchers {
            code.clear(py);
            function.clear(py);
        }
        #[cfg(not(Py_3_12))]
        drop(old.held);
        let _ = py;
    }

    fn wanted(&self) -> MutexGuard<'_, FxHashMap<u64, Vec<codes::Pattern>>> {
        self.wanted.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A session waits for the functions that one of these patterns takes.
    pub fn want(&self, session: u64, patterns: Vec<codes::Pattern>) {
        self.wanted().insert(session, patterns);
    }

    /// A session waits for nothing any more.
    pub fn unwant(&self, session: u64) {
        self.wanted().remove(&session);
    }

    /// Whether a session waits for this function.
    fn wants(&self, session: u64, name: &Mfa) -> bool {
        self.wanted().get(&session).is_some_and(|patterns| patterns.iter().any(|p| p.takes(name)))
    }

    /// Whether any session waits for functions with these globals.
    ///
    /// # Safety
    /// `globals` stands, and the calling thread is attached.
    unsafe fn wants_module(&self, globals: *mut ffi::PyObject) -> bool {
        // SAFETY: the caller's promise.
        let module = unsafe { frame::module_of(globals) };
        // what has no name may go by that of its file: let the search say
        // SAFETY: attached, as the caller promises.
        let name = codes::text(unsafe { Python::assume_attached() }, module.as_ptr());
        let named = |pattern: &codes::Pattern| name.as_deref().is_none_or(|name| pattern.takes_module(name));
        self.wanted().values().flatten().any(named)
    }

    /// Whether this code has not been met before; it has then.
    fn is_new(&self, code: usize) -> bool {
        self.known().codes.insert(code)
    }
}

impl Host {
    /// Takes in the functions that came into being inside a change. To be called outside of one.
    pub fn catch_up(&'static self, py: Python<'_>) {
        let late = std::mem::take(&mut *self.loading.late.lock().unwrap_or_else(|e| e.into_inner()));
        for function in late {
            self.function_made(py, function.bind(py));
        }
    }

    /// A function object has come into being.
    fn function_made(&'static self, py: Python<'_>, function: &Bound<'_, PyAny>) {
        // SAFETY: `function` is a function.
        let code = unsafe { ffi::PyFunction_GetCode(function.as_ptr()) };
        // SAFETY: a function's globals live as long as it does.
        let wanted = unsafe { self.loading.wants_module(ffi::PyFunction_GetGlobals(function.as_ptr())) };
        if !self.loading.is_new(code as usize) || !wanted {
            return;
        }
        let found: Vec<codes::Found> = codes::of_function(py, function)
            .into_iter()
            .filter(|f| f.code.as_ptr() == code || self.loading.is_new(f.code.as_ptr() as usize))
            .collect();
        self.offer(py, found);
    }

    /// Offers new code to every session that waits for some.
    pub fn offer(&'static self, py: Python<'_>, found: Vec<codes::Found>) {
        let wanted = |name: &Mfa| self.loading.wanted().values().flatten().any(|p| p.takes(name));
        let found: Vec<_> = found.into_iter().filter(|f| !codes::is_ours(&f.name.module) && wanted(&f.name)).collect();
        if found.is_empty() || calling::is_ending(py) {
            return;
        }
        let targets = codes::targets(py, self, found);
        py.detach(|| self.node.loaded(&targets, &|session, name| self.loading.wants(session, name), &Armer));
        self.release(py, targets.iter().map(|t| t.key));
        self.catch_up(py);
    }
}

/// A function object has come into being: its code is offered if it is new. Other events are passed over.
///
/// # Safety
/// To be called by the interpreter only, as a watcher of functions.
#[cfg(Py_3_12)]
unsafe extern "C" fn function_event(
    event: std::ffi::c_int, function: *mut ffi::PyObject, _value: *mut ffi::PyObject,
) -> std::ffi::c_int {
    if !is_on() || event != inviso_cpython::hooks::watch::FUNCTION_CREATE {
        return 0;
    }
    let Some(host) = crate::host::try_host() else { return 0 };
    door::guard(|| {
        // SAFETY: the interpreter passes a function, and is attached.
        let code = unsafe { ffi::PyFunction_GetCode(function) } as usize;
        if code == 0 || host.loading.known().codes.contains(&code) {
            return;
        }
        calling::attached(|py| {
            // SAFETY: as above.
            let function = unsafe { Bound::from_borrowed_ptr(py, function) };
            if CHANGING.get() > 0 {
                host.loading.late.lock().unwrap_or_else(|e| e.into_inner()).push(function.unbind());
            } else {
                host.function_made(py, &function);
            }
        });
    });
    0
}

/// A code object is about to be freed.
///
/// # Safety
/// To be called by the interpreter only, as a watcher of code objects.
#[cfg(Py_3_12)]
unsafe extern "C" fn code_event(event: std::ffi::c_int, code: *mut ffi::PyObject) -> std::ffi::c_int {
    if event == inviso_cpython::hooks::watch::CODE_DESTROY {
        if let Some(host) = crate::host::try_host() {
            door::guard(|| host.loading.known().codes.remove(&(code as usize)));
        }
    }
    0
}

/// A frame begins (3.11): if its code is new, sessions are offered it before the call is taken.
#[cfg(not(Py_3_12))]
#[inline(always)]
pub fn first_seen(here: &mut crate::thread::here::Here, frame: inviso_cpython::frames::frame::Frame) {
    if is_on() {
        // SAFETY: the frame is about to run.
        let code = unsafe { frame.code() } as usize;
        if !here.met.has(code) {
            meet(here, frame, code);
        }
    }
}

#[cfg(not(Py_3_12))]
#[inline(never)]
fn meet(here: &mut crate::thread::here::Here, frame: inviso_cpython::frames::frame::Frame, code: usize) {
    if here.host.loading.is_new(code) {
        offer_frame(here, frame);
    }
    here.met.add(code);
}

#[cfg(not(Py_3_12))]
#[cold]
#[inline(never)]
fn offer_frame(here: &mut crate::thread::here::Here, frame: inviso_cpython::frames::frame::Frame) {
    calling::attached(|py| {
        // SAFETY: the frame's globals are alive as long as the frame.
        let wanted = unsafe { here.host.loading.wants_module(frame.globals()) };
        // SAFETY: the frame's function and code are alive as long as the frame.
        let (function, code) = unsafe {
            (Bound::from_borrowed_ptr(py, frame.function()), Bound::from_borrowed_ptr(py, frame.code()).unbind())
        };
        let here_code = code.as_ptr();
        here.host.loading.known().held.push(code);
        if !wanted {
            return;
        }
        let found = codes::of_function(py, &function);
        let fresh = found.into_iter().filter(|f| f.code.as_ptr() == here_code).collect();
        here.host.offer(py, fresh);
    });
}

/// In a forked child: nothing is waited for; the locks of the old host may be held for ever.
pub fn forget(py: Python<'_>) {
    ON.store(false, Ordering::Release);
    if let Some(host) = crate::host::try_host() {
        if let Ok(mut known) = host.loading.known.try_lock() {
            let old = std::mem::take(&mut *known);
            drop(known);
            #[cfg(Py_3_12)]
            if let Some((code, function)) = old.watchers {
                code.clear(py);
                function.clear(py);
            }
            #[cfg(not(Py_3_12))]
            drop(old.held);
        }
    }
    let _ = py;
}
