//! Trace flags of a process in one session, as one word.
//!
//! Rule: trace.md, `process/4`. Each name is the one that users write.
#![forbid(unsafe_code)]

use crate::record::identity::Class;
use std::fmt;

/// A set of trace flags.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:expr, $text:expr;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)*
            /// Every flag with the name that users write, in the order of their bits.
            pub const NAMES: &'static [(&'static str, Flags)] = &[$(($text, Flags::$name)),*];
        }
    };
}

flags! {
    /// Messages about calls of traced functions.
    CALL = 0, "call";
    /// The function in which execution continues after a locally traced function.
    RETURN_TO = 1, "return_to";
    /// The number of arguments instead of the arguments.
    ARITY = 2, "arity";
    /// Match specs run, but no message is sent.
    SILENT = 3, "silent";
    /// Events of processes: spawn, spawned, exit, register, link ….
    PROCS = 4, "procs";
    /// Sent messages.
    SEND = 5, "send";
    /// Received messages.
    RECEIVE = 6, "receive";
    /// Scheduling.
    RUNNING = 7, "running";
    /// Scheduling, also inside ports.
    RUNNING_PROCS = 8, "running_procs";
    /// Scheduling of ports.
    RUNNING_PORTS = 9, "running_ports";
    /// Scheduling of processes that are ending.
    EXITING = 10, "exiting";
    /// Collections.
    GARBAGE_COLLECTION = 11, "garbage_collection";
    /// Port events.
    PORTS = 12, "ports";
    /// Processes started by this one inherit its flags.
    SET_ON_SPAWN = 13, "set_on_spawn";
    /// The first process started by this one inherits its flags.
    SET_ON_FIRST_SPAWN = 14, "set_on_first_spawn";
    /// Processes that this one links to inherit its flags.
    SET_ON_LINK = 15, "set_on_link";
    /// The first process that this one links to inherits its flags.
    SET_ON_FIRST_LINK = 16, "set_on_first_link";
    /// `(megasecs, secs, microsecs)`.
    TIMESTAMP = 17, "timestamp";
    /// Nanoseconds.
    MONOTONIC_TIMESTAMP = 18, "monotonic_timestamp";
    /// `(nanoseconds, unique)`.
    STRICT_MONOTONIC_TIMESTAMP = 19, "strict_monotonic_timestamp";
    /// The scheduler's number, before the time stamp.
    SCHEDULER_ID = 20, "scheduler_id";
    /// Timestamps in CPU time of the thread. It applies to the whole node and is set with all processes only.
    CPU_TIMESTAMP = 21, "cpu_timestamp";
}

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// The flag `all`: every flag except `cpu_timestamp`.
    pub const ALL: Flags = Flags((1 << 21) - 1);
    /// The flags for timestamps.
    pub const STAMPS: Flags =
        Flags(Self::TIMESTAMP.0 | Self::MONOTONIC_TIMESTAMP.0 | Self::STRICT_MONOTONIC_TIMESTAMP.0);

    /// The flags that only ports have.
    pub const PORTS_ONLY: Flags = Flags(Self::PORTS.0 | Self::RUNNING_PORTS.0);
    /// The flags that ports have.
    pub const OF_PORTS: Flags = Flags(
        Self::SEND.0 | Self::RECEIVE.0 | Self::PORTS_ONLY.0 | Self::SILENT.0 | Self::STAMPS.0 | Self::SCHEDULER_ID.0,
    );

    /// The flag with a name, or `None`.
    ///
    /// ```
    /// use inviso_core::Flags;
    /// assert_eq!(Flags::named("call"), Some(Flags::CALL));
    /// assert_eq!(Flags::named("calls"), None);
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Flags> {
        if name == "all" {
            return Some(Flags::ALL);
        }
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, f)| *f)
    }

    /// Whether any of `other` is in the set.
    #[inline(always)]
    #[must_use]
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The flags of the set that new processes, or new ports, can have.
    #[must_use]
    pub fn of(self, class: Class) -> Flags {
        match class {
            Class::Process => Flags(self.0 & !Self::PORTS_ONLY.0),
            Class::Port => Flags(self.0 & Self::OF_PORTS.0),
        }
    }

    /// The names of the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(_, f)| self.has(*f)).map(|(n, _)| *n)
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_all_leaves_out_cpu() {
        for (name, flag) in Flags::NAMES {
            assert_eq!(Flags::named(name), Some(*flag));
            assert_eq!(Flags::ALL.has(*flag), *flag != Flags::CPU_TIMESTAMP);
        }
        assert_eq!(Flags::ALL.of(Class::Process).names().count(), 19);
        assert_eq!(
            Flags::ALL.of(Class::Port).names().collect::<Vec<_>>(),
            [
                "silent",
                "send",
                "receive",
                "running_ports",
                "ports",
                "timestamp",
                "monotonic_timestamp",
                "strict_monotonic_timestamp",
                "scheduler_id",
            ]
        );
        assert_eq!((Flags::CALL | Flags::ARITY).names().collect::<Vec<_>>(), ["call", "arity"]);
    }
}
