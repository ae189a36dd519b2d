//! Calls of a tracer module against the end of its session.

use super::explore;
use crate::{
    state::gate::CallGate,
    sync::{thread, Arc, AtomicU64, Ordering::Relaxed, UnsafeCell},
};

/// A tracer's data of one thread.
struct Kept(UnsafeCell<u32>);
// SAFETY: loom checks the accesses; the model exists for that.
unsafe impl Sync for Kept {}
// SAFETY: loom checks the accesses.
unsafe impl Send for Kept {}

#[derive(Default)]
struct Module {
    calls: CallGate,
    errors: AtomicU64,
    kept: [Kept; 2],
}

impl Default for Kept {
    fn default() -> Self {
        Kept(UnsafeCell::new(0))
    }
}

impl Module {
    /// A call as a trace point makes it. Answers whether it ran.
    fn call(&self, at: usize) -> bool {
        // SAFETY: each thread has its own cell, and the end reads it after all calls.
        let call = || self.kept[at].0.with_mut(|kept| unsafe { *kept += 1 });
        let ran = self.calls.run(&self.errors, call).is_some();
        // a panic inside is loom's report and counts as an error of the tracer
        assert_eq!(self.errors.load(Relaxed), 0, "a call ran beside the end");
        ran
    }
}

#[test]
fn no_call_outlasts_the_end() {
    explore(3, 1000, &["called", "refused", "called once"], |seen| {
        let module = Arc::new(Module::default());
        let callers = [0, 1].map(|at| {
            let module = module.clone();
            thread::spawn(move || u32::from(module.call(at)) + u32::from(at == 0 && module.call(at)))
        });
        module.calls.close();
        // SAFETY: `close` has waited for all callers and admits no more.
        let known = [0, 1].map(|at| module.kept[at].0.with_mut(|kept| unsafe { std::mem::replace(&mut *kept, 99) }));
        assert!(!module.call(0));
        let called = callers.map(|caller| caller.join().unwrap());
        assert_eq!(called, known);
        seen.note("called", called == [2, 1]);
        seen.note("called once", called[0] == 1);
        seen.note("refused", called == [0, 0]);
    });
}
