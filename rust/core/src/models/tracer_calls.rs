//! Calls of a tracer module, and its session's end.

use super::explore;
use crate::{
    state::gate::CallGate,
    sync::{thread, Arc, AtomicU64, Ordering::Relaxed, UnsafeCell},
};

/// What a tracer keeps, each thread for itself.
struct Kept(UnsafeCell<u32>);
// SAFETY: loom checks the accesses, which is the point of the model.
unsafe impl Sync for Kept {}
// SAFETY: as above.
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
    /// One call, as a trace point makes it; whether it was made.
    fn call(&self, who: usize) -> bool {
        // SAFETY: each thread has its own, and the end has it after all calls.
        let call = || self.kept[who].0.with_mut(|kept| unsafe { *kept += 1 });
        let told = self.calls.run(&self.errors, call).is_some();
        // a panic in there is loom's: it counts as an error of the tracer
        assert_eq!(self.errors.load(Relaxed), 0, "a call ran beside the end");
        told
    }
}

#[test]
fn no_call_outlasts_the_end() {
    explore(3, 1000, &["told", "refused", "told once"], |seen| {
        let module = Arc::new(Module::default());
        let callers = [0, 1].map(|who| {
            let module = module.clone();
            thread::spawn(move || u32::from(module.call(who)) + u32::from(who == 0 && module.call(who)))
        });
        module.calls.close();
        // SAFETY: nobody is inside any more, and nobody comes in.
        let known = [0, 1].map(|who| module.kept[who].0.with_mut(|kept| unsafe { std::mem::replace(&mut *kept, 99) }));
        assert!(!module.call(0));
        let told = callers.map(|caller| caller.join().unwrap());
        assert_eq!(told, known);
        seen.note("told", told == [2, 1]);
        seen.note("told once", told[0] == 1);
        seen.note("refused", told == [0, 0]);
    });
}
