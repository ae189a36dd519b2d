//! The trace point of a program, or a test's substitute for one.
#![forbid(unsafe_code)]

use crate::view::View;
use inviso_term::term::Term;

/// The host refuses an action. The value of the action becomes `'EXIT'`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// The trace point that a program runs at. A program calls a method only when it reaches the function.
///
/// Computed terms (a process to trace, a flag) are passed as terms. The host checks them.
pub trait Host<'a> {
    /// The values of the arguments.
    type View: View<'a>;

    /// The number of arguments.
    fn count(&self) -> usize;
    /// The argument at `n`, below `count`.
    fn argument(&self, n: usize) -> Option<Self::View>;
    /// The parameter with this name.
    fn named(&self, name: &str) -> Option<Self::View>;
    /// The running process.
    fn me(&self) -> Term;
    /// The node's name.
    fn node(&self) -> Term;
    /// The caller: `{M, F, A}` or `undefined`.
    fn caller(&mut self) -> Term;
    /// The caller with its line: `{M, F, A, {File, Line}}` or `undefined`.
    fn caller_line(&mut self) -> Term;
    /// The running calls, innermost first, at most `depth` of them if it is given: `[{M, F, A, {File, Line}}]`.
    fn current_stacktrace(&mut self, depth: Option<usize>) -> Term;
    /// Shows a term to the operator of the node.
    fn display(&mut self, term: &Term);
    /// A description of the running process: a binary.
    fn process_dump(&mut self) -> Term;
    /// Requests that the session's recorded events are written soon, by another thread.
    fn dump(&mut self) {}
    /// The trace control word.
    fn control_word(&mut self) -> u64;
    /// Sets the trace control word and answers the former one.
    fn set_control_word(&mut self, word: u64) -> u64;
    /// Sets the running process's silence.
    fn silent(&mut self, on: bool);
    /// `enable_trace` or `disable_trace` for the running process (`None`) or another one.
    ///
    /// # Errors
    /// [`Refused`]: unknown flag or process.
    fn switch(&mut self, process: Option<&Term>, flag: &Term, on: bool) -> Result<(), Refused>;
    /// `trace(Disable, Enable)` for the running process or another one. Answers whether a flag changed.
    ///
    /// # Errors
    /// As [`Host::switch`].
    fn trace(&mut self, process: Option<&Term>, disable: &Term, enable: &Term) -> Result<bool, Refused>;
    /// Whether the running process has a sequential trace token.
    fn is_seq_trace(&mut self) -> bool;
    /// The sequential trace token, or `[]`.
    fn seq_token(&mut self) -> Term;
    /// Sets a component of the token. Answers the value of the action.
    ///
    /// # Errors
    /// [`Refused`]: unknown component, or a wrong value for it.
    fn set_seq_token(&mut self, component: &Term, value: &Term) -> Result<Term, Refused>;
}
