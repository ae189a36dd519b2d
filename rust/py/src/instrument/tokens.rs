//! Tokens of sequential tracing on their way through a Python program: which message carries one, and who gets it.

use super::senders::{self, Put};
use crate::{
    host::{instruments::Wants, Host},
    library::{
        loops::loop_tokens,
        multiprocess::{buffers, pools},
        queues,
    },
    processes::{process, thread_ids},
    thread::{here::Here, late},
};
use inviso_core::{
    messages::About,
    seq::{flags, Carried},
    session::Session,
    tracee::Tracee,
};
use inviso_cpython::{capture, interpreter::calling, object::held::Held};
use inviso_term::{
    etf::{self, Encoder, Full},
    term::{Identifier, Term},
};
use pyo3::{ffi::PyObject, PyResult, Python};
use std::{
    ptr::null_mut,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        MutexGuard,
    },
};

/// Writes a message for the system tracer.
///
/// # Safety
/// It is null (one that could not be made) or stands while the answer is used; attached.
pub unsafe fn writing(message: *mut PyObject) -> impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full> {
    move |out, session| {
        if message.is_null() {
            return out.cut("message");
        }
        // SAFETY: the caller's promise.
        unsafe { capture::encode(message, out, &late::limits(&session.options.capture)) }
    }
}

/// What an item carries that the running process puts into this queue, whose items [carry](carries()) tokens.
///
/// # Safety
/// The item stands; attached.
#[inline]
pub unsafe fn sent_to_queue(here: &mut Here, queue: u64, item: *mut PyObject) -> Carried {
    // SAFETY: the caller's promise.
    unsafe { here.host.node.seq_send(&mut here.thread, About::Current, queue, writing(item)) }
}

/// Whether items of a queue carry tokens, see `Process::carrier`: what the program has said, or what its kind is.
pub mod carrier {
    /// Neither is known.
    pub const UNKNOWN: u8 = 0;
    /// The program says that they do.
    pub const SAID_YES: u8 = 1;
    /// It says that they do not.
    pub const SAID_NO: u8 = 2;
    /// They do, as those of most queues.
    pub const YES: u8 = 3;
    /// They do not: its newest item comes first.
    pub const NO: u8 = 4;
}

/// Whether the program says that items of a queue carry no tokens.
pub fn is_said_not_to_carry(here: &Here, queue: *mut PyObject) -> bool {
    let known = here.host.directory.known(queue as usize);
    known.is_some_and(|queue| process::process(&queue).carrier.load(Ordering::Relaxed) == carrier::SAID_NO)
}

/// Whether items of a queue carry tokens. A pool that hands out objects carries nothing: a queue whose newest item comes first, unless
/// `seq_trace.carrier` says otherwise.
///
/// # Safety
/// The queue stands; attached.
pub unsafe fn carries(queue: &Tracee, object: *mut PyObject) -> bool {
    let word = &process::process(queue).carrier;
    let mut known = word.load(Ordering::Relaxed);
    if known == carrier::UNKNOWN {
        // SAFETY: the caller's promise.
        let pool = queues::is_lifo(unsafe { pyo3::ffi::Py_TYPE(object) });
        let by_kind = if pool { carrier::NO } else { carrier::YES };
        // the program may say it just now
        known = match word.compare_exchange(known, by_kind, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => by_kind,
            Err(said) => said,
        };
    }
    matches!(known, carrier::SAID_YES | carrier::YES)
}

/// The running process has taken an item out of a queue.
///
/// # Safety
/// Both stand; attached.
pub unsafe fn taken_from_queue(here: &mut Here, object: *mut PyObject, put: Option<Put>, item: *mut PyObject) {
    let carried = match put.and_then(|put| put.carried) {
        Some(carried) => carried,
        None if !here.host.node.seq_may_have(here.thread.current()) => return,
        // one that nobody sent a token with, or that was put in before tokens were in use
        None => match here.host.directory.known(object as usize) {
            // SAFETY: the caller's promise.
            Some(queue) if unsafe { !carries(&queue, object) } => Carried::Nothing,
            // SAFETY: as above.
            None if queues::is_lifo(unsafe { pyo3::ffi::Py_TYPE(object) }) => Carried::Nothing,
            _ => Carried::Empty,
        },
    };
    // SAFETY: the caller's promise.
    unsafe { here.host.node.seq_receive(&mut here.thread, About::Current, carried, writing(item)) };
}

/// Whether a message of the running process may have a token.
#[inline]
pub fn has(here: &Here) -> bool {
    here.host.node.seq_may_have(here.thread.current())
}

/// A call or a result goes its way by this future, with the token of who sends it. `message` is null where nobody has a token.
///
/// # Safety
/// The message is null or stands; attached.
pub unsafe fn send_by(here: &mut Here, from: About<'_>, future: &Tracee, to: u64, message: *mut PyObject) {
    if here.host.node.seq_in_use() {
        // SAFETY: the caller's promise.
        let carried = unsafe { here.host.node.seq_send(&mut here.thread, from, to, writing(message)) };
        let relayed = matches!((from, &carried), (About::Current, Carried::Empty)) && loop_tokens::relays(here);
        *kept(future) = Some(if relayed { Carried::Nothing } else { carried });
    }
}

/// It is taken; `message` makes it where somebody is told. False where nothing is known of it.
///
/// # Safety
/// Attached.
pub unsafe fn receive_by(
    here: &mut Here, at: About<'_>, future: &Tracee, message: impl FnOnce(&mut Here) -> Held,
) -> bool {
    if !here.host.node.seq_in_use() {
        return false;
    }
    let Some(carried) = kept(future).take() else { return false };
    let message = message_for(here, &carried, message);
    // SAFETY: held; the caller's promise.
    unsafe { here.host.node.seq_receive(&mut here.thread, at, carried, writing(message.as_ptr())) };
    true
}

/// A message, if somebody may be told of one that carries this; else null.
pub fn message_for(here: &mut Here, carried: &Carried, make: impl FnOnce(&mut Here) -> Held) -> Held {
    match carried {
        Carried::Token(token, _) if token.flags & flags::RECEIVE != 0 => make(here),
        _ => Held::borrowed(std::ptr::null_mut()),
    }
}

/// What goes by one future goes on by another.
pub fn forward(from: &Tracee, to: &Tracee) {
    let carried = kept(from).take();
    *kept(to) = carried;
}

/// Whether something with a token may wait to be taken from this future.
pub fn waits(here: &Here, future: &Tracee) -> bool {
    here.host.node.seq_in_use() && kept(future).is_some()
}

/// What goes by a future, taken from it to go on by other means.
pub fn kept_by(future: &Tracee) -> Option<Carried> {
    kept(future).take()
}

/// What goes by a future, which keeps it.
pub fn shown_by(future: &Tracee) -> Option<Carried> {
    kept(future).clone()
}

/// A result has come from elsewhere, with what it carries.
pub fn keep(future: &Tracee, carried: Carried) {
    *kept(future) = Some(carried);
}

/// Tokens are out of use: takes away what carries them, and lets go of those of before that wait in queues and futures.
///
/// # Errors
/// Of the interpreter's, as it takes instruments away.
pub fn leave(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    host.adjust(py, Wants::default())?;
    for object in host.directory.queues(py) {
        let known = process::process(&object);
        senders::empty(py, &host.node, &known.senders);
        if let Some(carried) = &mut *kept(&object) {
            host.node.seq_empty(carried);
        }
        pools::empty(&host.node, &object);
        buffers::empty(&host.node, &object);
    }
    Ok(())
}

/// How often, in ns, what carries tokens is taken away without a reset, and how often at once. To put it in place again takes a
/// millisecond, and where the program has millions of objects many: so it is not done oftener than takes this part of the time.
const PAUSE: u64 = 1_000_000_000;
const AT_ONCE: u64 = 10;
const PART: u64 = 500;

/// How many ns it took last.
static TOOK: AtomicU64 = AtomicU64::new(0);

/// Puts in place what carries tokens; where that fails, `undo` takes back what was noted for it.
///
/// # Errors
/// As [`Host::adjust_or`].
pub fn enter(py: Python<'_>, host: &'static Host, undo: impl FnOnce()) -> PyResult<()> {
    let begun = host.node.clock.system_monotonic();
    host.adjust_or(py, Wants { tokens: true, ..Wants::default() }, undo)?;
    TOOK.store(host.node.clock.system_monotonic() - begun, Ordering::Relaxed);
    Ok(())
}

/// The last token has gone, or a thread while there was none: has the main thread see whether what carries them is needed any more.
pub fn all_gone() {
    static ASKED: AtomicBool = AtomicBool::new(false);
    extern "C" fn call(_: *mut std::ffi::c_void) -> std::ffi::c_int {
        ASKED.store(false, Ordering::Release);
        let see = |py: Python<'_>| {
            if !calling::may_import(py) {
                return all_gone(); // in another frame, then
            }
            let host = crate::host::try_host().filter(|host| host.process == std::process::id());
            if let Some(error) = host.and_then(|host| end(py, host).err()) {
                error.write_unraisable(py, None);
            }
        };
        crate::entry::door::guard(|| Python::try_attach(see));
        0
    }
    // SAFETY: plain questions, which any thread may ask. A full queue is no harm: the next one asks again.
    unsafe {
        let asks =
            crate::host::try_host().is_some_and(|host| host.node.seq_is_idle()) && pyo3::ffi::Py_IsInitialized() != 0;
        if asks && !ASKED.swap(true, Ordering::AcqRel) && pyo3::ffi::Py_AddPendingCall(Some(call), null_mut()) != 0 {
            ASKED.store(false, Ordering::Release);
        }
    }
}

/// Takes away what carries tokens, if there are none. Not while there are threads besides the main one, which may be in the midst of
/// passing something on.
fn end(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    /// When the next one is due; each puts it off by a pause.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = host.node.clock.system_monotonic();
    let pause = PAUSE.max(PART * TOOK.load(Ordering::Relaxed));
    let due = |next: u64| (next <= now + pause * (AT_ONCE - 1)).then(|| next.max(now) + pause);
    if !thread_ids::is_one_thread(py)? || !host.node.seq_is_idle() {
        return Ok(());
    }
    if NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok() && host.node.seq_end() {
        return leave(py, host);
    }
    Ok(())
}

fn kept(future: &Tracee) -> MutexGuard<'_, Option<Carried>> {
    process::process(future).carried.lock().unwrap_or_else(|e| e.into_inner())
}

/// The running process starts another; `name` is `(module, function, arguments)` as terms.
pub fn spawned(here: &mut Here, child: &Tracee, name: &[u8]) {
    if !here.host.node.seq_in_use() {
        return;
    }
    let (function, arguments) = match etf::decode(name) {
        Ok(Term::Tuple(parts)) => match <[Term; 3]>::try_from(parts) {
            Ok([module, function, Term::List(arguments)]) => {
                let arity = Term::from(arguments.len() as i64);
                (Term::Tuple(vec![module, function, arity]), Term::List(arguments))
            }
            _ => (Term::atom("undefined"), Term::List(Vec::new())),
        },
        _ => (Term::atom("undefined"), Term::List(Vec::new())),
    };
    let parent = Term::Pid(Identifier::own(here.thread.current().pid));
    let reference = Term::Ref(Identifier::own(here.host.node.unique()));
    let options = if here.linking { vec![Term::atom("link")] } else { Vec::new() };
    let request = Term::Tuple(vec![
        Term::atom("spawn_request"),
        reference.clone(),
        parent,
        Term::atom("undefined"), // in Erlang the group leader, which a Python process has not
        function,
        Term::List(options),
        Term::atom("spawn_reply"),
        arguments,
    ]);
    let child_pid = Term::Pid(Identifier::own(child.pid));
    let reply = Term::Tuple(vec![Term::atom("spawn_reply"), reference, Term::atom("ok"), child_pid]);
    here.host.node.seq_spawn(&mut here.thread, child, &etf::encode(&request), &etf::encode(&reply));
}
