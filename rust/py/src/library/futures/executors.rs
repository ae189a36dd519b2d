//! Executors. A submitted call is a message to the executor, received by the worker that begins it. The result is a
//! message from the worker to the caller that submitted it. The executors' internal messages are not emitted.

use crate::{
    instrument::{message_view, modules, sent_values, tokens, watch},
    library::results::{outcome, record},
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        origin::{Origin, Sender},
        thread::ThreadState,
        untraced,
    },
};
use inviso_core::host::{flags::Flags, messages::About};
use inviso_cpython::{
    capture::is_text,
    frames::frame::{code_qualname, Frame},
    interpreter::generic::attribute,
    object::held::Held,
};
use inviso_term::record::numbered::MessageKind;
use pyo3::{ffi, prelude::*};

/// Pools of threads and of operating system processes.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages(),
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        watch::remove(py, host, &[&ITEM, &PROCESS_ITEM, &RUNNING])?;
        modules::leave(py, host, &MODULES)
    },
    |_| modules::forget(&MODULES),
);

/// The initialiser of a thread pool's work items: a call has been submitted, and no worker can have taken it yet.
pub static ITEM: Handler = Handler { begin: Some(|state, frame| on_item(state, frame, false)), ..Handler::NONE };

/// The same for a pool of operating system processes.
pub static PROCESS_ITEM: Handler = Handler { begin: Some(|state, frame| on_item(state, frame, true)), ..Handler::NONE };

/// `Future.set_running_or_notify_cancel`: a worker begins an item, unless it was cancelled.
pub static RUNNING: Handler = Handler { end: Some(on_running), ..Handler::NONE };

/// The modules that define them.
pub static MODULES: [Module; 3] = [
    Module::new("concurrent.futures.thread", adopt_threads),
    Module::new("concurrent.futures.process", adopt_processes),
    Module::new("concurrent.futures._base", adopt_base),
];

/// The parameters of a work item: a future and the call. The call is three parameters before 3.14 and one since.
const SPREAD: &[&str] = &["self", "future", "fn", "args", "kwargs"];
const TASK: &[&str] = &["self", "future", "task"];

fn adopt_threads(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::watch_all(py, host, module, &[("_WorkItem.__init__", SPREAD, &ITEM)])
        .or_else(|_| modules::watch_all(py, host, module, &[("_WorkItem.__init__", TASK, &ITEM)]))
}

fn adopt_processes(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::watch_all(py, host, module, &[("_WorkItem.__init__", SPREAD, &PROCESS_ITEM)])
}

fn adopt_base(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::watch_all(py, host, module, &[("Future.set_running_or_notify_cancel", &["self"], &RUNNING)])
}

/// The function, the arguments and the keyword arguments of a work item, borrowed. `part` returns the item's parts.
///
/// # Safety
/// What `part` returns is null or stands while the result is used; attached.
unsafe fn parts(part: impl Fn(usize) -> *mut ffi::PyObject, spread: bool) -> Option<[*mut ffi::PyObject; 3]> {
    if spread {
        return Some([part(0), part(1), part(2)]).filter(|parts| !parts.contains(&std::ptr::null_mut()));
    }
    let task = part(0);
    // SAFETY: the type is checked. The tuple holds its items, and the source of `part` holds the tuple.
    unsafe {
        if task.is_null() || ffi::PyTuple_Check(task) == 0 || ffi::PyTuple_GET_SIZE(task) != 3 {
            return None;
        }
        Some([0, 1, 2].map(|i| ffi::PyTuple_GET_ITEM(task, i)))
    }
}

/// The message of a work item, from its parts.
///
/// # Safety
/// All three stand; the calling thread is attached and has no exception set.
unsafe fn message(py: Python<'_>, [function, args, keywords]: [*mut ffi::PyObject; 3]) -> Option<Bound<'_, PyAny>> {
    // SAFETY: all three stand, the thread is attached and no exception is set.
    unsafe {
        if ffi::PyTuple_Check(args) == 0 {
            return None;
        }
        sent_values::of_call(py, function, args, keywords).ok()
    }
}

/// A call is submitted.
fn on_item(state: &mut ThreadState, frame: Frame, comes_from_afar: bool) {
    // SAFETY: callbacks run attached. The event's frame begins, so it has its parameters; its caller runs.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        let future = frame.local(1);
        if future.is_null() {
            return;
        }
        let own = state.thread.current().pid;
        let future = record(state, future);
        if is_of_library(frame) {
            outcome(&future).is_inner = true;
            return;
        }
        {
            let mut outcome = outcome(&future);
            outcome.reply_to = own;
            outcome.comes_from_afar = comes_from_afar;
        }
        let asked = sent_values::is_asked(state, Flags::SEND);
        if !asked && !tokens::has(state) {
            return tokens::send_by(state, About::Current, &future, future.pid, std::ptr::null_mut());
        }
        let arity = inviso_cpython::frames::frame::arity(frame.code());
        let Some(parts) = parts(|n| frame.local(2 + n), arity == 5) else { return };
        // a caller that submits by the executor's own method has the executor as its first variable
        let executor =
            message_view::caller(frame).filter(|caller| message_view::is_inner(Some(*caller))).map(|c| c.local(0));
        let to = match executor.filter(|executor| !executor.is_null()) {
            Some(executor) => message_view::queue(state, executor),
            None => future.pid,
        };
        let message = untraced::build_untraced(state, |py| message(py, parts));
        if asked {
            let number = sent_values::send(state, to, &message, MessageKind::Call);
            outcome(&future).number = number;
        }
        tokens::send_by(state, About::Current, &future, to, message.as_ptr());
    }
}

/// Whether an event loop submits a call for itself, to look up a name or to read a file. `frame` is that of the item's
/// initialiser.
///
/// # Safety
/// The frame belongs to the current event and begins; attached.
unsafe fn is_of_library(frame: Frame) -> bool {
    // SAFETY: the frame begins, so its callers run; attached.
    unsafe {
        let is = |frame: &Frame, name| is_text(code_qualname(frame.code()), name);
        let hands_in = message_view::caller(frame).and_then(|submit| submit.caller());
        let hands_in = hands_in.filter(|frame| is(frame, "BaseEventLoop.run_in_executor"));
        hands_in
            .and_then(|frame| frame.caller())
            .is_some_and(|caller| message_view::is_library(caller) && !is(&caller, "to_thread"))
    }
}

/// A worker has taken an item that was not cancelled.
fn on_running(state: &mut ThreadState, frame: Frame, how: Ended) {
    let Ended::Returned(goes_on) = how else { return };
    // SAFETY: `True` lives for ever, both frames run, and callbacks run attached.
    unsafe {
        if goes_on != ffi::Py_True() {
            return;
        }
        let Some(worker) = message_view::caller(frame) else { return };
        let is_worker = is_text(code_qualname(worker.code()), "_WorkItem.run");
        let (future, item) = (frame.local(0), worker.local(0));
        if !is_worker || future.is_null() || item.is_null() || !message_view::is_library(worker) {
            return;
        }
        state.running.identify(state.host, &mut state.thread);
        let record = state.host.directory.known(future as usize);
        let inner = record.as_ref().is_some_and(|record| outcome(record).is_inner);
        if !inner && sent_values::is_asked(state, Flags::RECEIVE) {
            let (by, number) = record.as_ref().map_or((0, 0), |future| {
                let asked = outcome(future);
                (asked.reply_to, asked.number)
            });
            let sender = if by == 0 { Sender::Unknown } else { Sender::Process(by) };
            let message = taken_call(state, item);
            sent_values::receive(state, Origin::new(sender, number), &message);
        }
        let told = record
            .is_some_and(|record| tokens::receive_by(state, About::Current, &record, |state| taken_call(state, item)));
        if !told && tokens::has(state) {
            // the call was submitted before tokens were in use, or by the library; the worker must not keep the token
            // of its previous call
            state.host.node.seq_clear(state.thread.current());
        }
    }
}

/// The message of a work item.
///
/// # Safety
/// The item stands; callbacks run attached on this thread.
unsafe fn taken_call(state: &mut ThreadState, item: *mut ffi::PyObject) -> Held {
    // SAFETY: the item stands, and this thread is attached. No exception is set while the message is made.
    unsafe {
        untraced::build_untraced(state, |py| {
            let fields = ["fn", "args", "kwargs"].map(|name| attribute(py, item, name));
            let task = attribute(py, item, "task");
            let borrowed =
                |field: &Option<Bound<'_, PyAny>>| field.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
            let parts = match &task {
                Some(_) => parts(|_| borrowed(&task), false),
                None => parts(|n| borrowed(&fields[n]), true),
            };
            parts.and_then(|parts| message(py, parts))
        })
    }
}
