//! Tokens of what an event loop runs besides tasks: a callback runs in the process of the loop's thread, with the token of whoever
//! scheduled it, and that thread has its own again afterwards.

use super::{
    here::Here,
    instruments::Instrument,
    modules::{self, Module},
    tokens,
    watch::{self, Ended, Handler},
    Host,
};
use crate::ffi::{frame::Frame, held::Held};
use inviso_core::{messages::About, seq::Carried};

/// Ends of callbacks.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.tokens,
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        watch::remove(py, host, &[&RAN])?;
        modules::leave(py, host, &MODULES)
    },
    |_| modules::forget(&MODULES),
);

/// `Handle._run`: the callback has run.
pub static RAN: Handler = Handler { end: Some(on_ran), ..Handler::NONE };

/// Where it is defined.
pub static MODULES: [Module; 1] = [Module::new("asyncio.events", |py, host: &'static Host, module| {
    modules::watch_all(py, host, module, &[("Handle._run", &["self"], &RAN)])
})];

/// How a callback comes by its token.
pub enum Way {
    /// By a message, of which somebody may be told.
    Message(Carried),
    /// Unseen: it was scheduled in the loop's own thread.
    Unseen(Carried),
    /// Not at all: the library's own.
    None,
}

/// A callback is about to run, in this frame of `Handle._run`. `message` makes the message that it came by.
///
/// # Safety
/// Attached, in an event of that frame.
pub unsafe fn begin(here: &mut Here, frame: Frame, way: Way, message: impl FnOnce(&mut Here) -> Held) {
    if !here.host.node.seq_in_use() {
        return;
    }
    let own = here.thread.own().clone();
    let had = here.host.node.seq_copy(&own);
    // a frame that ended unseen has left its own
    here.lent.retain(|(known, _)| *known != frame.address());
    here.lent.push((frame.address(), had));
    match way {
        Way::None => {}
        Way::Unseen(carried) => here.host.node.seq_lend(&own, carried),
        Way::Message(carried) => {
            let message = tokens::message_for(here, &carried, message);
            // SAFETY: held; attached.
            let write = unsafe { tokens::writing(message.as_ptr()) };
            here.host.node.seq_receive(&mut here.thread, About::Other(&own), carried, write);
        }
    }
}

fn on_ran(here: &mut Here, frame: Frame, _how: Ended) {
    let Some(at) = here.lent.iter().rposition(|(known, _)| *known == frame.address()) else { return };
    if let Some((_, had)) = here.lent.drain(at..).next() {
        let own = here.thread.own().clone();
        here.host.node.seq_restore(&own, had);
    }
}
