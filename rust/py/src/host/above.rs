//! What the rooms below get from the rooms above them, see [`Above`].

use super::{instruments, tokens_idle};
use crate::{
    directory::first,
    entry::callbacks,
    library::{
        futures::asyncio_futures,
        greenlets,
        ports::{self, transport},
    },
    processes::relations,
    state::above::Above,
};

/// The functions and tables of this package.
pub fn above() -> Above {
    Above {
        handlers: instruments::HANDLERS,
        modules: instruments::MODULES,
        thread_begins: first::first,
        thread_ends: relations::end_of_thread,
        greenlet_changed: greenlets::look_again,
        port_gone: ports::collected,
        task_gone: relations::task_gone,
        woken: asyncio_futures::woken,
        served: transport::served,
        settle: relations::settle,
        #[cfg(Py_3_12)]
        callbacks: callbacks::CALLBACKS,
        #[cfg(not(Py_3_12))]
        evaluate: callbacks::evaluate(),
        #[cfg(not(Py_3_12))]
        profile: callbacks::profile,
        tokens_idle: tokens_idle::all_gone,
    }
}
