//! Where a message that has arrived comes from.

/// The sender of a message that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// A process, queue or port of this node.
    Process(u64),
    /// Not known.
    Unknown,
    /// The clock, by a time-out.
    Clock,
    /// The node itself, by a system event.
    System,
    /// No sender.
    Nobody,
}

/// The origin of a message that has arrived: its sender, and the number that [`messages::on_send`] returned, or 0 if it
/// is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The sender.
    pub sender: Sender,
    /// Its number.
    pub number: u64,
    /// The creation of the operating system process that gave the number; 0 if that is this one.
    pub creation: u32,
}

impl Origin {
    /// Of a message with a number of this operating system process.
    #[inline(always)]
    pub fn new(sender: Sender, number: u64) -> Origin {
        Origin { sender, number, creation: 0 }
    }
}

impl From<Sender> for Origin {
    fn from(sender: Sender) -> Origin {
        Origin::new(sender, 0)
    }
}
