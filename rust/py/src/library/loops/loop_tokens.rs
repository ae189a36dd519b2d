//! Tokens of callbacks that an event loop runs besides tasks. A callback runs in the process of the loop's thread, with
//! the token of the process that scheduled it. The thread gets its own token back afterwards.

use crate::{
    instrument::{modules, tokens, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        thread::{Lent, ThreadState},
    },
};
use inviso_core::{messages::About, seq::Carried, tracee::Kind};
use inviso_cpython::{frames::frame::Frame, object::held::Held, tasks::running as tasks};

/// The instrument of ends of callbacks, and of the tasks that `asyncio.wait_for` makes.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.tokens,
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        let handlers = [
            &RAN,
            #[cfg(not(Py_3_12))]
            &crate::library::futures::wait_for::WAITED,
        ];
        watch::remove(py, host, &handlers)?;
        modules::leave(py, host, &MODULES)
    },
    |_| modules::forget(&MODULES),
);

/// `Handle._run`: the callback has run.
pub static RAN: Handler = Handler { end: Some(on_ran), ..Handler::NONE };

/// The modules that define them.
pub static MODULES: [Module; if cfg!(Py_3_12) { 1 } else { 2 }] = [
    Module::new("asyncio.events", |py, host: &'static Host, module| {
        modules::watch_all(py, host, module, &[("Handle._run", &["self"], &RAN)])
    }),
    #[cfg(not(Py_3_12))]
    Module::new("asyncio.tasks", crate::library::futures::wait_for::adopt),
];

/// How a callback gets its token.
pub enum CallbackToken {
    /// By a message, which may be traced.
    Message(Carried),
    /// Without a message: it was scheduled in the loop's own thread.
    Unseen(Carried),
    /// Not at all: the callback is the library's own.
    None,
}

/// Set in the key of a callback whose end is never missed. No frame has such a key.
pub const SURE: usize = 1;

/// Whether a callback whose beginning was seen runs on this thread. Ends the entry of a callback whose frame ended
/// unseen, for example because a reset removed the instruments.
///
/// # Safety
/// Attached.
pub unsafe fn is_inside(state: &mut ThreadState) -> bool {
    let runs = |key: usize| {
        // SAFETY: the caller's promise.
        let innermost = unsafe { Frame::current_python(inviso_cpython::interpreter::tstate()) };
        // SAFETY: the caller of a frame that runs also runs.
        let mut frames = std::iter::successors(innermost, |frame| unsafe { frame.caller() });
        key & SURE != 0 || frames.any(|frame| frame.address() == key)
    };
    if let Some(ended) = state.lent.iter().map(|lent| lent.key).find(|key| !runs(*key)) {
        end(state, ended);
    }
    !state.lent.is_empty()
}

/// A callback is about to run. No other callback on this thread has the same `key`; for example, it is the address of
/// the frame of `Handle._run`. `message` makes the message by which it came.
///
/// # Safety
/// Attached.
pub unsafe fn begin(
    state: &mut ThreadState, key: usize, way: CallbackToken, message: impl FnOnce(&mut ThreadState) -> Held,
) {
    if !state.host.node.seq_in_use() {
        return;
    }
    end(state, key); // a frame that ended unseen has left its own
    let own = state.thread.own().clone();
    let had = state.host.node.seq_copy(&own);
    state.lent.push(Lent { key, had, by_program: !matches!(way, CallbackToken::None) });
    match way {
        CallbackToken::None => {}
        CallbackToken::Unseen(carried) => state.host.node.seq_lend(&own, carried),
        CallbackToken::Message(carried) => {
            let message = tokens::message_for(state, &carried, message);
            // SAFETY: held; the thread is attached.
            let write = unsafe { tokens::writing(message.as_ptr()) };
            state.host.node.seq_receive(&mut state.thread, About::Other(&own), carried, write);
        }
    }
}

/// Whether the running process is an event loop's thread that passes on data from outside, in a callback of a socket or
/// pipe. Ports carry no token, so a result that such a callback sets neither sets nor clears one.
pub fn relays(state: &ThreadState) -> bool {
    let own = state.thread.current().kind == Kind::Thread;
    // SAFETY: called in events only, which are attached and have no exception set.
    own && !state.lent.last().is_some_and(|lent| lent.by_program) && unsafe { tasks::runs_here(std::ptr::null_mut()) }
}

fn on_ran(state: &mut ThreadState, frame: Frame, _how: Ended) {
    end(state, frame.address());
}

/// The callback of this key has run.
pub fn end(state: &mut ThreadState, key: usize) {
    let Some(at) = state.lent.iter().rposition(|lent| lent.key == key) else { return };
    if let Some(Lent { had, .. }) = state.lent.drain(at..).next() {
        let own = state.thread.own().clone();
        state.host.node.seq_exchange(&own, had);
    }
}
