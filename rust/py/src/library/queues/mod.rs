//! `queue.Queue` and `asyncio.Queue`, and their kinds: a put is a message to the queue, a get takes one.
//!
//! What is watched are `_put` and `_get`, which each kind has of its own: they run while nobody else can touch the queue, so that
//! what is told is in the order of the queue. A class of the program's own that has others is found when it is first used; its
//! `_put` is told of when it is done, for it may raise.

pub mod simple_queue;

use crate::{
    host::{
        instruments::{monitored, Instrument},
        Host,
    },
    instrument::{
        lengths,
        modules::{self, Module},
        originals,
        parcels::{self, quietly},
        passing,
        senders::{self, Put},
        tokens,
        watch::{self, Ended, Handler},
    },
    thread::here::Here,
};
use inviso_core::{flags::Flags, monitor::Event};
use inviso_cpython::{
    capture::{self, Raised},
    frames::frame::{code_qualname, CodeLayout, Frame},
    interpreter::calling,
    object::interned::Interned,
};
use pyo3::{ffi, prelude::*, types::*};
use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};

/// Whether a class that derives from the standard library's has been met with methods of its own.
static DERIVED: AtomicBool = AtomicBool::new(false);

/// Both kinds of queues.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages() || wants.tokens || wants.watches(Event::LongMessageQueue),
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        watch::remove(py, host, &[&PUT, &GET, &GET_LAST, &OWN_PUT, &OWN_GET, &WAIT, &NEW])?;
        modules::leave(py, host, &MODULES)
    },
    |_| modules::forget(&MODULES),
);

/// `_put`.
pub static PUT: Handler = Handler { begin: Some(on_put), ..Handler::NONE };

/// `_get`.
pub static GET: Handler = Handler { end: Some(on_get), ..Handler::NONE };

/// `_get` of a queue whose newest item comes first.
pub static GET_LAST: Handler = Handler { end: Some(on_get_last), ..Handler::NONE };

/// `_put` of a class of the program's own.
pub static OWN_PUT: Handler = Handler { begin: Some(on_own_put), end: Some(on_own_put_done), ..Handler::NONE };

/// `_get` of a class of the program's own.
pub static OWN_GET: Handler = Handler { end: Some(on_own_get), ..Handler::NONE };

/// `queue.Queue.get`, `asyncio.Queue.get_nowait`, `asyncio.wait_for` and `asyncio.timeout`, which raise where nothing has come in time.
pub static WAIT: Handler = Handler { end: Some(on_nothing), raises_only: true, ..Handler::NONE };

/// `__init__`: a class of queues is used.
pub static NEW: Handler = Handler { begin: Some(on_new), ..Handler::NONE };

/// Where they are defined, and who in the standard library uses them.
pub static MODULES: [Module; 5] = [
    Module::new("queue", |py, host, module| adopt(py, host, module, "get", 0)),
    Module::new("asyncio.queues", |py, host, module| adopt(py, host, module, "get_nowait", 1)),
    Module::new("concurrent.futures.process", |_, _, module| keep_names(module, &PROCESSES)),
    Module::new("asyncio.tasks", |py, host, module| {
        keep_names(module, &TASKS)?;
        watch::add(py, host, &WAIT, &originals::codes(module, &["wait_for"])?)
    }),
    Module::new("asyncio.timeouts", |py, host, module| {
        watch::add(py, host, &WAIT, &originals::codes(module, &["Timeout.__aexit__"])?)
    }),
];

/// The names of these modules, by which their functions' frames are known.
static QUEUES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// The code of `asyncio.Queue.get`.
static AWAITED: AtomicUsize = AtomicUsize::new(0);
/// The code of their `Queue.shutdown`, from Python 3.13 on.
static SHUTDOWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static PROCESSES: AtomicUsize = AtomicUsize::new(0);
static TASKS: AtomicUsize = AtomicUsize::new(0);

fn adopt(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>, wait: &str, which: usize) -> PyResult<()> {
    keep_names(module, &QUEUES[which])?;
    let class = module.getattr("Queue")?;
    // noted, where they are wrapped: the library calls them, too
    originals::codes(&class, &["put", "put_nowait", "get", "get_nowait"])?;
    if let (1, Ok(get)) = (which, originals::code(&class, "get")) {
        modules::keep(&AWAITED, get);
    }
    if let Ok(shutdown) = originals::code(&class, "shutdown") {
        modules::keep(&SHUTDOWN[which], shutdown);
    }
    watch::add(py, host, &WAIT, &originals::codes(&class, &[wait])?)?;
    watch::add(py, host, &NEW, &originals::codes(&class, &["__init__"])?)?;
    learn_all(py, host, &class)
}

/// Keeps the names of a module for ever, so that nothing else gets their address.
fn keep_names(module: &Bound<'_, PyAny>, names: &AtomicUsize) -> PyResult<()> {
    let dict = module.getattr("__dict__")?;
    if names.load(Ordering::Relaxed) != dict.as_ptr() as usize {
        names.store(dict.into_ptr() as usize, Ordering::Release);
    }
    Ok(())
}

/// A class of queues and those that derive from it.
fn learn_all(py: Python<'_>, host: &Host, class: &Bound<'_, PyAny>) -> PyResult<()> {
    learn(py, host, class.as_ptr().cast())?;
    // a method of `type`: what the class itself may call so is not asked
    let derived = py.get_type::<PyType>().getattr("__subclasses__")?.call1((class,))?;
    for class in derived.cast_into::<PyList>()?.iter() {
        learn_all(py, host, &class)?;
    }
    Ok(())
}

/// The methods of a class of queues, its own or not.
fn learn(py: Python<'_>, host: &Host, class: *mut ffi::PyTypeObject) -> PyResult<()> {
    let own = !is_of_library(class);
    let get = if is_lifo(class) { &GET_LAST } else { &GET };
    for (name, handler, own_handler) in [(&NAME_OF_PUT, &PUT, &OWN_PUT), (&NAME_OF_GET, get, &OWN_GET)] {
        let Some((of, method)) = definition(py, class, name) else { continue };
        if own && is_of_library(of) || !own && is_known(&method, handler) {
            continue;
        }
        // SAFETY: the class stands; attached.
        let of = unsafe { Bound::from_borrowed_ptr(py, of.cast::<ffi::PyObject>()) };
        let original = if own { None } else { originals::function(&of, name.text())?.filter(is_librarys) };
        let method = original.as_ref().unwrap_or(&method);
        // SAFETY: the type is checked.
        let code = unsafe {
            if ffi::PyFunction_Check(method.as_ptr()) == 0 {
                continue;
            }
            Bound::from_borrowed_ptr(py, ffi::PyFunction_GetCode(method.as_ptr()))
        };
        let watched = |by| watch::find(code.as_ptr()).is_some_and(|watched| watched.has(by));
        if original.is_some() {
            watch::add(py, host, handler, &[code])?;
        } else if ![&PUT, &GET, &GET_LAST, own_handler].into_iter().any(watched) {
            DERIVED.store(true, Ordering::Release);
            watch::add(py, host, own_handler, &[code])?;
        }
    }
    Ok(())
}

static NAME_OF_PUT: Interned = Interned::new(c"_put");
static NAME_OF_GET: Interned = Interned::new(c"_get");

/// The class that defines a method that instances of `class` have, and the method as it stands there.
fn definition<'py>(
    py: Python<'py>, class: *mut ffi::PyTypeObject, name: &Interned,
) -> Option<(*mut ffi::PyTypeObject, Bound<'py, PyAny>)> {
    let mut found = None;
    // SAFETY: the class stands; attached.
    unsafe {
        capture::each_definition(class, name.get(), |class, method| {
            found = Some((class, Bound::from_borrowed_ptr(py, method)));
            true
        });
    }
    found
}

/// Whether a method is one of the library's that is looked at already.
fn is_known(method: &Bound<'_, PyAny>, handler: &'static Handler) -> bool {
    // SAFETY: the type is checked; its code stands with it.
    unsafe {
        ffi::PyFunction_Check(method.as_ptr()) != 0
            && watch::find(ffi::PyFunction_GetCode(method.as_ptr())).is_some_and(|by| by.has(handler))
    }
}

/// Whether a function is one of the library's, and not another that the program has put in its place.
fn is_librarys(function: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a function (of [`originals::function`]).
    defines(unsafe { ffi::PyFunction_GetGlobals(function.as_ptr()) })
}

/// Whether the library's queues are defined in the module of these names.
fn defines(globals: *mut ffi::PyObject) -> bool {
    QUEUES.iter().any(|module| module.load(Ordering::Relaxed) == globals as usize)
}

/// Whether a class is one of the standard library's whose newest item comes first, or derives from one.
pub fn is_lifo(class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: the order of a ready type is a tuple of types, which stand.
    unsafe {
        let order = (*class).tp_mro;
        let mut buffer = [0; 256];
        !order.is_null()
            && (0..ffi::PyTuple_GET_SIZE(order)).any(|n| {
                let name = capture::type_name(ffi::PyTuple_GET_ITEM(order, n).cast(), &mut buffer);
                matches!(name, "queue.LifoQueue" | "asyncio.queues.LifoQueue")
            })
    }
}

/// Whether a class is one of the standard library's own. Those that were asked about first are known again by their address.
pub fn is_of_library(class: *mut ffi::PyTypeObject) -> bool {
    static KNOWN: [AtomicPtr<ffi::PyTypeObject>; 8] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 8];
    if KNOWN.iter().any(|known| known.load(Ordering::Acquire) == class) {
        return true;
    }
    let mut buffer = [0; 256];
    // SAFETY: the class stands; attached. One that is kept is held for ever, so that nothing else has its address.
    unsafe {
        let name = capture::type_name(class, &mut buffer);
        let is = name.starts_with("queue.") || name.starts_with("asyncio.queues.");
        let (none, seen) = (std::ptr::null_mut(), (Ordering::AcqRel, Ordering::Relaxed));
        if is && KNOWN.iter().any(|known| known.compare_exchange(none, class, seen.0, seen.1).is_ok()) {
            ffi::Py_INCREF(class.cast());
        }
        is
    }
}

/// The queue of a method's frame.
fn queue_of(frame: Frame) -> *mut ffi::PyObject {
    // SAFETY: an event's frame, which has its first argument.
    unsafe { frame.argument(&CodeLayout::read(frame.code()), 0).as_ptr() }
}

/// Who called the method of a queue whose event's frame this is.
#[inline(always)]
fn caller(frame: Frame) -> Option<Frame> {
    // SAFETY: an event's frame runs; callbacks are attached.
    unsafe { passing::caller(frame) }
}

/// Whether a method was called by that of a class that derives from its own: then that one has told, or will.
#[inline(always)]
fn is_super(method: Frame, queue: *mut ffi::PyObject) -> bool {
    DERIVED.load(Ordering::Relaxed) && is_called_by_own(method, queue)
}

/// Functions between a method of the library's and one of the program's own that has called it, at most: a decorator's lie there.
const BETWEEN: usize = 8;

#[cold]
#[inline(never)]
fn is_called_by_own(method: Frame, queue: *mut ffi::PyObject) -> bool {
    let mut next = caller(method);
    for _ in 0..BETWEEN {
        let Some(frame) = next else { return false };
        // SAFETY: whoever called a frame that runs runs, too; attached.
        unsafe {
            if defines(frame.globals()) {
                return false;
            }
            if let Some(watched) = watch::find(frame.code()) {
                let put = watched.has(&OWN_PUT) && own_queue(frame, &NAME_OF_PUT) == queue && !frame.given(1).is_null();
                if put || watched.has(&OWN_GET) && own_queue(frame, &NAME_OF_GET) == queue {
                    return true;
                }
            }
            next = frame.caller();
        }
    }
    false
}

/// The queue whose method of this name runs in a frame; null if another function does: code may be that of many functions.
fn own_queue(frame: Frame, name: &Interned) -> *mut ffi::PyObject {
    // SAFETY: an event's frame or one that runs; its arguments stand. Attached.
    unsafe {
        let (queue, function) = (frame.given(0).as_ptr(), frame.function());
        let is = !queue.is_null()
            && capture::each_definition(ffi::Py_TYPE(queue), name.get(), |_, method| method == function)
            && !originals::is_around(function);
        if is {
            queue
        } else {
            std::ptr::null_mut()
        }
    }
}

/// Whether what a method of a queue does is told of: it matters to somebody, and the program has called it. The running process
/// is known afterwards.
#[inline(always)]
fn is_told(here: &mut Here, method: Frame, queue: *mut ffi::PyObject, flag: Flags) -> bool {
    // SAFETY: callbacks run attached; the queue stands while a method of it runs.
    let wanted = unsafe {
        here.running.identify(here.host, &mut here.thread);
        parcels::is_asked(here, flag) || monitored(Event::LongMessageQueue) || senders::matter(here, queue)
    };
    wanted && !is_inner(method)
}

/// Whether another part of the standard library uses the queue, seen from who called one of the queue's methods: what passes is
/// part of a larger message.
#[inline(always)]
fn is_inner(method: Frame) -> bool {
    let is = |globals: usize, module: &AtomicUsize| globals == module.load(Ordering::Relaxed);
    // SAFETY: the event's frame; whoever called a frame that runs runs, too.
    unsafe {
        let mut frame = caller(method);
        while let Some(here) = frame {
            let globals = here.globals() as usize;
            if is(globals, &TASKS) {
                return capture::text_is(code_qualname(here.code()), is_as_completed);
            }
            if !is(globals, &QUEUES[0]) && !is(globals, &QUEUES[1]) {
                return is(globals, &PROCESSES);
            }
            frame = originals::caller(here);
        }
        false
    }
}

/// The first frame from this one on that is not of these modules, which uses the queue.
///
/// # Safety
/// The frame runs; attached.
pub unsafe fn user(mut frame: Option<Frame>) -> Option<Frame> {
    // SAFETY: the caller's promise.
    unsafe {
        while let Some(here) = frame.filter(|frame| defines(frame.globals())) {
            frame = here.caller();
        }
    }
    frame
}

fn is_as_completed(function: &str) -> bool {
    function.starts_with("as_completed.") || function.starts_with("_AsCompletedIterator.")
}

/// An item is put into a queue by the running process, which is known; it stands, as the queue does, and callbacks run attached.
#[inline(always)]
fn put(here: &mut Here, queue: *mut ffi::PyObject, item: *mut ffi::PyObject) {
    // SAFETY: the callers'.
    unsafe {
        let number = passing::queue(here, queue);
        let sent = passing::sent_by_current(here, number, item);
        senders::put(here, queue, item, sent, Some(lengths::length));
        lengths::of_queue(here, queue, number, 1, lengths::length);
    }
}

/// The same behind it: the item is in the queue.
fn put_already(here: &mut Here, queue: *mut ffi::PyObject, item: *mut ffi::PyObject) {
    /// How many there were before.
    ///
    /// # Safety
    /// As [`lengths::length`].
    unsafe fn before(queue: *mut ffi::PyObject) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe { lengths::length(queue) }.map(|length| length.saturating_sub(1))
    }
    // SAFETY: as in `put`.
    unsafe {
        let number = passing::queue(here, queue);
        let sent = passing::sent_by_current(here, number, item);
        senders::put(here, queue, item, sent, Some(before));
        lengths::of_queue(here, queue, number, 0, lengths::size);
    }
}

/// Whether who called a method of a queue shuts it down at once: what it takes out is thrown away, and what that carries.
#[inline(always)]
fn shuts_down(method: Frame) -> bool {
    let known = |code: usize| SHUTDOWN.iter().any(|shutdown| shutdown.load(Ordering::Relaxed) == code);
    // SAFETY: the caller's frame runs.
    caller(method).is_some_and(|caller| known(unsafe { caller.code() } as usize))
}

/// An item is taken out of a queue, by the method whose frame this is; as above.
#[inline(always)]
fn take(here: &mut Here, method: Frame, queue: *mut ffi::PyObject, item: *mut ffi::PyObject, last: bool) {
    // SAFETY: the callers'.
    unsafe {
        let number = passing::queue(here, queue);
        let put = senders::take(here, queue, item, last);
        if !shuts_down(method) {
            passing::received_by_current(here, Put::origin(put.as_ref()), item);
            tokens::taken_from_queue(here, queue, put, item);
        }
        lengths::of_queue(here, queue, number, 0, lengths::size);
    }
}

fn on_put(here: &mut Here, method: Frame) {
    // SAFETY: the arguments of the standard library's methods, which stand as long as the event's frame; none is a cell.
    let (queue, item) = unsafe { (method.local(0), method.local(1)) };
    if !is_super(method, queue) && is_told(here, method, queue, Flags::SEND) {
        put(here, queue, item);
    }
}

fn on_get(here: &mut Here, frame: Frame, how: Ended) {
    get(here, frame, how, false);
}

fn on_get_last(here: &mut Here, frame: Frame, how: Ended) {
    get(here, frame, how, true);
}

#[inline(always)]
fn get(here: &mut Here, method: Frame, how: Ended, last: bool) {
    let Ended::Returned(item) = how else { return };
    // SAFETY: as above; no method binds its first argument anew.
    let queue = unsafe { method.local(0) };
    if !is_super(method, queue) && is_told(here, method, queue, Flags::RECEIVE) {
        take(here, method, queue, item, last);
    }
}

thread_local! {
    /// Calls of `_put` of the program's own classes that are told of: the method may bind its arguments anew.
    static PUTTING: RefCell<Vec<Putting>> = const { RefCell::new(Vec::new()) };
}

/// A call of a `_put`.
struct Putting {
    /// Its frame, and the function that runs there.
    frame: usize,
    function: usize,
    queue: Py<PyAny>,
    item: Py<PyAny>,
}

fn on_own_put(here: &mut Here, frame: Frame) {
    // SAFETY: an event's frame; attached.
    let item = unsafe { frame.given(1) };
    let queue = own_queue(frame, &NAME_OF_PUT);
    if queue.is_null() || item.is_null() || is_super(frame, queue) || !is_told(here, frame, queue, Flags::SEND) {
        return;
    }
    // SAFETY: the event's frame; its arguments stand as long as it begins.
    let [queue, item] = quietly(here, |py, _| unsafe {
        [queue, item.as_ptr()].map(|object| Bound::from_borrowed_ptr(py, object).unbind())
    });
    // SAFETY: as above.
    let function = unsafe { frame.function() } as usize;
    let putting = Putting { frame: frame.address(), function, queue, item };
    // one whose end was not seen may have left its own
    let left = PUTTING.with_borrow_mut(|all| {
        let left = all.iter().position(|known| known.frame == putting.frame).map(|at| all.swap_remove(at));
        all.push(putting);
        left
    });
    quietly(here, |_, _| drop(left));
}

/// It has put it, unless it raises: then nothing was sent.
fn on_own_put_done(here: &mut Here, frame: Frame, how: Ended) {
    // SAFETY: the event's frame.
    let (frame, function) = (frame.address(), unsafe { frame.function() } as usize);
    let putting = PUTTING.with_borrow_mut(|all| {
        let at = all.iter().rposition(|known| known.frame == frame && known.function == function)?;
        Some(all.swap_remove(at))
    });
    let Some(putting) = putting else { return };
    if matches!(how, Ended::Returned(_)) {
        // SAFETY: callbacks run attached.
        unsafe { here.running.identify(here.host, &mut here.thread) };
        put_already(here, putting.queue.as_ptr(), putting.item.as_ptr());
    }
    quietly(here, |_, _| drop(putting));
}

fn on_own_get(here: &mut Here, frame: Frame, how: Ended) {
    let (queue, Ended::Returned(item)) = (own_queue(frame, &NAME_OF_GET), how) else { return };
    if !queue.is_null() && !is_super(frame, queue) && is_told(here, frame, queue, Flags::RECEIVE) {
        // SAFETY: the queue stands while its method runs.
        let last = is_lifo(unsafe { ffi::Py_TYPE(queue) });
        take(here, frame, queue, item, last);
    }
}

fn on_nothing(here: &mut Here, frame: Frame, how: Ended) {
    let Some(error) = how.error() else { return };
    // SAFETY: callbacks run attached; the exception is held by who raises it.
    let in_vain = unsafe {
        if error.is_a(ffi::PyExc_TimeoutError) {
            here.running.identify(here.host, &mut here.thread);
            parcels::is_asked(here, Flags::RECEIVE) && quietly(here, |py, _| ends_a_get(py, error.object()))
        } else {
            is_empty(error) && is_told(here, frame, queue_of(frame), Flags::RECEIVE)
        }
    };
    if in_vain {
        passing::timed_out(here);
    }
}

/// Whether a call makes this TimeoutError itself, of a cancellation that has ended an `asyncio.Queue.get`: there that was raised.
///
/// # Safety
/// It stands; attached, with no exception set.
unsafe fn ends_a_get(py: Python<'_>, error: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller's promise; the type is looked at, and C code of the interpreter's answers.
    unsafe {
        if ffi::PyExceptionInstance_Check(error) == 0 {
            return false;
        }
        // before 3.12 it gets its own where it is caught; what comes out of `Timeout.__aexit__` leaves `wait_for` only later
        let passes = traceback(py, error).is_some_and(|own| !own.getattr("tb_next").is_ok_and(|next| next.is_none()));
        let cause = Bound::from_owned_ptr_or_opt(py, ffi::PyException_GetCause(error)).filter(|_| !passes);
        let cancelled = cause.and_then(|cause| traceback(py, cause.as_ptr()));
        let code = cancelled.and_then(|cancelled| innermost(cancelled).ok());
        code.is_some_and(|code| code.as_ptr() as usize == AWAITED.load(Ordering::Relaxed))
    }
}

/// # Safety
/// An exception that stands; attached.
unsafe fn traceback(py: Python<'_>, error: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the caller's promise.
    unsafe { Bound::from_owned_ptr_or_opt(py, ffi::PyException_GetTraceback(error)) }
}

/// The code in which the exception of a traceback was raised.
fn innermost(traceback: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let mut at = traceback;
    loop {
        let next = at.getattr("tb_next")?;
        if next.is_none() {
            return at.getattr("tb_frame")?.getattr("f_code");
        }
        at = next;
    }
}

/// Whether an exception says that nothing was there.
fn is_empty(error: Raised) -> bool {
    let mut buffer = [0; 256];
    // SAFETY: the exception is held by who raises it; attached.
    let name = unsafe { error.type_name(&mut buffer) };
    matches!(name, "_queue.Empty" | "queue.Empty" | "asyncio.queues.QueueEmpty")
}

/// A queue is made: if its class has methods of its own, they are watched from now on.
fn on_new(here: &mut Here, frame: Frame) {
    calling::attached(|py| {
        let queue = queue_of(frame);
        if !queue.is_null() {
            // SAFETY: the argument stands while the frame runs.
            let class = unsafe { ffi::Py_TYPE(queue) };
            if let Err(error) = learn(py, here.host, class) {
                error.write_unraisable(py, None);
            }
        }
    });
}
