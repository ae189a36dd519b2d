//! What a thread keeps of one traced call that has not ended, and what it is charging.
#![forbid(unsafe_code)]

use crate::count::cells::CellRef;

/// What a shadow frame wants at its call's end.
pub mod exit_actions {
    /// call_time's charge.
    pub const TIME: u16 = 1;
    /// call_memory's charge.
    pub const MEMORY: u16 = 2;
    /// call_latency's record.
    pub const LATENCY: u16 = 4;
    /// return_to: the call's message was sent.
    pub const RETURN_TO: u16 = 8;
    /// return_from: its match spec asked for it.
    pub const RETURN_FROM: u16 = 16;
    /// exception_from: its match spec asked for it.
    pub const EXCEPTION_FROM: u16 = 32;
    /// return_from of a meta trace.
    pub const META_RETURN: u16 = 64;
    /// exception_from of a meta trace.
    pub const META_EXCEPTION: u16 = 128;
    /// Messages about how the call ends.
    pub const RESULTS: u16 = RETURN_FROM | EXCEPTION_FROM | META_RETURN | META_EXCEPTION;
    /// What is charged while the call runs.
    pub const MEASURED: u16 = TIME | MEMORY;
    /// What concerns the whole call, suspended or not.
    pub const KEPT: u16 = LATENCY | RETURN_TO | RESULTS;
}

/// One traced call that has not ended, for one session and one of: time, memory, the rest.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The activation, as the host identifies it.
    pub at: usize,
    /// The cell that was current before, see [`Timer`].
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

/// What one session is charging on this thread.
#[derive(Clone, Copy, Default)]
pub(crate) struct Timer {
    pub id: u32,
    time: Charge,
    memory: Charge,
}

/// A cell that what runs is charged to, and the clock's or the allocator's reading when that began.
#[derive(Clone, Copy, Default)]
pub(crate) struct Charge {
    cell: Option<CellRef>,
    mark: u64,
}

impl Charge {
    /// The key of the cell that is charged, 0 without one.
    #[inline(always)]
    pub fn key(&self) -> u32 {
        self.cell.map_or(0, |cell| cell.get().key())
    }

    /// Charges what ran since the mark, and goes on with another cell; answers the one before.
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
    /// Nothing is charged yet in the session with this id.
    pub fn new(id: u32) -> Timer {
        Timer { id, ..Timer::default() }
    }

    /// Charges what ran until now; what is charged goes on with [`Timer::resume`].
    pub fn pause(&mut self, now: u64, allocated: u64) {
        self.time.switch(self.time.cell, now);
        self.memory.switch(self.memory.cell, allocated);
    }

    /// What runs from now on is charged to what was charged before the pause.
    pub fn resume(&mut self, now: u64, allocated: u64) {
        self.time.mark = now;
        self.memory.mark = allocated;
    }

    /// What is charged: `exit_actions` is [`exit_actions::TIME`] or [`exit_actions::MEMORY`].
    #[inline(always)]
    pub fn of(&mut self, exit_actions: u16) -> &mut Charge {
        if exit_actions & exit_actions::TIME != 0 {
            &mut self.time
        } else {
            &mut self.memory
        }
    }
}
