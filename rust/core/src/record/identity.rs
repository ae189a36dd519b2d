//! The information in the number of a process or port.
#![forbid(unsafe_code)]

/// The kind of a process: the low two bits of its pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An operating system thread.
    Thread = 0,
    /// A task of an event loop.
    Task = 1,
    /// A queue: messages are sent to it before their receiver is known.
    Queue = 2,
    /// A connection to the outside.
    Port = 3,
}

/// Processes (`process/4`) or ports (`port/4`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Threads and tasks.
    Process,
    /// Ports.
    Port,
}

impl Class {
    /// Whether this kind belongs to the class.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        match self {
            Class::Process => kind.is_process(),
            Class::Port => kind == Kind::Port,
        }
    }
}

impl Kind {
    /// The kind of the process with this pid.
    #[must_use]
    pub fn of(pid: u64) -> Kind {
        match pid & 3 {
            0 => Kind::Thread,
            1 => Kind::Task,
            2 => Kind::Queue,
            _ => Kind::Port,
        }
    }

    /// Whether it is a thread or a task.
    #[must_use]
    pub fn is_process(self) -> bool {
        matches!(self, Kind::Thread | Kind::Task)
    }
}
