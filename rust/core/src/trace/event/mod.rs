//! The hot path: what happens at a call, at its end, at a suspension. Each file is readable top to bottom.
//!
//! A host calls one of the `on_*` functions for each interpreter event and passes an [`Activation`], through which the
//! rest is looked at only when it is needed. Nothing here allocates, locks, formats or panics but in the functions
//! marked cold, which run once for a thread, process or suspended call.
#![forbid(unsafe_code)]

mod call;
mod caught;
mod exit;
mod granted;
mod message;
mod resume;
mod switch;

pub use call::on_call;
pub use caught::on_handled;
pub use exit::on_exit;
pub(crate) use granted::on_granted;
pub(crate) use message::with_values;
pub use resume::{on_resume, on_throw};
pub use switch::{on_switch, Suspended};

use crate::{
    state::{
        session::{Capture, Session},
        thread::Thread,
    },
    trace::matching::Subject,
};
use inviso_term::etf::{Encoder, Full};

/// A call that is running, as its host sees it. Each method is asked only when it is needed.
pub trait Activation: Subject {
    /// What tells this call from every other that has not ended; the same at entry, suspension, resume and end.
    fn address(&self) -> usize;
    /// Whether the call can be suspended and resumed.
    fn is_generator(&self) -> bool;
    /// Makes sure that `thread.current()` is the process that runs now.
    fn identify(&self, thread: &mut Thread);
    /// Bytes that this thread has allocated so far.
    fn allocated(&self) -> u64;
    /// Whether the call is one of a coroutine: while it is suspended, it waits.
    fn is_coroutine(&self) -> bool {
        false
    }
    /// Whether the caller's code belongs to another module.
    fn is_global(&self) -> bool;
    /// Writes the arguments as a list.
    ///
    /// # Errors
    /// [`Full`] when they don't fit; what was written is then ignored.
    fn arguments(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full>;
    /// Writes the arguments for a session that does not take [`Takes::Values`](crate::state::session::Takes::Values). Outside the section: any code may run.
    fn arguments_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16);
    /// Writes the value that the call returns, or the class and value of the exception that leaves it. At its end only.
    ///
    /// # Errors
    /// [`Full`].
    fn result(&self, out: &mut Encoder<'_>, _capture: &Capture) -> Result<(), Full> {
        out.cut("result")
    }
    /// As [`Activation::arguments_late`], for the value that the call returns.
    fn result_late(&self, _out: &mut Vec<u8>, _session: &Session, _scheduler: u16) {}
    /// Whether an exception of this class leaves the call, or of one derived from it. At its end only.
    fn is_left_by(&self, _class: usize) -> bool {
        false
    }
    /// Whether the call is a suspended one that is being closed, and not left by an exception of its own.
    fn is_closing(&self) -> bool {
        false
    }
    /// Writes the name `(module, function, arity)` of this call's own function; `false` if it has none.
    fn name(&self, out: &mut Encoder<'_>) -> bool;
    /// The caller's address and its function; zeroes if there is no caller.
    fn caller_function(&self) -> (usize, usize);
    /// Writes the caller's name and answers its address; 0 if there is no caller.
    fn caller(&self, out: &mut Encoder<'_>) -> usize;
}

/// How a call ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It returns.
    Return,
    /// It is suspended.
    Yield,
    /// An exception leaves it.
    Unwind,
}

/// Frames with the address of a call that begins belong to calls whose end was not seen.
#[cold]
#[inline(never)]
fn drop_stale(thread: &mut Thread, at: usize) {
    while thread.stack.last().is_some_and(|f| f.at == at) {
        thread.stack.pop();
    }
}

/// Drops what lies above the frames of a call that ends; `false` if it has none.
#[cold]
#[inline(never)]
fn uncover(thread: &mut Thread, at: usize) -> bool {
    match thread.stack.iter().rposition(|f| f.at == at) {
        Some(top) => {
            thread.stack.truncate(top + 1);
            true
        }
        None => false,
    }
}
