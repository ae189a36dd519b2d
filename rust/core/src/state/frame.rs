//! The shadow frame of an open traced call, and the timers that charge cells.
#![forbid(unsafe_code)]

use crate::count::cells::CellRef;

/// The actions of a shadow frame at its call's end.
pub mod exit_actions {
    /// Charge call_time.
    pub const TIME: u16 = 1;
    /// Charge call_memory.
    pub const MEMORY: u16 = 2;
    /// Record call_latency.
    pub const LATENCY: u16 = 4;
    /// Emit return_to: the call's message was sent.
    pub const RETURN_TO: u16 = 8;
    /// Emit return_from, by the match spec.
    pub const RETURN_FROM: u16 = 16;
    /// Emit exception_from, by the match spec.
    pub const EXCEPTION_FROM: u16 = 32;
    /// Emit return_from of a meta trace.
    pub const META_RETURN: u16 = 64;
    /// Emit exception_from of a meta trace.
    pub const META_EXCEPTION: u16 = 128;
    /// All messages about the call's end.
    pub const RESULTS: u16 = RETURN_FROM | EXCEPTION_FROM | META_RETURN | META_EXCEPTION;
    /// All charges; they pause while the call is suspended.
    pub const MEASURED: u16 = TIME | MEMORY;
}

/// The exit actions that a match spec requests, by whether it wants return_from and exception_from.
#[inline(always)]
pub(crate) fn results(returns: bool, raises: bool) -> u16 {
    let returns = if returns { exit_actions::RETURN_FROM } else { 0 };
    returns | if raises { exit_actions::EXCEPTION_FROM } else { 0 }
}

/// An open traced call, for one session and one of: time, memory, the other actions.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The host's identity of the activation.
    pub at: usize,
    /// The cell that was charged before, see [`Timer`].
    pub before: Option<CellRef>,
    /// Ticks at entry.
    pub start: u64,
    pub id: u32,
    pub index: u16,
    pub exit_actions: u16,
}

impl Frame {
    #[inline(always)]
    pub fn new(at: usize, id: u32, index: u16, exit_actions: u16, start: u64) -> Frame {
        Frame { at, before: None, start, id, index, exit_actions }
    }
}

/// The cells that one session charges on this thread.
#[derive(Clone, Copy, Default)]
pub(crate) struct Timer {
    pub id: u32,
    time: Charge,
    memory: Charge,
}

/// The charged cell, and the reading of the clock or the allocator at the latest charge.
#[derive(Clone, Copy, Default)]
pub(crate) struct Charge {
    cell: Option<CellRef>,
    mark: u64,
}

impl Charge {
    /// The key of the charged cell; 0 without one.
    #[inline(always)]
    pub fn key(&self) -> u32 {
        self.cell.map_or(0, |cell| cell.get().key())
    }

    /// Charges the amount since the mark, and continues with another cell. Answers the former cell.
    #[inline(always)]
    pub fn switch(&mut self, to: Option<CellRef>, now: u64) -> Option<CellRef> {
        let before = self.cell;
        if let Some(cell) = before {
            cell.get().charge(now.wrapping_sub(self.mark));
        }
        *self = Charge { cell: to, mark: now };
        before
    }
}

impl Timer {
    /// A timer without cells, for the session with this id.
    pub fn new(id: u32) -> Timer {
        Timer { id, ..Timer::default() }
    }

    /// Charges the amounts until now. [`Timer::resume`] continues.
    pub fn pause(&mut self, now: u64, allocated: u64) {
        self.time.switch(self.time.cell, now);
        self.memory.switch(self.memory.cell, allocated);
    }

    /// Continues with the cells from before the pause.
    pub fn resume(&mut self, now: u64, allocated: u64) {
        self.time.mark = now;
        self.memory.mark = allocated;
    }

    /// The charge of time or of memory: `exit_actions` is [`exit_actions::TIME`] or [`exit_actions::MEMORY`].
    #[inline(always)]
    pub fn of(&mut self, exit_actions: u16) -> &mut Charge {
        if exit_actions & exit_actions::TIME != 0 {
            &mut self.time
        } else {
            &mut self.memory
        }
    }
}
