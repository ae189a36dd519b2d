//! What the rooms below get from the rooms above them, see [`Above`].

use super::{instruments, tokens_idle};
use crate::{
    state::above::Above,
    thread::{greenlets, state},
};

/// The functions and tables of this package.
pub fn above() -> Above {
    Above {
        handlers: instruments::HANDLERS,
        modules: instruments::MODULES,
        thread_begins: state::first,
        thread_ends: state::end,
        greenlet_changed: greenlets::look_again,
        tokens_idle: tokens_idle::all_gone,
    }
}
