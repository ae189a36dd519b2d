//! The check, at import, that CPython's structures are laid out as [`super::layout`] says.
//!
//! From 3.13 on the offsets are compared with the table that the interpreter carries for debuggers. Every version has a
//! calibration run: Python functions with known arguments call a probe. It reads its caller's frame raw and compares
//! each pointer before it follows it.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::Ordering;

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::layout::{self, at};
use crate::frames::frame::{self as raw, CodeLayout, Frame};
use crate::hooks::vectorcall;

/// Verifies the offsets on the running interpreter; after that [`raw_ok`] returns the result. A thread that runs Python
/// code calls it once, at import. Takes some 100 µs.
///
/// # Errors
/// The difference, in words for the user: the build is for another interpreter, or a structure is laid out differently.
pub fn check(py: Python<'_>) -> Result<(), String> {
    layout::RAW.store(false, Ordering::Relaxed);
    if layout::DUNDER_NAME.load(Ordering::Relaxed).is_null() {
        // SAFETY: makes a str, or null with an exception, which is taken at once.
        let name = unsafe { ffi::PyUnicode_InternFromString(c"__name__".as_ptr()) };
        if name.is_null() {
            return Err(PyErr::fetch(py).to_string());
        }
        layout::DUNDER_NAME.store(name, Ordering::Relaxed);
    }
    if layout::PUBLIC {
        return Ok(());
    }
    if !layout::KNOWN {
        return Err("there is no table of frame offsets for this platform or version of CPython".into());
    }
    let version = py.version_info();
    let built = built_for();
    if (version.major, version.minor) != built {
        return Err(format!("built for CPython {}.{}, runs on {}.{}", built.0, built.1, version.major, version.minor));
    }
    #[cfg(Py_3_13)]
    debug_offsets()?;
    contexts(py)?;
    frames(py)?;
    crate::interpreter::state::find(py);
    layout::RAW.store(true, Ordering::Release);
    Ok(())
}

/// The result of [`check`], which runs now if it has not succeeded before.
///
/// # Errors
/// As [`check`].
pub fn result(py: Python<'_>) -> Result<(), String> {
    if layout::raw_ok() {
        Ok(())
    } else {
        check(py)
    }
}

const fn built_for() -> (u8, u8) {
    let minor = if cfg!(Py_3_15) {
        15
    } else if cfg!(Py_3_14) {
        14
    } else if cfg!(Py_3_13) {
        13
    } else if cfg!(Py_3_12) {
        12
    } else {
        11
    };
    (3, minor)
}

/// Compares with the table at the head of `_PyRuntime`, which CPython keeps for debuggers.
#[cfg(Py_3_13)]
fn debug_offsets() -> Result<(), String> {
    /// The offset of each number in the table itself: 3.13, 3.14, 3.15.
    const PLACES: [(&str, [usize; 3], usize); 11] = [
        ("free_threaded", [16, 16, 16], cfg!(Py_GIL_DISABLED) as usize),
        ("thread_state.current_frame", [184, 208, 208], layout::thread::CURRENT_FRAME),
        ("interpreter_frame.previous", [232, 256, 320], layout::frame::PREVIOUS),
        ("interpreter_frame.executable", [240, 264, 328], layout::frame::CODE),
        ("interpreter_frame.localsplus", [256, 280, 344], layout::frame::LOCALS),
        ("interpreter_frame.owner", [264, 288, 352], layout::frame::OWNER),
        ("code_object.qualname", [296, 336, 400], layout::code::QUALNAME),
        ("code_object.argcount", [320, 360, 424], layout::code::ARGCOUNT),
        ("code_object.localsplusnames", [328, 368, 432], layout::code::LOCALSPLUSNAMES),
        ("code_object.localspluskinds", [336, 376, 440], layout::code::LOCALSPLUSKINDS),
        ("version", [8, 8, 8], 0),
    ];
    const COOKIE: &[u8; 8] = b"xdebugpy";
    // SAFETY: the handle is that of the default search order; the name is a C string.
    let table = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_PyRuntime".as_ptr()) };
    if table.is_null() {
        return Err("the interpreter shows no _PyRuntime symbol".into());
    }
    let table: *mut u8 = table.cast();
    // SAFETY: `_PyRuntime` is some 100 KB long; its first 8 bytes are there on every version.
    if unsafe { at::<[u8; 8]>(table, 0) } != *COOKIE {
        return Err("_PyRuntime does not begin with a table of debug offsets".into());
    }
    let column = (built_for().1 - 13) as usize;
    for (name, places, expected) in PLACES {
        // SAFETY: the table is longer than every place in it, in each of these versions.
        let found: u64 = unsafe { at(table, places[column]) };
        let (found, expected) = match name {
            "version" => (found >> 16, u64::from(built_for().0) << 8 | u64::from(built_for().1)),
            _ => (found, expected as u64),
        };
        if found != expected {
            return Err(format!("debug offsets: {name} is {found}, expected {expected}"));
        }
    }
    Ok(())
}

/// Enters a fresh context and looks for it, and for its number, in the thread state.
fn contexts(py: Python<'_>) -> Result<(), String> {
    // SAFETY: the calls get the arguments that they need; the two words lie inside the thread state (the smallest is
    // 288 bytes long).
    unsafe {
        let tstate: *mut u8 = ffi::PyThreadState_Get().cast();
        let context = ffi::PyContext_New();
        if context.is_null() {
            return Err(PyErr::fetch(py).to_string());
        }
        let before: u64 = at(tstate, layout::thread::CONTEXT_VERSION);
        let entered = ffi::PyContext_Enter(context);
        let inside: *mut PyObject = at(tstate, layout::thread::CONTEXT);
        let number: u64 = at(tstate, layout::thread::CONTEXT_VERSION);
        let left = if entered == 0 { ffi::PyContext_Exit(context) } else { -1 };
        let after: u64 = at(tstate, layout::thread::CONTEXT_VERSION);
        ffi::Py_DECREF(context);
        if entered != 0 || left != 0 {
            return Err(PyErr::fetch(py).to_string());
        }
        if inside != context || number != before.wrapping_add(1) || after != number.wrapping_add(1) {
            return Err("the thread state does not hold its context where it is expected".into());
        }
    }
    Ok(())
}

/// The functions whose frames the probe reads. Each passes the probe the expected values: the function, the globals,
/// the arguments in signature order, the caller, and the generator or `None`.
const PROBED: &CStr = cr#"
def wide(a, b, /, c=3.5, *rest, k, d="d", **more):
    probe(wide, globals(), (a, b, c, rest, k, d, more), wide_caller, None)
    return lambda: (b, k, rest)
def wide_caller():
    list(map(lambda f: wide(1 << 70, "b", *f, k=(), z=0), ((7.5, 8, 9),)))
    wide(None, [], k={})
def steps(box, n):
    probe(steps, globals(), (box, n), steps_caller, box[0])
    yield lambda: n
def steps_caller():
    box = [None]
    box[0] = steps(box, 1 << 80)
    next(box[0])
class K:
    def none(): probe(K.none, globals(), (), run, None)
def run():
    wide_caller(); steps_caller(); K.none()
"#;

/// Runs [`PROBED`] under the probe.
fn frames(py: Python<'_>) -> Result<(), String> {
    let say = |e: PyErr| format!("the calibration run failed: {}", e.value(py));
    let globals = PyDict::new(py);
    // SAFETY: `probe` has the right contract and uses no data.
    let probe = unsafe { vectorcall::callable(py, probe, ptr::null_mut()) }.map_err(say)?;
    globals.set_item("__name__", "inviso.calibration").map_err(say)?;
    globals.set_item("probe", probe).map_err(say)?;
    crate::interpreter::calling::run(py, PROBED, &globals).map_err(say)?;
    let run = globals.get_item("run").map_err(say)?.ok_or("no run")?;
    let done = crate::interpreter::calling::call(&run, ()).map(drop).map_err(say);
    globals.clear();
    done
}

/// Compares its caller's frame with its arguments.
///
/// # Safety
/// Only the interpreter calls it, for the functions of [`PROBED`].
unsafe extern "C" fn probe(
    _: *mut PyObject, args: *const *mut PyObject, nargsf: usize, _: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called by the interpreter, so the thread is attached and the arguments stand during the call.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the interpreter passes the arguments, which stand during the call; the functions in `PROBED` pass five.
    let expected: Vec<_> =
        (0..vectorcall::nargs(nargsf)).map(|i| unsafe { Borrowed::from_ptr(py, *args.add(i)) }).collect();
    let found = match expected[..] {
        [function, globals, arguments, caller, generator] => arguments
            .cast::<PyTuple>()
            .map_err(|e| e.to_string())
            // SAFETY: the calling frame runs; its offsets are on trial, and each pointer is compared before it is
            // followed.
            .and_then(|arguments| unsafe { compare(&function, &globals, &arguments, &caller, &generator) }),
        _ => Err("wrong number of arguments".into()),
    };
    match found {
        Ok(()) => vectorcall::none(),
        Err(what) => {
            pyo3::exceptions::PyRuntimeError::new_err(what).restore(py);
            ptr::null_mut()
        }
    }
}

/// # Safety
/// Called by C code that the frame of `function` called, on its thread.
unsafe fn compare(
    function: &Bound<'_, PyAny>, globals: &Bound<'_, PyAny>, arguments: &Bound<'_, PyTuple>, caller: &Bound<'_, PyAny>,
    generator: &Bound<'_, PyAny>,
) -> Result<(), String> {
    let code = function.getattr("__code__").map_err(say)?;
    // SAFETY: the caller promises that the frame of `function` runs on this thread. The code object is compared before
    // its layout is read.
    unsafe {
        let frame = Frame::current(ffi::PyThreadState_Get()).ok_or("there is no current frame")?;
        same("the code", frame.code(), &code)?;
        same("the function", frame.function(), function)?;
        same("the globals", frame.globals(), globals)?;
        let name = raw::module_of(frame.globals());
        same("the module's name", name.as_ptr(), &globals.get_item("__name__").map_err(say)?)?;
        let name = raw::qualname_of(function.as_ptr());
        same("the qualified name", name.as_ptr(), &function.getattr("__qualname__").map_err(say)?)?;
        let layout = compare_code(&code, arguments.len())?;
        #[cfg(not(Py_3_12))]
        compare_evaluated(frame, &code)?;
        compare_arguments(frame, &layout, arguments)?;
        let owner = frame.generator();
        if !owner.is_null() || !generator.is_none() {
            same("the generator", owner, generator)?;
        }
        compare_caller(frame, caller)
    }
}

fn same(what: &str, found: *mut PyObject, expected: &Bound<'_, PyAny>) -> Result<(), String> {
    if found == expected.as_ptr() {
        Ok(())
    } else {
        Err(format!("{what} was not found where it is expected"))
    }
}

fn say(error: PyErr) -> String {
    error.to_string()
}

/// Compares the fields of a code object with its attributes; returns its layout.
///
/// # Safety
/// `code` is a code object.
unsafe fn compare_code(code: &Bound<'_, PyAny>, arity: usize) -> Result<CodeLayout, String> {
    let attribute = |name: &str| code.getattr(name).map_err(say);
    let number = |name: &str| attribute(name)?.extract::<u32>().map_err(say);
    let object = code.as_ptr();
    // SAFETY: the caller promises a code object, which has all of these fields.
    unsafe {
        same("the code's qualified name", raw::code_qualname(object), &attribute("co_qualname")?)?;
        same("the file name", raw::code_filename(object), &attribute("co_filename")?)?;
        same("the constants", raw::code_constants(object), &attribute("co_consts")?)?;
        let layout = CodeLayout::read(object);
        let expected = (number("co_firstlineno")?, number("co_flags")?, number("co_posonlyargcount")?, arity);
        if (raw::code_first_line(object) as u32, layout.flags, layout.positional_only, layout.arity()) != expected {
            return Err("the code's counts are not where they are expected".into());
        }
        Ok(layout)
    }
}

/// Compares the fields that only a frame evaluation function needs.
///
/// # Safety
/// The frame runs this code on the calling thread.
#[cfg(not(Py_3_12))]
unsafe fn compare_evaluated(frame: Frame, code: &Bound<'_, PyAny>) -> Result<(), String> {
    let table: Vec<u8> = code.getattr("co_exceptiontable").and_then(|t| t.extract()).map_err(say)?;
    // SAFETY: the caller promises that the frame runs this code. The class is compared before the table is read.
    unsafe {
        let same_class =
            ffi::Py_TYPE(at(code.as_ptr().cast(), layout::eval::EXCEPTION_TABLE)) == &raw mut ffi::PyBytes_Type;
        if !same_class || crate::frames::handlers::table(code.as_ptr()) != table {
            return Err("the table of handlers was not found where it is expected".into());
        }
        let object = ffi::PyEval_GetFrame(); // it is made now
        if frame.frame_object() != object.cast() {
            return Err("the frame object was not found where it is expected".into());
        }
    }
    Ok(())
}

/// Compares the arguments of a frame with the expected ones.
///
/// # Safety
/// The frame runs the code of this layout on the calling thread.
unsafe fn compare_arguments(frame: Frame, layout: &CodeLayout, expected: &Bound<'_, PyTuple>) -> Result<(), String> {
    for (s, expected) in expected.iter().enumerate() {
        // SAFETY: the caller promises that the frame runs this code, and there are as many arguments as parameters.
        let found = unsafe { frame.argument(layout, s) };
        // Before 3.12 `argument` is for a function's entry; here the cells are made already.
        // SAFETY: the type is checked before the cell is read.
        #[cfg(not(Py_3_12))]
        let found = unsafe {
            if ffi::Py_TYPE(found.as_ptr()) == &raw mut ffi::PyCell_Type {
                raw::Held::owned(ffi::PyCell_Get(found.as_ptr()))
            } else {
                found
            }
        };
        same("an argument", found.as_ptr(), &expected)?;
    }
    Ok(())
}

/// Looks for the frame of `caller` above this one. The next one may be a function written between the two (a lambda of
/// its own).
///
/// # Safety
/// The frame runs on the calling thread.
unsafe fn compare_caller(frame: Frame, caller: &Bound<'_, PyAny>) -> Result<(), String> {
    let wanted = caller.getattr("__code__").map_err(say)?;
    // SAFETY: the caller promises that the frame runs, so its callers also run.
    let callers = std::iter::successors(unsafe { frame.caller() }, |frame| unsafe { frame.caller() });
    // SAFETY: the callers of a frame that runs also run.
    if callers.take(2).any(|frame| unsafe { frame.code() } == wanted.as_ptr()) {
        return Ok(());
    }
    Err("the caller was not found where it is expected".into())
}
