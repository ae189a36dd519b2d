//! What is known of the result of a future.

use super::origin::{Origin, Sender};

/// The known state of a future's result.
#[derive(Default, Clone, Copy, Debug)]
pub struct Outcome {
    /// The process that asked for the result, and so receives it; 0 if no process asked.
    pub reply_to: u64,
    /// Whether the result comes from another operating system process, set by an unrelated thread.
    pub comes_from_afar: bool,
    /// Whether the library asked for it for itself: no message.
    pub is_inner: bool,
    /// Whether the result has been set.
    pub is_set: bool,
    /// The process that set it; 0 if that is not known.
    pub by: u64,
    /// The number of the message that asked for the call, and later of the message with its result; or 0.
    pub number: u64,
    /// Whether the result has been received.
    pub is_taken: bool,
    /// The process that waits for it, and how many processes wait.
    pub waiter: u64,
    pub waiters: u32,
}

impl Outcome {
    /// The origin of the result.
    pub fn origin(&self) -> Origin {
        let sender = if self.by == 0 { Sender::Unknown } else { Sender::Process(self.by) };
        Origin::new(sender, self.number)
    }
}
