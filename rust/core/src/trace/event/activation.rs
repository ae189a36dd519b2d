//! A running call, as its host shows it.
#![forbid(unsafe_code)]

use crate::{
    state::{
        session::{Capture, Session},
        thread::Thread,
    },
    trace::matching::Subject,
};
use inviso_term::etf::{Encoder, Full};

/// A running call, as its host shows it. Each method runs only when it is needed.
pub trait Activation: Subject {
    /// Distinguishes this call from all others that have not ended; the same at entry, suspension, resumption and end.
    fn address(&self) -> usize;
    /// Whether the call can be suspended and resumed.
    fn is_generator(&self) -> bool;
    /// Makes `thread.current()` the process that runs now.
    fn identify(&self, thread: &mut Thread);
    /// Bytes that this thread has allocated so far.
    fn allocated(&self) -> u64;
    /// Whether the call belongs to a coroutine: while it is suspended, it waits.
    fn is_coroutine(&self) -> bool {
        false
    }
    /// Whether the caller's code belongs to another module.
    fn is_global(&self) -> bool;
    /// Writes the arguments as a list.
    ///
    /// # Errors
    /// [`Full`] if they don't fit; the bytes that were written are ignored.
    fn arguments(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full>;
    /// Writes the arguments for a session that does not take [`Takes::Values`](crate::state::session::Takes::Values). Outside the
    /// section: the program's code may run.
    fn arguments_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16);
    /// Writes the returned value, or the class and value of the exception that leaves the call. At its end only.
    ///
    /// # Errors
    /// [`Full`].
    fn result(&self, out: &mut Encoder<'_>, _capture: &Capture) -> Result<(), Full> {
        out.cut("result")
    }
    /// As [`Activation::arguments_late`], for the returned value.
    fn result_late(&self, _out: &mut Vec<u8>, _session: &Session, _scheduler: u16) {}
    /// Whether an exception of this class, or of a class derived from it, leaves the call. At its end only.
    fn is_left_by(&self, _class: usize) -> bool {
        false
    }
    /// Whether the call was suspended and is being closed, and no exception of its own leaves it.
    fn is_closing(&self) -> bool {
        false
    }
    /// Writes the name `(module, function, arity)` of this call's own function; `false` if it has none.
    fn name(&self, out: &mut Encoder<'_>) -> bool;
    /// The caller's address and function; zeros if there is no caller.
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
