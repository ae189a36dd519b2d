//! The instruments: hooks that are put into the interpreter and the standard library for events that are no calls. Each
//! is installed while a session needs its events, and is removed without a trace.
//!
//! # Roles
//! Any attached thread calls [`Host::adjust`] after a change of what sessions need. One thread at a time installs and
//! removes instruments.
//!
//! # States
//! | word | is |
//! | --- | --- |
//! | `AGAIN` | whether the thread that adjusts was asked to adjust meanwhile |
//! | `CARRIED` | whether everything that carries tokens is installed |
//! | `Instrument::on` | whether the instrument is installed |
//!
//! # Orderings
//! After clearing `CARRIED` the adjusting thread passes a `SeqCst` fence and looks for tokens. A thread that has made a
//! token passes one and reads `CARRIED`, see [`carry_tokens`]. So one of them sees the other.
//!
//! # Checked by
//! `tests/python/test_trace_messages.py`, `tests/python/test_seq_trace.py`, `tests/python/test_host_fork.py`.

use crate::{
    entry::fault,
    instrument::{lengths, modules, senders},
    library::{
        collector,
        futures::{self, executors},
        greenlets,
        loops::{self, loop_callbacks, loop_tokens, uv_loops},
        multiprocess::{self, pickles, pools},
        ports::{self, traffic},
        queues::{self, simple_queue},
    },
    processes::{groups, scheduling, spawning, task_ends, turns},
    state::{
        host::Host,
        instrument::{Handler, Instrument, Module},
        reentrant_lock::ReentrantLock,
        start,
        wants::{Wants, MONITORED, WANTED},
    },
};
use inviso_core::host::{flags::Flags, messages::Pattern, monitor::LimitEvent, plan, session::Session, tracee::Class};
use inviso_cpython::interpreter::calling;
use pyo3::prelude::*;
use std::sync::{
    atomic::{fence, AtomicBool, Ordering},
    Arc,
};

/// All handlers of functions of the standard library. Handlers of the same function run in this order.
pub static HANDLERS: &[&Handler] = &[
    &fault::FAULT,
    &spawning::START,
    &spawning::BOOTSTRAP,
    &spawning::EXCEPTHOOK,
    &task_ends::COROUTINE,
    &groups::CREATE,
    &queues::PUT,
    &queues::GET,
    &queues::GET_LAST,
    &queues::OWN_PUT,
    &queues::OWN_GET,
    &queues::WAIT,
    &queues::NEW,
    &modules::LOADED,
    &executors::ITEM,
    &executors::PROCESS_ITEM,
    &executors::RUNNING,
    &futures::SET_RESULT,
    &futures::SET_EXCEPTION,
    &futures::RESULT,
    &futures::EXCEPTION,
    &loops::HANDLE,
    &loops::RUN,
    &loop_tokens::RAN,
    &loops::SUBMIT,
    &loops::BEGUN,
    &multiprocess::PUT,
    &multiprocess::PUT_SIMPLE,
    &multiprocess::GET,
    &multiprocess::SEND,
    &multiprocess::RECEIVE,
    &multiprocess::RECEIVE_INTO,
    &multiprocess::BUSY,
    &multiprocess::APPLY,
    &multiprocess::APPLIED,
    &multiprocess::AWAIT,
    &pools::ASK,
    &pools::CHUNK,
    &pools::ITEM,
    &pools::NEXT,
    &pickles::GOT,
    &pickles::CALLBACKS,
    &pickles::SENT,
    &scheduling::THREAD,
    &turns::STEP,
    &loop_callbacks::RUN,
    &uv_loops::PROTOCOL,
    &ports::socket::INIT,
    &ports::subprocess::INIT,
    &ports::subprocess::STATUS,
    &ports::subprocess::COMMUNICATE,
    &ports::subprocess::INPUT,
    &ports::subprocess::EXITED,
    &ports::transport::SOCKET,
    &ports::transport::WRITE,
    &ports::transport::SENDTO,
    &ports::transport::WRITELINES,
    &ports::transport::PIPE,
    &ports::transport::READ,
    &ports::transport::LOST,
    &ports::transport::FLOW,
    &ports::transport::TLS,
    &ports::transport::SELF_PIPE,
    #[cfg(not(Py_3_12))]
    &crate::library::loops::wait_for::WAITED,
];

/// All instruments, in the order in which they are installed.
static INSTRUMENTS: &[&Instrument] = &[
    &spawning::INSTRUMENT,
    &groups::INSTRUMENT,
    &queues::INSTRUMENT,
    &simple_queue::INSTRUMENT,
    &futures::INSTRUMENT,
    &executors::INSTRUMENT,
    &loops::INSTRUMENT,
    &loop_tokens::INSTRUMENT,
    &multiprocess::INSTRUMENT,
    &pickles::PICKLER,
    &pickles::INSTRUMENT,
    &multiprocess::BUSY_SENDS,
    &scheduling::INSTRUMENT,
    &loop_callbacks::INSTRUMENT,
    &uv_loops::INSTRUMENT,
    &collector::INSTRUMENT,
    &ports::INSTRUMENT,
    &greenlets::INSTRUMENT,
];

/// One thread at a time installs and removes instruments. If that thread is asked to adjust again meanwhile, it does so
/// afterwards.
static ONE: ReentrantLock = ReentrantLock::new();
static AGAIN: AtomicBool = AtomicBool::new(false);

/// Whether everything that carries tokens is installed.
static CARRIED: AtomicBool = AtomicBool::new(false);

/// Whether everything that carries tokens is installed. A caller that makes a token asks afterwards. The thread that
/// removes the instruments looks for tokens afterwards. So one of them sees the other.
pub fn carry_tokens() -> bool {
    fence(Ordering::SeqCst);
    CARRIED.load(Ordering::Acquire)
}

impl Host {
    /// Installs what sessions need, and what one is about to need (`soon`). Removes what no session needs any more.
    ///
    /// # Errors
    /// An error that importing a module of the standard library, or `sys.monitoring`, raises.
    pub fn adjust(&'static self, py: Python<'_>, soon: Wants) -> PyResult<()> {
        self.adjust_or(py, soon, || ())
    }

    /// The same. If it fails, `undo` takes back what was noted for it, and everything is as before.
    ///
    /// # Errors
    /// As [`Host::adjust`].
    pub fn adjust_or(&'static self, py: Python<'_>, soon: Wants, undo: impl FnOnce()) -> PyResult<()> {
        let done = self.put_in_place(py, soon);
        if done.is_err() {
            undo();
            // the first error reports what is needed and can't be had
            let _ = self.put_in_place(py, Wants::default());
        }
        done
    }

    fn put_in_place(&'static self, py: Python<'_>, soon: Wants) -> PyResult<()> {
        if calling::is_ending(py) {
            return Ok(());
        }
        // made here: at the first message, a signal's handler may interrupt and need them, too
        crate::delivery::messages::MessageAtoms::get(py)?;
        crate::delivery::tracer_words::words(py)?;
        let Some(one) = ONE.enter(py) else {
            AGAIN.store(true, Ordering::Release);
            return Ok(());
        };
        AGAIN.store(false, Ordering::Release);
        let sessions = self.node.sessions();
        let mut wants = wants_of(&sessions, self);
        wants.processes = wants.processes | soon.processes;
        wants.ports = wants.ports | soon.ports;
        wants.monitored |= soon.monitored;
        wants.senders |= soon.senders;
        wants.tokens |= soon.tokens;
        wants.related |= soon.related;
        wants.ends |= soon.ends;
        wants.related_ports |= soon.related_ports;
        if INSTRUMENTS.iter().any(|one| (one.needed)(&wants) && !one.on.load(Ordering::Acquire)) {
            start::readable(py)?;
        }
        if !wants.tokens {
            CARRIED.store(false, Ordering::Release);
            fence(Ordering::SeqCst);
        }
        traffic::note(&wants);
        WANTED.store(wants.processes.0, Ordering::Relaxed);
        senders::want(
            wants.processes.has(Flags::SEND) && wants.processes.has(Flags::RECEIVE),
            wants.senders,
            wants.tokens,
        );
        lengths::want(wants.watches(LimitEvent::LongMessageQueue));
        MONITORED.store(wants.monitored, Ordering::Relaxed);
        collector::keep(py);
        let (mut ended, mut done) = (false, Ok(()));
        for instrument in INSTRUMENTS {
            let (needed, on) = ((instrument.needed)(&wants), instrument.on.load(Ordering::Acquire));
            if needed && !on {
                instrument.on.store(true, Ordering::Release);
                let begun = (instrument.begin)(py, self);
                if begun.is_err() {
                    // partly installed; the caller gets the error
                    instrument.on.store(false, Ordering::Release);
                    let _ = (instrument.end)(py, self);
                }
                done = done.and(begun);
            } else if !needed && on {
                instrument.on.store(false, Ordering::Release);
                done = done.and((instrument.end)(py, self));
                ended = true;
            }
        }
        CARRIED.store(wants.tokens && done.is_ok(), Ordering::Release);
        drop(one);
        // an ended instrument may have held the last relation; a token may have come after the first look; this thread
        // may have been asked to adjust meanwhile
        let came = !wants.tokens && self.node.seq_in_use();
        if ended && wants.related || came || AGAIN.load(Ordering::Acquire) {
            return done.and(self.put_in_place(py, soon));
        }
        done
    }
}

/// Resets everything in a forked child: no instrument is installed there.
pub fn forget(py: Python<'_>) {
    ONE.forget();
    WANTED.store(0, Ordering::Relaxed);
    senders::want(false, false, false);
    CARRIED.store(false, Ordering::Relaxed);
    MONITORED.store(0, Ordering::Relaxed);
    for instrument in INSTRUMENTS {
        if instrument.on.swap(false, Ordering::AcqRel) {
            (instrument.forget)(py);
        }
    }
    crate::instrument::watch::forget();
}

/// The needs of these sessions.
fn wants_of(sessions: &[Arc<Session>], host: &Host) -> Wants {
    let mut all = Wants {
        related: crate::directory::orphans::are_any(host),
        tokens: host.node.seq_in_use(),
        related_ports: ports::are_related(host),
        ends: host.node.read(|snapshot| snapshot.events & !plan::events::CALL != 0),
        ..Wants::default()
    };
    for session in sessions {
        all.processes = all.processes | session.seen_flags(Class::Process);
        all.ports = all.ports | session.seen_flags(Class::Port);
        for (_, event) in LimitEvent::NAMES {
            all.monitored |= u8::from(session.limit(event).is_some()) << event as u8;
        }
        all.tokens |= host.node.sets_tokens(session);
        all.ends |= session.on_load().is_some();
        all.senders |= matches!(host.node.patterns(session).receive, Pattern::Spec(_));
    }
    all.ends |= all.processes.has(Flags::RETURN_TO);
    all
}

/// All modules that instruments wait for.
pub static MODULES: &[&[Module]] = &[
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
