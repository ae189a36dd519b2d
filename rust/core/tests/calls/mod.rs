//! A call without arguments, for tests of counters and kinds.

use inviso_core::host::{
    control::Arm,
    event::Activation,
    matching::Subject,
    session::{Capture, Session},
    thread::Thread,
};
use inviso_match::terms::TermView;
use inviso_term::etf::{Encoder, Full};

/// A call of a function without arguments.
pub struct Call {
    /// The address of its frame.
    pub at: usize,
    /// Bytes that the thread has allocated so far.
    pub allocated: u64,
    /// Whether the caller is in another module.
    pub is_global: bool,
}

impl Subject for Call {
    type View<'v> = TermView<'v>;

    fn count(&self) -> usize {
        0
    }
    fn argument(&self, _: usize) -> Option<TermView<'_>> {
        None
    }
    fn write(&self, view: TermView<'_>, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.term(view.0)
    }
}

impl Activation for Call {
    fn address(&self) -> usize {
        self.at
    }
    fn is_generator(&self) -> bool {
        false
    }
    fn identify(&self, thread: &mut Thread) {
        thread.switch_to_own();
    }
    fn allocated(&self) -> u64 {
        self.allocated
    }
    fn is_global(&self) -> bool {
        self.is_global
    }
    fn arguments(&self, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.nil()
    }
    fn arguments_late(&self, _: &mut Vec<u8>, _: &Session, _: u16) {}
    fn name(&self, _: &mut Encoder<'_>) -> bool {
        false
    }
    fn caller_function(&self) -> (usize, usize) {
        (0, 0)
    }
    fn caller(&self, _: &mut Encoder<'_>) -> usize {
        0
    }
}

/// Arms no code.
pub struct Nobody;

impl Arm for Nobody {
    fn arm(&self, _: &[(usize, u8)], _: u8) {}
}
