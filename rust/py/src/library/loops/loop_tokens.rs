//! Tokens of callbacks that an event loop runs besides tasks. A callback runs in the process of the loop's thread, with
//! the token of the process that scheduled it. The thread gets its own token back afterwards.

use crate::{
    instrument::{callback_tokens::end, modules, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        thread::ThreadState,
    },
};
use inviso_cpython::frames::frame::Frame;

/// The instrument of ends of callbacks, and of the tasks that `asyncio.wait_for` makes.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.tokens,
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        let handlers = [
            &RAN,
            #[cfg(not(Py_3_12))]
            &crate::library::loops::wait_for::WAITED,
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
    Module::new("asyncio.tasks", crate::library::loops::wait_for::adopt),
];

fn on_ran(state: &mut ThreadState, frame: Frame, _how: Ended) {
    end(state, frame.address());
}
