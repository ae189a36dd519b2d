//! Finds functions by pattern among everything that is loaded, and the names of code objects.

use super::{foreign_functions, found::Found};
use crate::state::{host::Host, pattern::Pattern};
use inviso_core::host::{control::Target, plan::Mfa};
use inviso_cpython::{
    frames::{
        frame::{self, CodeLayout},
        stacks,
    },
    interpreter::calling,
    object::tracked as objects,
};
use inviso_port::learned;
use pyo3::{ffi, prelude::*, types::*};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A search under way, with each code object once.
struct Search<'py> {
    py: Python<'py>,
    pattern: &'py Pattern,
    seen: FxHashSet<usize>,
    exports: FxHashMap<usize, Exports>,
    modules: FxHashMap<usize, Option<Arc<str>>>,
    renamed: Vec<Bound<'py, PyAny>>,
    found: Vec<Found>,
}

/// The exports that a module declares.
enum Exports {
    Listed(FxHashSet<String>),
    ByName,
}

/// All functions that a pattern matches.
///
/// # Errors
/// An error that the interpreter raises while it lists its objects (no memory).
pub fn find(py: Python<'_>, pattern: &Pattern) -> PyResult<Vec<Found>> {
    let mut search = Search::new(py, pattern);
    let function = &raw mut ffi::PyFunction_Type;
    let generators = [&raw mut ffi::PyGen_Type, &raw mut ffi::PyCoro_Type, &raw mut ffi::PyAsyncGen_Type];
    let found = objects::all(py, &[&[function], &generators[..]].concat())?;
    let (functions, generators): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| found.get_type_ptr() == function);
    functions.iter().for_each(|function| search.function(function));
    generators.iter().for_each(|generator| search.generator(generator));
    if py.import("gc")?.call_method0("get_freeze_count")?.extract::<usize>()? > 0 {
        search.modules()?;
    }
    search.renamed();
    search.frames();
    if let Some(found) = foreign_functions::find(py, pattern)? {
        search.found.push(found);
    }
    Ok(search.found)
}

/// The targets for the core of functions that were found. Their code is held until [`Host::release`], and logs learn
/// where it is.
pub fn targets(py: Python<'_>, host: &Host, found: Vec<Found>) -> Vec<Target> {
    learned::functions(found.iter().map(|f| (&f.name, if f.foreign { None } else { source(py, f) })));
    let targets = found.iter().map(Found::target).collect();
    host.hold(py, found.into_iter().map(|f| (f.key, f.code)));
    targets
}

/// The file and line at which a function written in Python begins.
fn source(py: Python<'_>, found: &Found) -> Option<(String, u32)> {
    let code = found.code.as_ptr();
    // SAFETY: the held code object of a function that is written in Python.
    let (file, line) = unsafe { (frame::code_filename(code), frame::code_first_line(code)) };
    Some((text(py, file)?, u32::try_from(line).ok()?))
}

/// Every code object that a function creates: its own and those among its constants.
pub fn of_function<'py>(py: Python<'py>, function: &Bound<'py, PyAny>) -> Vec<Found> {
    let any = Pattern { module: None, function: None, arity: None };
    let mut search = Search::new(py, &any);
    search.function(function);
    search.renamed();
    search.found
}

impl<'py> Search<'py> {
    fn new(py: Python<'py>, pattern: &'py Pattern) -> Self {
        Search {
            py,
            pattern,
            seen: FxHashSet::default(),
            exports: FxHashMap::default(),
            modules: FxHashMap::default(),
            renamed: Vec::new(),
            found: Vec::new(),
        }
    }

    fn function(&mut self, function: &Bound<'py, PyAny>) {
        let Some((code, globals)) = self.parts(function) else { return };
        // SAFETY: all callers have checked that `function` is a function; `code` is its code.
        let (own, name) = unsafe { (frame::code_qualname(code.as_ptr()), frame::qualname_of(function.as_ptr())) };
        if own != name.as_ptr() && !name.is_null() && text(self.py, own) != text(self.py, name.as_ptr()) {
            return self.renamed.push(function.clone());
        }
        if self.seen.contains(&(code.as_ptr() as usize)) {
            if self.pattern.module.is_some() {
                self.alias(&code, &globals, text(self.py, own));
            }
            return;
        }
        self.code(&code, &globals, None);
    }

    /// Functions whose name differs from that of their code. They come after all others, because their code may be
    /// known by its own name, like that of a decorator's inner function. Then only a pattern with a function name
    /// matches them.
    fn renamed(&mut self) {
        for function in std::mem::take(&mut self.renamed) {
            let Some((code, globals)) = self.parts(&function) else { continue };
            let wraps = function.hasattr("__wrapped__").unwrap_or(false);
            // SAFETY: `function` is a function.
            let name = unsafe { frame::qualname_of(function.as_ptr()) };
            let name = if wraps { None } else { text(self.py, name.as_ptr()) };
            if !self.seen.contains(&(code.as_ptr() as usize)) {
                self.code(&code, &globals, name);
            } else if name.is_some() && self.pattern.function.is_some() {
                self.alias(&code, &globals, name);
            }
        }
    }

    /// The name of a module by its globals.
    fn module(&mut self, globals: &Bound<'_, PyAny>) -> Option<Arc<str>> {
        let known = self.modules.entry(globals.as_ptr() as usize).or_insert_with(|| {
            // SAFETY: these are a function's or a frame's globals.
            let name = unsafe { frame::module_of(globals.as_ptr()) };
            text(self.py, name.as_ptr()).map(Arc::from)
        });
        known.clone()
    }

    /// A function's code and globals. `None` if the collector has cleared the function: on a free-threaded build other threads meet it
    /// before it is gone.
    fn parts(&self, function: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        // SAFETY: all callers have checked that `function` is a function, so these are its live fields.
        unsafe {
            let f = function.as_ptr();
            let code = Bound::from_borrowed_ptr_or_opt(self.py, ffi::PyFunction_GetCode(f))?;
            Some((code, Bound::from_borrowed_ptr_or_opt(self.py, ffi::PyFunction_GetGlobals(f))?))
        }
    }

    /// A code object that was already seen, under another name: one code object can belong to two modules or two
    /// functions.
    fn alias(&mut self, code: &Bound<'_, PyAny>, globals: &Bound<'_, PyAny>, function: Option<String>) {
        let (Some(module), Some(function)) = (self.module(globals), function) else { return };
        let key = code.as_ptr() as usize;
        // SAFETY: `code` is a code object.
        let arity = unsafe { CodeLayout::read(code.as_ptr()).arity() } as u32;
        let name = Mfa { module, function: function.into(), arity };
        if self.pattern.takes(&name) && !self.found.iter().any(|f| f.key == key) {
            let exported = self.exported(globals, &name.function);
            let code = code.clone().unbind();
            self.found.push(Found { key, code, name: Arc::new(name), exported, foreign: false });
        }
    }

    /// A code object under its function's name, and the code objects among its constants.
    fn code(&mut self, code: &Bound<'_, PyAny>, globals: &Bound<'_, PyAny>, name: Option<String>) {
        if !self.seen.insert(code.as_ptr() as usize) {
            return;
        }
        let raw = code.as_ptr();
        let module = self.module(globals).or_else(|| {
            // SAFETY: `raw` is a code object.
            text(self.py, unsafe { frame::code_filename(raw) }).map(Arc::from)
        });
        if let Some(module) = module.filter(|m| self.pattern.takes_module(m)) {
            // SAFETY: `raw` is a code object.
            let (own, arity) = unsafe { (frame::code_qualname(raw), CodeLayout::read(raw).arity() as u32) };
            if let Some(function) = name.or_else(|| text(self.py, own)) {
                let name = Mfa { module, function: function.into(), arity };
                if self.pattern.takes(&name) {
                    let exported = self.exported(globals, &name.function);
                    let (key, code) = (raw as usize, code.clone().unbind());
                    self.found.push(Found { key, code, name: Arc::new(name), exported, foreign: false });
                }
            }
        }
        // SAFETY: `raw` is a code object, which holds its constants.
        let constants = unsafe { Bound::from_borrowed_ptr(self.py, frame::code_constants(raw)) };
        let Ok(constants) = constants.cast_into::<PyTuple>() else { return };
        for constant in constants.iter() {
            // SAFETY: a type check of a live object.
            if unsafe { ffi::PyCode_Check(constant.as_ptr()) } != 0 {
                self.code(&constant, globals, None);
            }
        }
    }

    fn generator(&mut self, generator: &Bound<'_, PyAny>) {
        for (code, frame) in [("gi_code", "gi_frame"), ("cr_code", "cr_frame"), ("ag_code", "ag_frame")] {
            let Ok(code) = generator.getattr(code) else { continue };
            if self.seen.contains(&(code.as_ptr() as usize)) {
                return;
            }
            let Ok(globals) = generator.getattr(frame).and_then(|f| f.getattr("f_globals")) else { return };
            self.code(&code, &globals, None);
            return;
        }
    }

    /// Functions in modules. The collector does not list functions that are frozen.
    fn modules(&mut self) -> PyResult<()> {
        let modules = self.py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.copy()?;
        for module in modules.values() {
            // SAFETY: the type is checked; the module holds its dict.
            let dict = unsafe {
                if ffi::PyModule_Check(module.as_ptr()) == 0 {
                    continue;
                }
                Bound::from_borrowed_ptr(self.py, ffi::PyModule_GetDict(module.as_ptr()))
            };
            if let Ok(dict) = dict.cast_into::<PyDict>() {
                for value in dict.copy()?.values() {
                    self.value(&value, 0);
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, value: &Bound<'py, PyAny>, depth: u8) {
        let o = value.as_ptr();
        // SAFETY: type checks of a live object.
        let (function, class, method) = unsafe {
            let wrapped =
                [&raw mut ffi::PyStaticMethod_Type, &raw mut ffi::PyClassMethod_Type, &raw mut ffi::PyProperty_Type];
            let class = ffi::Py_TYPE(o);
            (ffi::PyFunction_Check(o) != 0, ffi::PyType_Check(o) != 0, wrapped.contains(&class))
        };
        if function {
            self.function(value);
        } else if class && depth < 8 {
            // reads the class's own dict, past any metaclass
            // SAFETY: `o` is a type.
            let dict = unsafe { ffi::PyObject_GenericGetDict(o, std::ptr::null_mut()) };
            if dict.is_null() {
                // SAFETY: the thread is attached.
                unsafe { ffi::PyErr_Clear() };
                if let Ok(items) = value.getattr("__dict__").and_then(|d| calling::method(&d, "values", ())) {
                    if let Ok(items) = items.try_iter() {
                        items.flatten().for_each(|v| self.value(&v, depth + 1));
                    }
                }
            } else {
                // SAFETY: `dict` is a new reference.
                let dict = unsafe { Bound::from_owned_ptr(self.py, dict) };
                if let Ok(dict) = dict.cast_into::<PyDict>() {
                    dict.values().iter().for_each(|v| self.value(&v, depth + 1));
                }
            }
        } else if method {
            for part in ["__func__", "fget", "fset", "fdel"] {
                if let Ok(inner) = value.getattr(part) {
                    // SAFETY: a type check of a live object.
                    if unsafe { ffi::PyFunction_Check(inner.as_ptr()) } != 0 {
                        self.function(&inner);
                    }
                }
            }
        }
    }

    /// Code that only a running frame holds.
    fn frames(&mut self) {
        let (py, seen, mut found) = (self.py, &self.seen, Vec::new());
        stacks::visit(py, |frame| {
            // SAFETY: the frame stands, and it holds its code and its globals.
            let (code, globals) = unsafe { (frame.code(), frame.globals()) };
            if !seen.contains(&(code as usize)) && !code.is_null() && !globals.is_null() {
                // SAFETY: the frame holds both; attached.
                found.push(unsafe { [code, globals].map(|object| Bound::from_borrowed_ptr(py, object)) });
            }
        });
        found.iter().for_each(|[code, globals]| self.code(code, globals, None));
    }

    /// Whether a function is exported: the module's `__all__` has it. Without `__all__`, no part of its qualified name
    /// begins with `_` (dunders are exported).
    fn exported(&mut self, globals: &Bound<'_, PyAny>, function: &str) -> bool {
        let py = self.py;
        let exports = self.exports.entry(globals.as_ptr() as usize).or_insert_with(|| exports_of(py, globals));
        let mut parts = function.split('.');
        match exports {
            Exports::Listed(names) => {
                parts.next().is_some_and(|first| names.contains(first))
                    && parts.all(|p| !p.starts_with('_') && !p.starts_with('<'))
            }
            Exports::ByName => parts.all(|p| {
                let dunder = p.len() > 4 && p.starts_with("__") && p.ends_with("__");
                !p.starts_with('<') && (!p.starts_with('_') || dunder)
            }),
        }
    }
}

fn exports_of(py: Python<'_>, globals: &Bound<'_, PyAny>) -> Exports {
    let Ok(globals) = globals.cast::<PyDict>() else { return Exports::ByName };
    let Ok(Some(all)) = globals.get_item("__all__") else { return Exports::ByName };
    // SAFETY: reads exact lists and tuples only, so no code of the program runs.
    let exact = unsafe { ffi::PyList_CheckExact(all.as_ptr()) != 0 || ffi::PyTuple_CheckExact(all.as_ptr()) != 0 };
    if !exact {
        return Exports::ByName;
    }
    let names = all.try_iter().into_iter().flatten().flatten();
    Exports::Listed(names.filter_map(|n| text(py, n.as_ptr())).collect())
}

/// The text of an exact str.
pub fn text(py: Python<'_>, object: *mut ffi::PyObject) -> Option<String> {
    if object.is_null() {
        return None;
    }
    // SAFETY: the object is alive and is borrowed during the call.
    let object = unsafe { Bound::from_borrowed_ptr(py, object) };
    let text = object.cast::<PyString>().ok()?;
    Some(text.to_string_lossy().into_owned())
}
