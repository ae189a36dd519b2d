//! Where a program runs: the trace point, or a test's stand-in for one.
#![forbid(unsafe_code)]

use crate::view::View;
use inviso_term::term::Term;

/// A call of an action that the host refuses: the value of the action becomes `'EXIT'`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// The trace point that a program runs at. A method is asked only when the program comes to it.
///
/// Terms that the program computed (a process to trace, a flag) are handed over as terms; the host knows which it takes.
pub trait Host<'a> {
    /// The values that are looked at.
    type View: View<'a>;

    /// Number of arguments.
    fn count(&self) -> usize;
    /// The argument at `n`, below `count`.
    fn argument(&self, n: usize) -> Option<Self::View>;
    /// The parameter called `name`.
    fn named(&self, name: &str) -> Option<Self::View>;
    /// The running process.
    fn me(&self) -> Term;
    /// The node's name.
    fn node(&self) -> Term;
    /// The caller: `{M, F, A}` or `undefined`.
    fn caller(&mut self) -> Term;
    /// The caller with its line: `{M, F, A, {File, Line}}` or `undefined`.
    fn caller_line(&mut self) -> Term;
    /// The running calls, innermost first, at most `depth` of them if that is given: `[{M, F, A, {File, Line}}]`.
    fn current_stacktrace(&mut self, depth: Option<usize>) -> Term;
    /// Shows a term to whoever runs the node.
    fn display(&mut self, term: &Term);
    /// A description of the running process: a binary.
    fn process_dump(&mut self) -> Term;
    /// Asks for what the session has recorded to be written somewhere, by somebody else and soon.
    fn dump(&mut self) {}
    /// The trace control word.
    fn control_word(&mut self) -> u64;
    /// Sets the trace control word, and gives the one before.
    fn set_control_word(&mut self, word: u64) -> u64;
    /// Switches the running process's silence.
    fn silent(&mut self, on: bool);
    /// `enable_trace` or `disable_trace` for the running process (`None`) or another.
    ///
    /// # Errors
    /// [`Refused`]: no such flag, or no such process.
    fn switch(&mut self, process: Option<&Term>, flag: &Term, on: bool) -> Result<(), Refused>;
    /// `trace(Disable, Enable)` for the running process or another: whether anything changed.
    ///
    /// # Errors
    /// As [`Host::switch`].
    fn trace(&mut self, process: Option<&Term>, disable: &Term, enable: &Term) -> Result<bool, Refused>;
    /// Whether the running process has a sequential trace token.
    fn is_seq_trace(&mut self) -> bool;
    /// The sequential trace token, or `[]`.
    fn seq_token(&mut self) -> Term;
    /// Sets a component of the token; the value that the action gives.
    ///
    /// # Errors
    /// [`Refused`]: no such component, or not a value of it.
    fn set_seq_token(&mut self, component: &Term, value: &Term) -> Result<Term, Refused>;
}
