//! The messages where the standard library passes on a call or an exception: `(module, function, [argument, ...])` and
//! `(type, arguments)`. They are objects that live while the message is being written.

use super::message_view::Message;
use crate::{
    convert::terms,
    state::{origin::Origin, thread::ThreadState},
};
use inviso_core::host::{
    flags::Flags,
    messages::{self, About},
    tracee::Tracee,
};
use inviso_cpython::{
    capture::{self, frame_names},
    frames::{code::CodeLayout, frame::Frame},
    object::held::Held,
    tasks::steps,
};
use inviso_term::{
    etf::{self, Encoder},
    record::numbered::MessageKind,
    term::Term,
};
use pyo3::{ffi, prelude::*, types::*};

/// The running process sends a message, unless making it has failed; returns its number.
///
/// # Safety
/// Callbacks run attached on this thread; the running process has been identified.
pub unsafe fn send(state: &mut ThreadState, to: u64, message: &Held, kind: MessageKind) -> u64 {
    if message.is_null() {
        return 0;
    }
    // SAFETY: held; attached.
    let parcel = unsafe { Message::to(message.as_ptr(), to) }.of_kind(kind);
    messages::on_send(&state.host.node, &mut state.thread, About::Current, true, &parcel)
}

/// The running process receives a message, unless making it has failed.
///
/// # Safety
/// As [`send`].
pub unsafe fn receive(state: &mut ThreadState, origin: impl Into<Origin>, message: &Held) {
    if !message.is_null() {
        // SAFETY: held; the thread is attached.
        let parcel = unsafe { Message::from(message.as_ptr(), origin) };
        messages::on_receive(&state.host.node, &mut state.thread, About::Current, &parcel);
    }
}

/// Whether a session traces what the running process sends, or receives.
#[inline(always)]
pub fn is_asked(state: &mut ThreadState, wanted: Flags) -> bool {
    state.host.node.is_asked(&state.thread, About::Current, wanted)
}

/// Whether a session traces what a process receives.
pub fn is_asked_of(state: &mut ThreadState, tracee: &Tracee) -> bool {
    state.host.node.is_asked(&state.thread, About::Other(tracee), Flags::RECEIVE)
}

/// The two names that `write` writes as atoms.
fn names<'py>(
    py: Python<'py>, write: impl FnOnce(&mut Encoder<'_>) -> Result<(), etf::Full>,
) -> PyResult<[Bound<'py, PyAny>; 2]> {
    let mut bytes = [0; 4096];
    let mut out = Encoder::new(&mut bytes);
    let written = out.tuple(2).and_then(|()| write(&mut out));
    let (mut module, mut function) = (Term::atom("undefined"), Term::atom("undefined"));
    if let (Ok(()), Ok(Term::Tuple(names))) = (written, etf::decode(out.written())) {
        if let Ok([first, second]) = <[Term; 2]>::try_from(names) {
            (module, function) = (first, second);
        }
    }
    let text = |name: &Term| match name {
        Term::Atom(name) => terms::plain_atom(py, name),
        _ => terms::plain_atom(py, "undefined"),
    };
    Ok([text(&module)?, text(&function)?])
}

/// The message of a call that another thread or process shall make.
///
/// Partial functions, `contextvars.Context.run` and the wrappers that [`capture::wrapped`] knows are looked through.
/// The object that a method is bound to is the first argument. Keyword arguments, if there are any, are a dict after
/// the others.
///
/// # Errors
/// No memory.
///
/// # Safety
/// The objects stand; `args` is a tuple, `keywords` a dict or null. The thread is attached and has no exception set.
pub unsafe fn of_call<'py>(
    py: Python<'py>, callable: *mut ffi::PyObject, args: *mut ffi::PyObject, keywords: *mut ffi::PyObject,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the caller promises that the objects stand and the thread is attached without an exception; each type is
    // checked before its own fields are read.
    unsafe {
        let mut callable = Bound::from_borrowed_ptr(py, callable);
        let mut args = Bound::from_borrowed_ptr(py, args).cast_into::<PyTuple>()?;
        let mut all = PyDict::new(py);
        if !keywords.is_null() && ffi::PyDict_Check(keywords) != 0 {
            all.update(Bound::from_borrowed_ptr(py, keywords).cast::<PyDict>()?.as_mapping())?;
        }
        for _ in 0..8 {
            if let Some((inner, first, named)) = partial(&callable) {
                args = first.add(&args)?.cast_into::<PyTuple>()?;
                named.update(all.as_mapping())?;
                (callable, all) = (inner, named);
            } else if runs_in_context(&callable) && !args.is_empty() {
                callable = args.get_item(0)?;
                args = args.get_slice(1, args.len());
            } else if let Some((inner, this)) = capture::wrapped(callable.as_ptr()) {
                if let Some(this) = Bound::from_borrowed_ptr_or_opt(py, this.as_ptr()) {
                    args = PyTuple::new(py, [this])?.add(&args)?.cast_into::<PyTuple>()?;
                }
                callable = Bound::from_borrowed_ptr(py, inner.as_ptr());
            } else {
                break;
            }
        }
        let arguments = args.to_list();
        if !all.is_empty() {
            arguments.append(all)?;
        }
        let [module, function] = names(py, |out| capture::name_of_callable(callable.as_ptr(), out))?;
        Ok((module, function, arguments).into_pyobject(py)?.into_any())
    }
}

/// The name of a callable: `(module, function)`.
///
/// # Errors
/// No memory.
///
/// # Safety
/// The callable stands; the thread is attached and has no exception set.
pub unsafe fn name_of<'py>(py: Python<'py>, callable: *mut ffi::PyObject) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the caller promises that the callable stands and the thread is attached and has no exception set.
    let [module, function] = names(py, |out| unsafe { capture::name_of_callable(callable, out) })?;
    Ok((module, function).into_pyobject(py)?.into_any())
}

/// The function of a partial, and copies of the arguments that it adds.
fn partial<'py>(callable: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyAny>, Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
    // SAFETY: the object is held, the thread attached; the exact type has these fields.
    if !unsafe { capture::is_partial(callable.as_ptr()) } {
        return None;
    }
    let inner = callable.getattr("func").ok()?;
    let args = callable.getattr("args").ok()?.cast_into::<PyTuple>().ok()?;
    let keywords = callable.getattr("keywords").ok()?.cast_into::<PyDict>().ok()?;
    Some((inner, args, keywords.copy().ok()?))
}

/// Whether this is the method `run` of a context.
fn runs_in_context(callable: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the type is checked before its layout is read; a method of a built-in type has a name that lives for
    // ever.
    unsafe {
        if ffi::PyCFunction_CheckExact(callable.as_ptr()) == 0 {
            return false;
        }
        let owner = ffi::PyCFunction_GetSelf(callable.as_ptr());
        let mut name = [0; 256];
        if owner.is_null() || !capture::type_name(ffi::Py_TYPE(owner), &mut name).ends_with("Context") {
            ffi::PyErr_Clear();
            return false;
        }
        let function: *mut ffi::PyCFunctionObject = callable.as_ptr().cast();
        ffi::PyContext_CheckExact(owner) != 0 && std::ffi::CStr::from_ptr((*(*function).m_ml).ml_name) == c"run"
    }
}

/// The call of a coroutine that has not begun; `None` for anything but Python's own coroutines.
///
/// # Errors
/// No memory.
///
/// # Safety
/// The coroutine stands; the thread is attached and has no exception set.
pub unsafe fn of_coroutine<'py>(py: Python<'py>, coroutine: *mut ffi::PyObject) -> PyResult<Option<Bound<'py, PyAny>>> {
    // SAFETY: the caller promises that the coroutine stands and the thread is attached and has no exception set; the
    // type is checked before the frame is read.
    unsafe {
        if !steps::is_coroutine(coroutine) {
            return Ok(None);
        }
        let Some(frame) = Frame::of_generator(coroutine) else { return Ok(None) };
        let arguments = PyList::empty(py);
        let layout = CodeLayout::read(frame.code());
        for n in 0..layout.arity() {
            let value = frame.argument(&layout, n);
            match Bound::from_borrowed_ptr_or_opt(py, value.as_ptr()) {
                Some(value) => arguments.append(value)?,
                None => arguments.append(py.None())?,
            }
        }
        let [module, function] = names(py, |out| frame_names::write_module_and_function(frame, out))?;
        Ok(Some((module, function, arguments).into_pyobject(py)?.into_any()))
    }
}

/// The message of an exception: the name of its type, and its arguments. Any other object is its own message.
///
/// # Errors
/// No memory.
///
/// # Safety
/// The object stands; the thread is attached and has no exception set.
pub unsafe fn of_exception<'py>(py: Python<'py>, error: *mut ffi::PyObject) -> PyResult<Bound<'py, PyAny>> {
    let mut buffer = [0; 256];
    // SAFETY: the types are checked before their own fields are read.
    unsafe {
        if ffi::PyExceptionClass_Check(error) != 0 {
            let name = terms::plain_atom(py, capture::type_name(error.cast(), &mut buffer))?;
            return Ok((name, PyTuple::empty(py)).into_pyobject(py)?.into_any());
        }
        if ffi::PyExceptionInstance_Check(error) == 0 {
            return Ok(Bound::from_borrowed_ptr(py, error));
        }
        let name = terms::plain_atom(py, capture::type_name(ffi::Py_TYPE(error), &mut buffer))?;
        let args: Held = capture::exception_arguments(error);
        let args = Bound::from_borrowed_ptr_or_opt(py, args.as_ptr()).unwrap_or_else(|| PyTuple::empty(py).into_any());
        Ok((name, args).into_pyobject(py)?.into_any())
    }
}

/// The first bytes of data that a program has passed: `length` of them, or all. The result is the object itself if
/// reading it could run the program's code.
///
/// # Safety
/// The object stands; the thread is attached and takes no events meanwhile.
pub unsafe fn bytes_of<'py>(py: Python<'py>, object: *mut ffi::PyObject, length: Option<usize>) -> Bound<'py, PyAny> {
    // SAFETY: the caller promises that the object stands and no event is taken. C code alone takes and releases a
    // buffer of these two types.
    unsafe {
        let whole = Bound::from_borrowed_ptr(py, object);
        let all =
            length.is_none_or(|length| ffi::PyBytes_Check(object) != 0 && length >= ffi::Py_SIZE(object) as usize);
        if ffi::PyBytes_CheckExact(object) != 0 && all {
            return whole;
        }
        let viewed = ffi::PyByteArray_CheckExact(object) != 0
            || ffi::PyMemoryView_Check(object) != 0
            || ffi::PyBytes_CheckExact(object) != 0;
        let mut view = std::mem::zeroed::<ffi::Py_buffer>();
        if !viewed || ffi::PyObject_GetBuffer(object, &raw mut view, ffi::PyBUF_SIMPLE) != 0 {
            ffi::PyErr_Clear();
            return whole;
        }
        let taken = (view.len as usize).min(length.unwrap_or(usize::MAX));
        let bytes = ffi::PyBytes_FromStringAndSize(view.buf.cast(), taken as ffi::Py_ssize_t);
        ffi::PyBuffer_Release(&raw mut view);
        Bound::from_owned_ptr_or_opt(py, bytes).unwrap_or(whole)
    }
}
