//! Tokens of sequential tracing on their way through a Python program: which message carries one, and who gets it.

use super::{directory, here::Here, late, queues, senders::Put};
use crate::capture;
use inviso_core::{messages::About, seq::Carried, session::Session, tracee::Tracee};
use inviso_term::{
    etf::{self, Encoder, Full},
    term::{Identifier, Term},
};
use pyo3::ffi::PyObject;
use std::sync::atomic::Ordering;

/// Writes a message for the system tracer.
///
/// # Safety
/// It stands while the answer is used; attached.
pub unsafe fn writing(message: *mut PyObject) -> impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full> {
    // SAFETY: the caller's promise.
    move |out, session| unsafe { capture::encode(message, out, &late::limits(&session.options.capture)) }
}

/// What an item carries that the running process puts into a queue. A pool that hands out objects carries nothing: a queue whose
/// newest item comes first, unless `seq_trace.carrier` says otherwise.
///
/// # Safety
/// Both stand; attached.
pub unsafe fn sent_to_queue(here: &mut Here, queue: &Tracee, object: *mut PyObject, item: *mut PyObject) -> Carried {
    // SAFETY: the caller's promise.
    unsafe {
        if !here.host.node.seq_in_use() || !carries(queue, object) {
            return Carried::Nothing;
        }
        here.host.node.seq_send(&mut here.thread, About::Current, queue.pid, writing(item))
    }
}

unsafe fn carries(queue: &Tracee, object: *mut PyObject) -> bool {
    match directory::process(queue).carrier.load(Ordering::Relaxed) {
        // SAFETY: the queue stands.
        0 => !queues::is_lifo(unsafe { pyo3::ffi::Py_TYPE(object) }),
        said => said == 1,
    }
}

/// The running process has taken an item out of a queue.
///
/// # Safety
/// As [`sent_to_queue`].
pub unsafe fn taken_from_queue(
    here: &mut Here, number: u64, object: *mut PyObject, put: Option<Put>, item: *mut PyObject,
) {
    if !here.host.node.seq_in_use() {
        return;
    }
    let carried = match put {
        Some(put) => put.carried,
        None => match here.host.node.tracee(number) {
            // SAFETY: the caller's promise.
            Some(queue) if unsafe { carries(&queue, object) } => Carried::Empty,
            _ => Carried::Nothing,
        },
    };
    // SAFETY: the caller's promise.
    unsafe { here.host.node.seq_receive(&mut here.thread, About::Current, carried, writing(item)) };
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
