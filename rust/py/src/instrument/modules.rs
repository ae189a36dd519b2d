//! Modules of the standard library whose functions instruments watch. Functions of an imported module are watched at
//! once, those of other modules when the program imports them. Instruments import nothing.
//!
//! # Roles
//! Instruments want and leave modules. The thread that has loaded a module adopts it.
//!
//! # States
//! `awaited` is true from the request for a module until the module is adopted, or no longer wanted.
//!
//! # Orderings
//! `awaited` is set with `Release` before `sys.modules` is read, and read with `Acquire` after a load. So a module that
//! another thread loads meanwhile is not missed.
//!
//! # Checked by
//! `tests/python/test_shadowed_modules.py`, `tests/python/test_host_fork.py`.

use super::watch;
use crate::{
    control::originals,
    state::{
        above::above,
        host::Host,
        instrument::{Ended, Handler, Module},
        thread::ThreadState,
        untraced::untraced,
    },
};
use inviso_cpython::{capture, frames::frame::Frame, interpreter::generic::attribute};
use pyo3::{prelude::*, types::PyDict};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The import system's `_load_unlocked`: a module has been loaded.
pub static LOADED: Handler = Handler { end: Some(on_loaded), ..Handler::NONE };

/// Instruments watch these modules from now on. A module with unknown functions is passed over.
///
/// # Errors
/// An error that `sys.monitoring` raises.
pub fn want(py: Python<'_>, host: &'static Host, modules: &'static [Module]) -> PyResult<()> {
    adopt_all(py, host, modules).map(drop)
}

/// The same, but an imported module must have the known functions.
///
/// # Errors
/// As [`want`], and the reason why a module is refused.
pub fn need(py: Python<'_>, host: &'static Host, modules: &'static [Module]) -> PyResult<()> {
    adopt_all(py, host, modules)?
}

fn adopt_all(py: Python<'_>, host: &'static Host, modules: &'static [Module]) -> PyResult<PyResult<()>> {
    let mut refused = Ok(());
    let there = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let load = originals::codes(py.import("_frozen_importlib")?.as_any(), &["_load_unlocked"])?;
    watch::add(py, host, &LOADED, &load)?;
    for module in modules {
        // set first, so a module that another thread is loading is not missed
        module.awaited.store(true, Ordering::Release);
        if let Some(found) = there.get_item(module.name)? {
            let adopted = (module.adopt)(py, host, &found);
            if adopted.is_ok() {
                module.awaited.store(false, Ordering::Release);
            }
            refused = refused.and(adopted);
        }
    }
    Ok(refused)
}

/// Whether the program has imported a module of the standard library. Waits if another thread is importing it. Imports
/// nothing itself: a file of the program may have the same name.
///
/// # Errors
/// An error of the other thread's import.
pub fn is_there(py: Python<'_>, name: &str) -> PyResult<bool> {
    let there = py.import("sys")?.getattr("modules")?.contains(name)?;
    if there {
        py.import(name)?;
    }
    Ok(there)
}

/// Instruments no longer watch these modules.
///
/// # Errors
/// An error that `sys.monitoring` raises.
pub fn leave(py: Python<'_>, host: &Host, modules: &'static [Module]) -> PyResult<()> {
    forget(modules);
    if above().modules.iter().copied().flatten().all(|module| !module.awaited.load(Ordering::Acquire)) {
        watch::remove(py, host, &[&LOADED])?;
    }
    Ok(())
}

/// No instrument waits for them in a forked child.
pub fn forget(modules: &'static [Module]) {
    modules.iter().for_each(|module| module.awaited.store(false, Ordering::Release));
}

fn on_loaded(state: &mut ThreadState, frame: Frame, how: Ended) {
    let Ended::Returned(loaded) = how else { return };
    if above().modules.iter().copied().flatten().all(|module| !module.awaited.load(Ordering::Acquire)) {
        return;
    }
    untraced(state, |py, state| {
        // SAFETY: the function's only parameter is a module spec, whose name is a plain attribute; both objects stand.
        let (name, loaded) = unsafe {
            let Some(name) = attribute(py, frame.local(0), "name") else { return };
            (name, Bound::from_borrowed_ptr(py, loaded))
        };
        for module in above().modules.iter().copied().flatten() {
            // SAFETY: the name is held; attached.
            let it = module.awaited.load(Ordering::Acquire) && unsafe { capture::is_text(name.as_ptr(), module.name) };
            if it && (module.adopt)(py, state.host, &loaded).is_ok() {
                module.awaited.store(false, Ordering::Release);
            }
        }
    });
}

/// The code of `path` in a module (`"Class.method"`), if its parameters begin with these names.
///
/// # Errors
/// AttributeError if there is no such function; RuntimeError if it has other parameters.
pub fn code<'py>(module: &Bound<'py, PyAny>, path: &str, parameters: &[&str]) -> PyResult<Bound<'py, PyAny>> {
    let code = originals::code(module, path)?;
    let names: Vec<String> = code.getattr("co_varnames")?.extract()?;
    if names.len() < parameters.len() || !names.iter().zip(parameters).all(|(name, expected)| name == expected) {
        let text = format!("the parameters of {path} are unknown");
        return Err(pyo3::exceptions::PyRuntimeError::new_err(text));
    }
    Ok(code)
}

/// Keeps an object for ever, so no other object gets its address.
pub fn keep(word: &AtomicUsize, object: Bound<'_, PyAny>) {
    if word.load(Ordering::Acquire) != object.as_ptr() as usize {
        word.store(object.into_ptr() as usize, Ordering::Release);
    }
}

/// A function to watch: its path, its first parameters, and its handler.
pub type Watched = (&'static str, &'static [&'static str], &'static Handler);

/// Watches functions of a module. Passes over functions that don't exist or have other parameters than the known ones.
///
/// # Errors
/// The first error of the functions that were passed over.
pub fn watch_all(py: Python<'_>, host: &Host, module: &Bound<'_, PyAny>, functions: &[Watched]) -> PyResult<()> {
    let mut done = Ok(());
    for (path, parameters, handler) in functions {
        let found = code(module, path, parameters).and_then(|code| watch::add(py, host, handler, &[code]));
        done = done.and(found);
    }
    done
}
