//! What the number of a process or port says of it.
#![forbid(unsafe_code)]

/// What a process is; the low two bits of its pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An operating system thread.
    Thread = 0,
    /// A task of an event loop.
    Task = 1,
    /// A queue, which messages can be sent to while it isn't known who will take them.
    Queue = 2,
    /// A link to the outside world.
    Port = 3,
}

/// Processes or ports: what `process/4` and what `port/4` is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Threads and tasks.
    Process,
    /// Ports.
    Port,
}

impl Class {
    /// Whether something of this kind belongs to it.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        match self {
            Class::Process => kind.is_process(),
            Class::Port => kind == Kind::Port,
        }
    }
}

impl Kind {
    /// What the process with this pid is or was.
    #[must_use]
    pub fn of(pid: u64) -> Kind {
        match pid & 3 {
            0 => Kind::Thread,
            1 => Kind::Task,
            2 => Kind::Queue,
            _ => Kind::Port,
        }
    }

    /// Whether it is one that runs.
    #[must_use]
    pub fn is_process(self) -> bool {
        matches!(self, Kind::Thread | Kind::Task)
    }
}
