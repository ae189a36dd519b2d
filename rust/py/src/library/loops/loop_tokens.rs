//! Tokens of callbacks that an event loop runs besides tasks. A callback runs in the process of the loop's thread, with
//! the token of the process that scheduled it. The thread gets its own token back afterwards.

use crate::{
    host::{instruments::Instrument, Host},
    instrument::{
        modules::{self, Module},
        tokens,
        watch::{self, Ended, Handler},
    },
    thread::here::Here,
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
pub enum Way {
    /// By a message, which may be traced.
    Message(Carried),
    /// Without a message: it was scheduled in the loop's own thread.
    Unseen(Carried),
    /// Not at all: the callback is the library's own.
    None,
}

/// A running callback.
pub struct Lent {
    /// Its key: see [`begin`].
    key: usize,
    /// The token that the thread had before.
    had: Carried,
    /// Whether the program scheduled it.
    by_program: bool,
}

/// Set in the key of a callback whose end is never missed. No frame has such a key.
pub const SURE: usize = 1;

/// Whether a callback whose beginning was seen runs on this thread. Ends the entry of a callback whose frame ended
/// unseen, for example because a reset removed the instruments.
///
/// # Safety
/// Attached.
pub unsafe fn is_inside(here: &mut Here) -> bool {
    let runs = |key: usize| {
        // SAFETY: the caller's promise.
        let innermost = unsafe { Frame::current_python(inviso_cpython::interpreter::tstate()) };
        // SAFETY: the caller of a frame that runs also runs.
        let mut frames = std::iter::successors(innermost, |frame| unsafe { frame.caller() });
        key & SURE != 0 || frames.any(|frame| frame.address() == key)
    };
    if let Some(ended) = here.lent.iter().map(|lent| lent.key).find(|key| !runs(*key)) {
        end(here, ended);
    }
    !here.lent.is_empty()
}

/// A callback is about to run. No other callback on this thread has the same `key`; for example, it is the address of
/// the frame of `Handle._run`. `message` makes the message by which it came.
///
/// # Safety
/// Attached.
pub unsafe fn begin(here: &mut Here, key: usize, way: Way, message: impl FnOnce(&mut Here) -> Held) {
    if !here.host.node.seq_in_use() {
        return;
    }
    end(here, key); // a frame that ended unseen has left its own
    let own = here.thread.own().clone();
    let had = here.host.node.seq_copy(&own);
    here.lent.push(Lent { key, had, by_program: !matches!(way, Way::None) });
    match way {
        Way::None => {}
        Way::Unseen(carried) => here.host.node.seq_lend(&own, carried),
        Way::Message(carried) => {
            let message = tokens::message_for(here, &carried, message);
            // SAFETY: held; the thread is attached.
            let write = unsafe { tokens::writing(message.as_ptr()) };
            here.host.node.seq_receive(&mut here.thread, About::Other(&own), carried, write);
        }
    }
}

/// Whether the running process is an event loop's thread that passes on data from outside, in a callback of a socket or
/// pipe. Ports carry no token, so a result that such a callback sets neither sets nor clears one.
pub fn relays(here: &Here) -> bool {
    let own = here.thread.current().kind == Kind::Thread;
    // SAFETY: called in events only, which are attached and have no exception set.
    own && !here.lent.last().is_some_and(|lent| lent.by_program) && unsafe { tasks::runs_here(std::ptr::null_mut()) }
}

fn on_ran(here: &mut Here, frame: Frame, _how: Ended) {
    end(here, frame.address());
}

/// The callback of this key has run.
pub fn end(here: &mut Here, key: usize) {
    let Some(at) = here.lent.iter().rposition(|lent| lent.key == key) else { return };
    if let Some(Lent { had, .. }) = here.lent.drain(at..).next() {
        let own = here.thread.own().clone();
        here.host.node.seq_exchange(&own, had);
    }
}
