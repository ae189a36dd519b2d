//! Modules of the standard library whose functions instruments watch: at once where the program has imported them, else as soon
//! as it does. Nothing is imported for an instrument's sake.

use super::{
    originals,
    parcels::quietly,
    watch::{self, Ended, Handler},
};
use crate::{
    host::Host,
    library::{
        futures::{self, executors},
        loops::{self, loop_callbacks, loop_tokens, uv_loops},
        multiprocess::{self, pickles},
        ports, queues,
    },
    processes::{
        groups, scheduling,
        spawning::{self, attribute},
    },
    thread::here::Here,
};
use inviso_cpython::{capture, frames::frame::Frame};
use pyo3::{prelude::*, types::PyDict};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A module, and what an instrument does when it is there.
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// Called with it.
    pub adopt: fn(Python<'_>, &'static Host, &Bound<'_, PyAny>) -> PyResult<()>,
    awaited: AtomicBool,
}

impl Module {
    /// One that nobody has asked for.
    pub const fn new(
        name: &'static str, adopt: fn(Python<'_>, &'static Host, &Bound<'_, PyAny>) -> PyResult<()>,
    ) -> Module {
        Module { name, adopt, awaited: AtomicBool::new(false) }
    }
}

/// All that instruments ask for.
static ALL: &[&[Module]] = &[
    &spawning::MODULES,
    &scheduling::MODULES,
    &groups::MODULES,
    &loop_callbacks::MODULES,
    &ports::MODULES,
    &queues::MODULES,
    &executors::MODULES,
    &futures::MODULES,
    &loops::MODULES,
    &loop_tokens::MODULES,
    &multiprocess::MODULES,
    &pickles::MODULES,
    &uv_loops::MODULES,
];

/// The import system's `_load_unlocked`: a module has been loaded.
pub static LOADED: Handler = Handler { end: Some(on_loaded), ..Handler::NONE };

/// Instruments look at these modules from now on. One that is not as it is known is passed over.
///
/// # Errors
/// What `sys.monitoring` raises.
pub fn want(py: Python<'_>, host: &'static Host, modules: &'static [Module]) -> PyResult<()> {
    adopt_all(py, host, modules).map(drop)
}

/// The same, where a module that is there already has to be as it is known.
///
/// # Errors
/// As [`want`], and what a module is refused for.
pub fn need(py: Python<'_>, host: &'static Host, modules: &'static [Module]) -> PyResult<()> {
    adopt_all(py, host, modules)?
}

fn adopt_all(py: Python<'_>, host: &'static Host, modules: &'static [Module]) -> PyResult<PyResult<()>> {
    let mut refused = Ok(());
    let there = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let load = originals::codes(py.import("_frozen_importlib")?.as_any(), &["_load_unlocked"])?;
    watch::add(py, host, &LOADED, &load)?;
    for module in modules {
        // said first, so that a module that is being loaded by another thread is not missed
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

/// Whether the program has imported a module of the standard library; waits where another thread is importing it. Nothing is
/// imported by this: a file of the program's may have the same name.
///
/// # Errors
/// What the other thread's import raises.
pub fn is_there(py: Python<'_>, name: &str) -> PyResult<bool> {
    let there = py.import("sys")?.getattr("modules")?.contains(name)?;
    if there {
        py.import(name)?;
    }
    Ok(there)
}

/// They don't any more.
///
/// # Errors
/// What `sys.monitoring` raises.
pub fn leave(py: Python<'_>, host: &Host, modules: &'static [Module]) -> PyResult<()> {
    forget(modules);
    if ALL.iter().copied().flatten().all(|module| !module.awaited.load(Ordering::Acquire)) {
        watch::remove(py, host, &[&LOADED])?;
    }
    Ok(())
}

/// In a forked child: nobody waits for them.
pub fn forget(modules: &'static [Module]) {
    modules.iter().for_each(|module| module.awaited.store(false, Ordering::Release));
}

fn on_loaded(here: &mut Here, frame: Frame, how: Ended) {
    let Ended::Returned(loaded) = how else { return };
    if ALL.iter().copied().flatten().all(|module| !module.awaited.load(Ordering::Acquire)) {
        return;
    }
    quietly(here, |py, here| {
        // SAFETY: the function's only parameter, a module spec, whose name is a plain attribute; both objects stand.
        let (name, loaded) = unsafe {
            let Some(name) = attribute(py, frame.local(0), "name") else { return };
            (name, Bound::from_borrowed_ptr(py, loaded))
        };
        for module in ALL.iter().copied().flatten() {
            // SAFETY: held; attached.
            let it = module.awaited.load(Ordering::Acquire) && unsafe { capture::is_text(name.as_ptr(), module.name) };
            if it && (module.adopt)(py, here.host, &loaded).is_ok() {
                module.awaited.store(false, Ordering::Release);
            }
        }
    });
}

/// The code of `path` in a module (`"Class.method"`), if its parameters begin with these names.
///
/// # Errors
/// AttributeError if there is no such function; RuntimeError if its parameters are others.
pub fn code<'py>(module: &Bound<'py, PyAny>, path: &str, parameters: &[&str]) -> PyResult<Bound<'py, PyAny>> {
    let code = originals::code(module, path)?;
    let names: Vec<String> = code.getattr("co_varnames")?.extract()?;
    if names.len() < parameters.len() || !names.iter().zip(parameters).all(|(name, expected)| name == expected) {
        let text = format!("the parameters of {path} are unknown");
        return Err(pyo3::exceptions::PyRuntimeError::new_err(text));
    }
    Ok(code)
}

/// Keeps an object for ever, so that nothing else gets its address.
pub fn keep(word: &AtomicUsize, object: Bound<'_, PyAny>) {
    if word.load(Ordering::Acquire) != object.as_ptr() as usize {
        word.store(object.into_ptr() as usize, Ordering::Release);
    }
}

/// A function to watch: its path, its first parameters, and who looks at it.
pub type Watched = (&'static str, &'static [&'static str], &'static Handler);

/// Watches functions of a module. One that is not there, or is another than is known, is passed over.
///
/// # Errors
/// What the first of those that were passed over was found by.
pub fn watch_all(py: Python<'_>, host: &Host, module: &Bound<'_, PyAny>, functions: &[Watched]) -> PyResult<()> {
    let mut done = Ok(());
    for (path, parameters, handler) in functions {
        let found = code(module, path, parameters).and_then(|code| watch::add(py, host, handler, &[code]));
        done = done.and(found);
    }
    done
}
