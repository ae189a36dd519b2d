//! The process or port that an event is about.
#![forbid(unsafe_code)]

use crate::state::{thread::Thread, tracee::Tracee};

/// The process or port that an event is about.
#[derive(Clone, Copy)]
pub enum About<'a> {
    /// The process that runs now.
    Current,
    /// Another one, or a port.
    Other(&'a Tracee),
}

impl<'a> About<'a> {
    /// Its tracee.
    #[inline(always)]
    pub(crate) fn tracee<'t>(self, thread: &'t Thread) -> &'t Tracee
    where
        'a: 't,
    {
        match self {
            About::Current => &thread.current,
            About::Other(tracee) => tracee,
        }
    }
}
