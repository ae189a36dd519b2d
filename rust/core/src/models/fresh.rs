//! The allocator of the models: an execution gets no memory again that it has freed.
//!
//! crossbeam-epoch compares addresses, and loom lets a thread read an old one. Whether they are equal would depend on the C library,
//! which may use freed memory again or not. The same schedule could then go two ways, and loom would lose its place.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ptr,
};

/// At the beginning of a freed block: the next one, and its own layout.
#[derive(Clone, Copy)]
struct Freed {
    next: *mut Freed,
    layout: Layout,
}

thread_local! {
    /// What this thread has freed in this execution. loom runs all threads of a model in one real thread.
    static FREED: Cell<*mut Freed> = const { Cell::new(ptr::null_mut()) };
}

struct Fresh;

#[global_allocator]
static FRESH: Fresh = Fresh;

/// Room for a [`Freed`] in every block.
fn with_room(layout: Layout) -> Layout {
    let room = Layout::new::<Freed>();
    Layout::from_size_align(layout.size().max(room.size()), layout.align().max(room.align())).unwrap_or(layout)
}

// SAFETY: blocks are the system's, with a layout that both functions compute in the same way. A block is returned once: in `release`,
// which takes it out of the list.
unsafe impl GlobalAlloc for Fresh {
    // SAFETY: as the trait demands, the caller's layout has a size.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout has a size, and the larger one has, too.
        unsafe { System.alloc(with_room(layout)) }
    }

    // SAFETY: as the trait demands, the block is one of `alloc`, of this layout.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let block = at.cast::<Freed>();
        let next = FREED.replace(block);
        // SAFETY: the caller gives the block up, and `alloc` made room in it.
        unsafe { block.write(Freed { next, layout: with_room(layout) }) };
    }
}

/// Gives what this thread has freed back to the system. Called between two executions.
pub fn release() {
    let mut block = FREED.replace(ptr::null_mut());
    while !block.is_null() {
        // SAFETY: `dealloc` wrote it; nobody uses a freed block.
        let Freed { next, layout } = unsafe { block.read() };
        unsafe { System.dealloc(block.cast(), layout) };
        block = next;
    }
}
