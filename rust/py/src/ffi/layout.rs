//! Where the fields of CPython's own structures lie, by version, and the check that they lie there.
//!
//! The offsets are of 64-bit Linux and stable within a minor version by CPython's own rule (debuggers rely on it). [`check`]
//! trusts none of them: from 3.13 on it compares them with the table that the interpreter carries for debuggers, and on every
//! version it makes a calibration run: Python functions with known arguments call a probe, which reads its caller's frame
//! raw and compares. Until that has succeeded [`raw_ok`] is false and nobody may read raw.

use std::ffi::CStr;
#[cfg(Py_3_13)]
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::frame::{self as raw, CodeLayout, Frame};
use super::vectorcall;

/// Whether there is a table for the interpreter that this is built for.
pub const KNOWN: bool = cfg!(all(
    target_arch = "x86_64",
    target_os = "linux",
    Py_3_11,
    not(Py_3_16),
    not(py_sys_config = "Py_TRACE_REFS"),
));

/// Bytes of the head of every object: 16, or 32 on a free-threaded build.
pub const HEAD: usize = size_of::<PyObject>();

/// In `PyThreadState`.
pub mod thread {
    /// The record that points to the current frame (before 3.13).
    #[cfg(not(Py_3_13))]
    pub const CFRAME: usize = 56;
    /// The current frame: in the thread state, before 3.13 in the record at `CFRAME`.
    pub const CURRENT_FRAME: usize = if cfg!(Py_3_13) {
        72
    } else if cfg!(Py_3_12) {
        0
    } else {
        8
    };
    /// The current `contextvars.Context`, or null.
    pub const CONTEXT: usize = if cfg!(Py_3_15) {
        232
    } else if cfg!(Py_3_12) {
        208
    } else {
        224
    };
    /// A u64 that every entering and leaving of a context raises.
    pub const CONTEXT_VERSION: usize = CONTEXT + 8;
    /// The running asyncio task, or null (3.14 on).
    #[cfg(Py_3_14)]
    pub const RUNNING_TASK: usize = if cfg!(Py_3_15) { 1032 } else { 872 };
}

/// In `_PyInterpreterFrame`.
pub mod frame {
    /// The code object.
    pub const CODE: usize = if cfg!(Py_3_12) { 0 } else { 32 };
    /// The function object.
    pub const FUNCTION: usize = if cfg!(Py_3_12) { 16 } else { 0 };
    /// The frame below.
    pub const PREVIOUS: usize = if cfg!(Py_3_12) { 8 } else { 48 };
    /// The globals.
    pub const GLOBALS: usize = if cfg!(Py_3_12) { 24 } else { 8 };
    /// Who owns the frame's memory, an i8.
    pub const OWNER: usize = if cfg!(all(Py_3_14, Py_GIL_DISABLED)) {
        78
    } else if cfg!(Py_3_14) {
        74
    } else if cfg!(Py_3_12) {
        70
    } else {
        69
    };
    /// The first local variable.
    pub const LOCALS: usize = if cfg!(Py_3_14) { 80 } else { 72 };
}

/// In `PyCodeObject`.
pub mod code {
    use super::HEAD;
    /// `co_flags`, an i32.
    pub const FLAGS: usize = HEAD + 32;
    /// `co_argcount`, an i32.
    pub const ARGCOUNT: usize = HEAD + if cfg!(Py_3_12) { 36 } else { 40 };
    /// `co_posonlyargcount`, an i32.
    pub const POSONLYARGCOUNT: usize = ARGCOUNT + 4;
    /// `co_kwonlyargcount`, an i32.
    pub const KWONLYARGCOUNT: usize = ARGCOUNT + 8;
    /// `co_firstlineno`, an i32.
    pub const FIRSTLINENO: usize = ARGCOUNT + 16;
    /// `co_localspluskinds`, a bytes object.
    pub const LOCALSPLUSKINDS: usize = HEAD + 88;
    /// `co_filename`.
    pub const FILENAME: usize = HEAD + 96;
    /// `co_qualname`.
    pub const QUALNAME: usize = HEAD + 112;
}

/// What only a frame evaluation function needs.
#[cfg(not(Py_3_12))]
pub mod eval {
    /// In `_PyInterpreterFrame`: the instruction that ran last.
    pub const LAST_INSTRUCTION: usize = 56;
    /// In `PyCodeObject`: the index of the first instruction of the function's own, an i32.
    pub const FIRST_TRACEABLE: usize = 168;
    /// In `PyCodeObject`: the first instruction.
    pub const INSTRUCTIONS: usize = 184;
    /// From a generator's frame back to the generator's state, an i8.
    pub const STATE_BEFORE_FRAME: usize = 5;
    /// The state of a generator that has yielded.
    pub const SUSPENDED: i8 = -1;
}

/// In `PyFunctionObject`.
pub mod function {
    /// `func_qualname`.
    pub const QUALNAME: usize = super::HEAD + 24;
}

/// From a generator object to the frame in it.
pub const GENERATOR_FRAME: usize = HEAD + if cfg!(Py_3_12) { 56 } else { 64 };
/// From a bytes object to its first byte.
pub const BYTES_DATA: usize = HEAD + 16;
/// From a cell to its contents.
pub const CELL_CONTENTS: usize = HEAD;
/// The owner of a frame that lies in a generator.
pub const OWNER_GENERATOR: i8 = 1;
/// From this owner on a frame is no Python function's.
pub const OWNER_SHIM: i8 = 3;
/// The bits of a frame's word that are an object's address.
pub const OBJECT_MASK: usize = if cfg!(Py_3_14) { !3 } else { !0 };

static RAW: AtomicBool = AtomicBool::new(false);
static DUNDER_NAME: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// Whether raw reads are right on this interpreter: [`check`] has run and found every offset as expected.
#[inline(always)]
pub fn raw_ok() -> bool {
    KNOWN && RAW.load(Ordering::Relaxed)
}

/// The `T` at `offset` from `base`.
///
/// # Safety
/// There is an aligned, initialised `T` there.
#[inline(always)]
pub(super) unsafe fn at<T: Copy>(base: *mut u8, offset: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { base.add(offset).cast::<T>().read() }
}

/// The value of an int of at most one digit (30 bits); `None` for a larger one, and while the offsets aren't checked.
///
/// # Safety
/// `object` is an int.
#[inline]
pub unsafe fn small_int(object: *mut PyObject) -> Option<i64> {
    if !raw_ok() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { digit(object) }
}

#[inline(always)]
unsafe fn digit(object: *mut PyObject) -> Option<i64> {
    // SAFETY: an int (the callers') has a size or tag, and room for one digit at least.
    let (size, digit): (isize, u32) = unsafe { (at(object.cast(), HEAD), at(object.cast(), HEAD + 8)) };
    let sign = if cfg!(Py_3_12) {
        // The tag: the number of digits, three bits lower 1 less the sign (the third is of no meaning here).
        if size as usize >> 3 > 1 {
            return None;
        }
        1 - (size & 3)
    } else {
        // The number of digits, with the sign.
        if !(-1..=1).contains(&size) {
            return None;
        }
        size
    };
    Some(i64::from(digit) * sign as i64)
}

/// Whether a call of `code` makes a generator, coroutine or asynchronous generator.
///
/// # Safety
/// `code` is a code object, and the offsets are checked.
#[inline]
pub unsafe fn makes_generator(code: *mut PyObject) -> bool {
    const GENERATORS: i32 = ffi::CO_GENERATOR | ffi::CO_COROUTINE | ffi::CO_ASYNC_GENERATOR;
    // SAFETY: a plain integer.
    unsafe { at::<i32>(code.cast(), code::FLAGS) & GENERATORS != 0 }
}

/// The interned str `"__name__"`, borrowed; null before [`check`] has run.
#[inline(always)]
pub(super) fn dunder_name() -> *mut PyObject {
    DUNDER_NAME.load(Ordering::Relaxed)
}

/// Verifies the offsets on the running interpreter; afterwards [`raw_ok`] tells the result. To be called once, at import, by
/// a thread that runs Python code. Takes some 100 µs.
///
/// # Errors
/// What differs, in words for the user: the build is for another interpreter, a structure lies elsewhere.
pub fn check(py: Python<'_>) -> Result<(), String> {
    RAW.store(false, Ordering::Relaxed);
    if DUNDER_NAME.load(Ordering::Relaxed).is_null() {
        // SAFETY: makes a str, or null with an exception, which is taken at once.
        let name = unsafe { ffi::PyUnicode_InternFromString(c"__name__".as_ptr()) };
        if name.is_null() {
            return Err(PyErr::fetch(py).to_string());
        }
        DUNDER_NAME.store(name, Ordering::Relaxed);
    }
    if !KNOWN {
        return Err("there is no table of frame offsets for this platform or version of CPython".into());
    }
    let version = py.version_info();
    let built = built_for();
    if (version.major, version.minor) != built {
        return Err(format!(
            "built for CPython {}.{}, runs on {}.{}",
            built.0, built.1, version.major, version.minor
        ));
    }
    #[cfg(Py_3_13)]
    debug_offsets()?;
    ints(py)?;
    contexts(py)?;
    frames(py)?;
    RAW.store(true, Ordering::Release);
    Ok(())
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
    /// Where the table itself has each number: 3.13, 3.14, 3.15.
    const PLACES: [(&str, [usize; 3], usize); 10] = [
        ("free_threaded", [16, 16, 16], cfg!(Py_GIL_DISABLED) as usize),
        ("thread_state.current_frame", [184, 208, 208], thread::CURRENT_FRAME),
        ("interpreter_frame.previous", [232, 256, 320], frame::PREVIOUS),
        ("interpreter_frame.executable", [240, 264, 328], frame::CODE),
        ("interpreter_frame.localsplus", [256, 280, 344], frame::LOCALS),
        ("interpreter_frame.owner", [264, 288, 352], frame::OWNER),
        ("code_object.qualname", [296, 336, 400], code::QUALNAME),
        ("code_object.argcount", [320, 360, 424], code::ARGCOUNT),
        ("code_object.localspluskinds", [336, 376, 440], code::LOCALSPLUSKINDS),
        ("version", [8, 8, 8], 0),
    ];
    extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    const COOKIE: &[u8; 8] = b"xdebugpy";
    // SAFETY: handle 0 is the default search order; the name is a C string.
    let table = unsafe { dlsym(ptr::null_mut(), c"_PyRuntime".as_ptr()) };
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
    // SAFETY: the calls get what they ask for; the two words lie inside the thread state (the smallest is 288 bytes long).
    unsafe {
        let tstate: *mut u8 = ffi::PyThreadState_Get().cast();
        let context = ffi::PyContext_New();
        if context.is_null() {
            return Err(PyErr::fetch(py).to_string());
        }
        let before: u64 = at(tstate, thread::CONTEXT_VERSION);
        let entered = ffi::PyContext_Enter(context);
        let inside: *mut PyObject = at(tstate, thread::CONTEXT);
        let number: u64 = at(tstate, thread::CONTEXT_VERSION);
        let left = if entered == 0 { ffi::PyContext_Exit(context) } else { -1 };
        let after: u64 = at(tstate, thread::CONTEXT_VERSION);
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

/// Reads ints of one digit and of more.
fn ints(py: Python<'_>) -> Result<(), String> {
    const ONE_DIGIT: i64 = (1 << 30) - 1;
    for n in [0, 1, -1, 5, -5, 256, -257, ONE_DIGIT, -ONE_DIGIT, ONE_DIGIT + 1, -ONE_DIGIT - 1, i64::MAX, i64::MIN] {
        let object = n.into_pyobject(py).map_err(|e| e.to_string())?;
        // SAFETY: an int.
        let found = unsafe { digit(object.as_ptr()) };
        if found != (n.abs_diff(0) <= ONE_DIGIT as u64).then_some(n) {
            return Err(format!("the int {n} was read as {found:?}"));
        }
    }
    Ok(())
}

/// The functions whose frames the probe reads. Each passes the probe what it should find: the function, the globals, the
/// arguments in signature order, the caller, and the generator or `None`.
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
    // SAFETY: `probe` keeps to the contract and uses no data.
    let probe = unsafe { vectorcall::callable(py, probe, ptr::null_mut()) }.map_err(say)?;
    globals.set_item("__name__", "inviso.calibration").map_err(say)?;
    globals.set_item("probe", probe).map_err(say)?;
    py.run(PROBED, Some(&globals), None).map_err(say)?;
    let run = globals.get_item("run").map_err(say)?.ok_or("no run")?;
    let done = run.call0().map(drop).map_err(say);
    globals.clear();
    done
}

unsafe extern "C" fn probe(
    _: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    _: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called by the interpreter, so the thread is attached and the arguments stand during the call.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: as above; the functions in `PROBED` pass five arguments.
    let expected: Vec<_> = (0..vectorcall::nargs(nargsf))
        .map(|i| unsafe { Borrowed::from_ptr(py, *args.add(i)) })
        .collect();
    let found = match expected[..] {
        [function, globals, arguments, caller, generator] => arguments
            .cast::<PyTuple>()
            .map_err(|e| e.to_string())
            // SAFETY: the frame that calls us runs; its offsets are what is being tried, each compared before it is followed.
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
/// To be called by C code that the frame of `function` called, on its thread.
unsafe fn compare(
    function: &Bound<'_, PyAny>,
    globals: &Bound<'_, PyAny>,
    arguments: &Bound<'_, PyTuple>,
    caller: &Bound<'_, PyAny>,
    generator: &Bound<'_, PyAny>,
) -> Result<(), String> {
    let same = |what: &str, found: *mut PyObject, expected: &Bound<'_, PyAny>| {
        if found == expected.as_ptr() {
            Ok(())
        } else {
            Err(format!("{what} was not found where it is expected"))
        }
    };
    let say = |e: PyErr| e.to_string();
    // SAFETY: see above. The code object is compared before its layout is read, so `argument` reads true slots.
    unsafe {
        let code = function.getattr("__code__").map_err(say)?;
        let frame = Frame::current(ffi::PyThreadState_Get()).ok_or("there is no current frame")?;
        same("the code", frame.code(), &code)?;
        same("the function", frame.function(), function)?;
        same("the globals", frame.globals(), globals)?;
        let name = raw::module_of(frame.globals());
        same("the module's name", name.as_ptr(), &globals.get_item("__name__").map_err(say)?)?;
        same("the qualified name", raw::qualname_of(function.as_ptr()).as_ptr(), &function.getattr("__qualname__").map_err(say)?)?;
        same("the code's qualified name", raw::code_qualname(code.as_ptr()), &code.getattr("co_qualname").map_err(say)?)?;
        same("the file name", raw::code_filename(code.as_ptr()), &code.getattr("co_filename").map_err(say)?)?;
        let line: i32 = code.getattr("co_firstlineno").and_then(|n| n.extract()).map_err(say)?;
        let layout = CodeLayout::read(code.as_ptr());
        let flags: u32 = code.getattr("co_flags").and_then(|n| n.extract()).map_err(say)?;
        let positional_only: u32 = code.getattr("co_posonlyargcount").and_then(|n| n.extract()).map_err(say)?;
        if (line, flags, positional_only, arguments.len())
            != (raw::code_first_line(code.as_ptr()), layout.flags, layout.positional_only, layout.arity())
        {
            return Err("the code's counts are not where they are expected".into());
        }
        for (s, expected) in arguments.iter().enumerate() {
            let found = frame.argument(&layout, s);
            // Before 3.12 `argument` is for a function's entry; here the cells are made already.
            #[cfg(not(Py_3_12))]
            let found = if ffi::Py_TYPE(found.as_ptr()) == &raw mut ffi::PyCell_Type {
                raw::Held::owned(ffi::PyCell_Get(found.as_ptr()))
            } else {
                found
            };
            same("an argument", found.as_ptr(), &expected)?;
        }
        let owner = frame.generator();
        if !owner.is_null() || !generator.is_none() {
            same("the generator", owner, generator)?;
        }
        // The caller may be a function written between the two (a lambda of its own): look further.
        let wanted = caller.getattr("__code__").map_err(say)?;
        let mut up = frame.caller();
        for _ in 0..2 {
            match up {
                Some(frame) if frame.code() == wanted.as_ptr() => return Ok(()),
                Some(frame) => up = frame.caller(),
                None => break,
            }
        }
        Err("the caller was not found where it is expected".into())
    }
}
