//! A message that is sent or has arrived, as the core sees it, and the functions by which instruments emit its events.

use super::queue_classes;
use crate::{
    control::originals,
    convert::{
        terms,
        view::{Kept, PyView},
    },
    state::{
        host::Host,
        object_cache::CachedObject,
        objects::Arguments,
        origin::{Origin, Sender},
        thread::ThreadState,
    },
    thread::{backtrace, late},
};
use inviso_core::host::{
    matching::Subject,
    messages::{self, About, MessageSource},
    session::{Capture, Session},
    thread::Thread,
    tracee::{Kind, Tracee},
};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, module_of, Frame},
    interpreter::{calling, tls, Uncollected},
    object::held::Held,
};
use inviso_term::{
    etf::{Encoder, Full},
    record::numbered::MessageKind,
    term::Term,
};
use pyo3::{ffi::PyObject, prelude::*};
use std::cell::OnceCell;

/// A message on its way, borrowed from the function that passes it on.
pub struct Message<'a> {
    message: *mut PyObject,
    way: Route<'a>,
    kept: Kept,
    /// The objects that match specs see besides the message, made at the first look.
    made: OnceCell<Box<MessageParts>>,
}

/// The receiver; or the node and the sender.
type MessageParts = [Option<Py<PyAny>>; 2];

enum Route<'a> {
    /// To a process, queue or port; with the number that was reserved for it, or 0.
    Out(u64, u64, MessageKind),
    /// To the holder of a name, by which the sender called it.
    Named(&'a Bound<'a, PyAny>),
    /// From a sender.
    In(Origin),
}

impl<'a> Message<'a> {
    /// A message that is sent to a process, queue or port.
    ///
    /// # Safety
    /// `message` stands as long as the result, and the calling thread is attached all that time.
    pub unsafe fn to(message: *mut PyObject, to: u64) -> Message<'static> {
        Message { message, way: Route::Out(to, 0, MessageKind::Item), kept: Kept::default(), made: OnceCell::new() }
    }

    /// The same message as a call, a result or an exception.
    pub fn of_kind(mut self, kind: MessageKind) -> Self {
        if let Route::Out(_, _, own) = &mut self.way {
            *own = kind;
        }
        self
    }

    /// The same message with a number that was reserved for it.
    pub fn numbered(mut self, number: u64) -> Self {
        if let Route::Out(_, own, _) = &mut self.way {
            *own = number;
        }
        self
    }

    /// A message that is sent to the holder of `name`, a str or a pair of them.
    pub fn to_name(message: &'a Bound<'a, PyAny>, name: &'a Bound<'a, PyAny>) -> Message<'a> {
        Message { message: message.as_ptr(), way: Route::Named(name), kept: Kept::default(), made: OnceCell::new() }
    }

    /// A message that has arrived.
    ///
    /// # Safety
    /// As [`Message::to`].
    pub unsafe fn from(message: *mut PyObject, origin: impl Into<Origin>) -> Message<'static> {
        Message { message, way: Route::In(origin.into()), kept: Kept::default(), made: OnceCell::new() }
    }

    /// One of the objects besides the message.
    fn made(&self, n: usize) -> Option<PyView<'_>> {
        let made = self.made.get_or_init(|| {
            // these allocations don't count as the program's, and none of its code may run here: the core is looking
            let allocated = tls::bytes();
            let made = calling::attached(|py| {
                // SAFETY: the thread is attached until the end of this closure.
                let _uncollected = unsafe { Uncollected::new() };
                [0, 1].map(|n| self.make(py, n).ok())
            });
            tls::set_bytes(allocated);
            Box::new(made)
        });
        let object = made.get(n)?.as_ref()?;
        // SAFETY: `made` keeps it as long as this; the constructors' callers promise to be attached.
        unsafe { PyView::new(Held::borrowed(object.as_ptr()), &self.kept) }
    }

    fn make(&self, py: Python<'_>, n: usize) -> PyResult<Py<PyAny>> {
        let atom = |text: &str| terms::plain_atom(py, text).map(Bound::unbind);
        let identity = |id: u64| terms::plain_identity(py, id);
        match (&self.way, n) {
            (Route::Named(name), _) => match name.extract::<String>() {
                Ok(name) => atom(&name),
                Err(_) => Ok((*name).clone().unbind()),
            },
            (Route::Out(id, ..), _) => identity(*id),
            (Route::In(origin), 0) => match origin.sender {
                Sender::Clock => atom("clock_service"),
                Sender::System => atom("system"),
                Sender::Nobody => Ok(py.None()),
                Sender::Process(_) | Sender::Unknown => atom(&inviso_port::node::name()),
            },
            (Route::In(Origin { sender: Sender::Process(id), .. }), _) => identity(*id),
            (Route::In(_), _) => Ok(py.None()),
        }
    }
}

impl Subject for Message<'_> {
    type View<'v>
        = PyView<'v>
    where
        Self: 'v;

    fn count(&self) -> usize {
        match self.way {
            Route::Out(..) | Route::Named(_) => 2,
            Route::In(_) => 3,
        }
    }

    fn argument(&self, n: usize) -> Option<PyView<'_>> {
        if n + 1 == self.count() {
            // SAFETY: the constructors' callers promise that the message stands and the thread is attached.
            return unsafe { PyView::new(Held::borrowed(self.message), &self.kept) };
        }
        self.made(n)
    }

    fn write(&self, view: PyView<'_>, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full> {
        // SAFETY: the viewed object stands; the thread is attached.
        unsafe { capture::encode(view.as_ptr(), out, &late::limits(capture)) }
    }

    fn stacktrace(&self, depth: usize) -> Term {
        backtrace::calls(innermost(), depth)
    }

    fn describe(&self, current: &Tracee) -> Term {
        backtrace::describe(current, None, innermost())
    }

    fn node_name(&self) -> Term {
        Term::atom(&inviso_port::node::name())
    }
}

/// The innermost frame that match specs may show. Methods of queues are left out, since they don't always have a frame.
fn innermost() -> Option<Frame> {
    // SAFETY: events are emitted attached; the callers of a running frame run, too.
    unsafe { queue_classes::user(Frame::current_python(inviso_cpython::interpreter::tstate())) }
}

impl MessageSource for Message<'_> {
    #[inline(always)]
    fn message(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full> {
        // SAFETY: the constructors' callers promise that the message stands and the thread is attached.
        unsafe { capture::encode(self.message, out, &late::limits(capture)) }
    }

    fn message_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16) {
        calling::attached(|py| {
            // SAFETY: the message stands, as in `message`; the thread is attached.
            let values = vec![unsafe { late::held(py, self.message) }];
            late::write_one(py, Arguments { values, more: false }, out, session, scheduler);
        });
    }

    #[inline(always)]
    fn process(&self) -> u64 {
        match self.way {
            Route::Out(to, ..) => to,
            Route::Named(_) | Route::In(_) => 0,
        }
    }

    #[inline(always)]
    fn number(&self) -> u64 {
        match self.way {
            Route::In(Origin { number, .. }) | Route::Out(_, number, _) => number,
            Route::Named(_) => 0,
        }
    }

    #[inline(always)]
    fn kind(&self) -> MessageKind {
        match self.way {
            Route::Out(.., kind) => kind,
            Route::Named(_) | Route::In(_) => MessageKind::Item,
        }
    }

    #[inline(always)]
    fn sender(&self) -> u32 {
        match self.way {
            Route::In(origin) => origin.creation,
            Route::Out(..) | Route::Named(_) => 0,
        }
    }

    #[cold]
    fn name(&self) -> Term {
        match &self.way {
            Route::Named(name) => named(name),
            Route::Out(..) | Route::In(_) => Term::atom("undefined"),
        }
    }
}

/// The term of a name that a message is sent to.
#[cold]
fn named(name: &Bound<'_, PyAny>) -> Term {
    if let Ok(text) = name.extract::<String>() {
        return Term::atom(&text);
    }
    match name.extract::<(String, String)>() {
        Ok((name, node)) => Term::Tuple(vec![Term::atom(&name), Term::atom(&node)]),
        Err(_) => Term::atom("undefined"),
    }
}

/// The running process, which is known, sends a message to a process, queue or port. Returns the message's number, as
/// all functions do that send.
///
/// # Safety
/// `message` stands; callbacks run attached on this thread.
#[inline(always)]
pub unsafe fn sent_by_current(state: &mut ThreadState, to: u64, message: *mut PyObject) -> u64 {
    // SAFETY: the caller promises that `message` stands and callbacks run attached on this thread.
    let parcel = unsafe { Message::to(message, to) };
    messages::on_send(&state.host.node, &mut state.thread, About::Current, true, &parcel)
}

/// The running process receives a message.
///
/// # Safety
/// As [`sent_by_current`].
#[inline(always)]
pub unsafe fn received(state: &mut ThreadState, origin: impl Into<Origin>, message: *mut PyObject) {
    // SAFETY: the caller promises that `message` stands and callbacks run attached on this thread.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        received_by_current(state, origin, message);
    }
}

/// The running process, which is known, receives a message.
///
/// # Safety
/// As [`sent_by_current`].
#[inline(always)]
pub unsafe fn received_by_current(state: &mut ThreadState, origin: impl Into<Origin>, message: *mut PyObject) {
    // SAFETY: the caller promises that `message` stands and callbacks run attached on this thread.
    let parcel = unsafe { Message::from(message, origin) };
    messages::on_receive(&state.host.node, &mut state.thread, About::Current, &parcel);
}

/// A message has arrived at a process, whether or not the process runs.
///
/// # Safety
/// As [`sent_by_current`].
pub unsafe fn arrived(
    host: &Host, thread: &mut Thread, at: &Tracee, origin: impl Into<Origin>, message: *mut PyObject,
) {
    // SAFETY: the caller promises that `message` stands and callbacks run attached on this thread.
    unsafe { messages::on_receive(&host.node, thread, About::Other(at), &Message::from(message, origin)) };
}

/// The running process has waited for a message in vain.
pub fn timed_out(state: &mut ThreadState) {
    let allocated = tls::bytes();
    calling::attached(|py| {
        if let Ok(timeout) = terms::atom(py, "timeout") {
            // SAFETY: held; the thread is attached.
            unsafe { received(state, Sender::Clock, timeout.as_ptr()) };
        }
    });
    tls::set_bytes(allocated);
}

/// The number of the queue at this address: an object that takes and gives messages, while its receiver isn't known. It
/// gets its number at first sight.
///
/// # Safety
/// The object stands; callbacks run attached on this thread.
#[inline(always)]
pub unsafe fn queue(state: &mut ThreadState, object: *mut PyObject) -> u64 {
    let address = object as usize;
    match state.places.find(address) {
        Some(pid) => pid,
        // SAFETY: the caller promises that the object stands and callbacks run attached on this thread.
        None => unsafe { meet(state, Kind::Queue, object) },
    }
}

/// # Safety
/// As [`queue`].
#[cold]
#[inline(never)]
unsafe fn meet(state: &mut ThreadState, kind: Kind, object: *mut PyObject) -> u64 {
    let allocated = tls::bytes();
    let tracee = state.host.directory.object_process(state.host, kind, object as usize, None);
    tls::set_bytes(allocated);
    state.places.keep(CachedObject::new(tracee.clone()));
    tracee.pid
}

/// The frame that called the frame of an event, which begins or ends.
///
/// # Safety
/// It is the frame of the current event; the thread is attached.
pub unsafe fn caller(frame: Frame) -> Option<Frame> {
    // SAFETY: the thread is attached. Before 3.12 the current frame is the caller's both when a call begins and when it
    // ends.
    unsafe {
        if cfg!(not(Py_3_12)) {
            let current = Frame::current_python(inviso_cpython::interpreter::tstate());
            if current.is_some_and(|current| current != frame) {
                return originals::past(frame.code(), current);
            }
        }
        originals::caller(frame)
    }
}

/// Functions of the standard library that handle no messages themselves, but call functions that the program gave them.
const RUNNERS: [&str; 5] =
    ["_WorkItem.run", "WorkerContext.run", "Handle._run", "Future._invoke_callbacks", "Future.add_done_callback"];

/// Other names under which the program calls a method of the library, with the generators of `Executor.map`.
const FORWARDERS: [&str; 6] = [
    "BaseEventLoop.run_until_complete",
    "Queue.get_nowait",
    "Queue.put_nowait",
    "_result_or_cancel",
    "Executor.map.<locals>.result_iterator",
    "_chain_from_iterable_of_lists",
];

/// Whether the frame runs code of the standard library's message passing, and not the program's. The messages of such
/// code are part of a larger message. A callback of the program that is called from there counts as the program.
///
/// # Safety
/// The frame runs, or is about to end, and is no shim; the calling thread is attached.
pub unsafe fn is_inner(frame: Option<Frame>) -> bool {
    let mut frame = frame;
    // SAFETY: the caller promises that the frame runs or is about to end, is not a shim, and the thread is attached;
    // the callers of a running frame run, too.
    unsafe {
        while let Some(state) = frame.filter(|frame| is_library(*frame)) {
            let function = code_qualname(state.code());
            if RUNNERS.iter().any(|runner| capture::is_text(function, runner)) {
                return false;
            }
            if !FORWARDERS.iter().any(|forwarder| capture::is_text(function, forwarder)) {
                return true;
            }
            frame = originals::caller(state);
        }
        false
    }
}

/// Whether the frame's function is one of the library's that passes messages.
///
/// # Safety
/// As [`is_inner`].
pub unsafe fn is_library(frame: Frame) -> bool {
    // SAFETY: the caller promises that the frame runs and the thread is attached; the names are held while they are
    // read.
    unsafe {
        let name = module_of(frame.globals());
        !name.is_null() && capture::text_is(name.as_ptr(), passes_messages)
    }
}

/// Modules that pass messages; their submodules do, too.
const PASSING: [&str; 5] = ["asyncio", "queue", "multiprocessing", "inviso", "concurrent.futures"];

fn passes_messages(module: &str) -> bool {
    PASSING.iter().any(|known| module.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}
