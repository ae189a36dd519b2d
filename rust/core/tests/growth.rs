//! A hundred thousand sessions begin and end and leak nothing. The test is alone in its process, because it counts all memory.

use inviso_core::{drain, kinds, Class, Flags, Op, Options, Program, Who};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicIsize, Ordering::Relaxed},
};

struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: the caller promises a layout of at least one byte.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// As [`GlobalAlloc::dealloc`].
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: the caller promises that `alloc` returned this block for this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_hundred_thousand_sessions_leave_nothing_behind() {
    let program = Program::new();
    let points: Vec<_> = (0..4).map(|n| program.point("growth", &format!("f{n}"), 0)).collect();
    let mut grown_from = 0;
    for round in 0..100_000u64 {
        let session = program.session("one of many", Options { ring_bytes: 0, ..Options::default() }).unwrap();
        assert_eq!((session.id, session.index), (round + 1, 0), "ids are never used twice, indices are");
        program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
        let point = &points[round as usize % points.len()];
        program.function(&session, &[point], kinds::COUNT | kinds::TIME | kinds::LOCAL, Op::On).unwrap();
        program.node().on_load(&session, kinds::COUNT, Op::On).unwrap();
        drop(point.enter(|_| Ok(())));
        assert_eq!(program.count(&session, point), Some(1));
        assert_eq!(drain(&session, 9, |_| ()), Ok(1));
        assert!(program.destroy(&session));
        if round == 2_000 {
            grown_from = LIVE.load(Relaxed);
        }
    }
    let grown = LIVE.load(Relaxed) - grown_from;
    assert!(grown < 100_000, "98,000 sessions left {grown} bytes");
}
