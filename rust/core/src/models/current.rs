//! The current value and its grace period: no reader uses a freed value, and a reader of the pointer sees the whole value.

use super::explore;
use crate::sync::{
    current::Current,
    grace::{pin, wait},
    thread, Arc, UnsafeCell,
};
use crossbeam_epoch::Collector;

/// Stands for the contents of a snapshot: written when it is created and when it is freed, read in between. It is outside the value, so
/// that a mutant that reads a freed value still finds it.
pub(super) struct Body(UnsafeCell<u32>);

// SAFETY: loom checks the accesses; the models exist for that.
unsafe impl Sync for Body {}
// SAFETY: loom checks the accesses.
unsafe impl Send for Body {}

/// A version of the snapshot.
pub(super) struct Version {
    pub(super) number: usize,
    bodies: Arc<[Body; 3]>,
}

impl Version {
    pub(super) fn make(number: usize, bodies: &Arc<[Body; 3]>) -> Version {
        // SAFETY: loom reports any other access at the same time.
        bodies[number].0.with_mut(|body| unsafe { *body = number as u32 + 1 });
        Version { number, bodies: bodies.clone() }
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        // SAFETY: loom reports any other access at the same time.
        self.bodies[self.number].0.with_mut(|body| unsafe { *body = 0 });
    }
}

pub(super) fn bodies() -> Arc<[Body; 3]> {
    Arc::new([0, 0, 0].map(|n| Body(UnsafeCell::new(n))))
}

/// The number of a version, after a check of its contents.
pub(super) fn read(version: &Version, bodies: &[Body; 3]) -> usize {
    let number = version.number;
    // SAFETY: loom reports a write at the same time.
    let body = bodies[number].0.with(|body| unsafe { *body });
    assert_eq!(body as usize, number + 1, "the contents aren't there");
    number
}

#[test]
fn who_sees_the_pointer_sees_the_value() {
    explore(3, 20, &["old", "new", "old, then new"], |seen| {
        let (collector, bodies) = (Collector::new(), bodies());
        let current = Arc::new(Current::new(Version::make(0, &bodies)));
        let reader = thread::spawn({
            let (local, current, bodies) = (collector.clone(), current.clone(), bodies.clone());
            move || {
                let local = local.register();
                // one pin each: two calls of traced functions, one after the other
                let first = read(current.load(&pin(&local)), &bodies);
                let second = read(current.load(&pin(&local)), &bodies);
                (first, second)
            }
        });
        let local = collector.register();
        let guard = pin(&local);
        let retired = current.swap(Version::make(1, &bodies), &guard);
        drop(guard);
        let (first, second) = reader.join().unwrap();
        assert!(first <= second, "a thread went back to the old snapshot");
        seen.note("old", (first, second) == (0, 0));
        seen.note("new", (first, second) == (1, 1));
        seen.note("old, then new", (first, second) == (0, 1));
        retired.free(&wait(&local));
    });
}

#[test]
fn no_reader_after_the_grace_period() {
    explore(2, 200, &["read the old one", "read the new one"], |seen| {
        let (collector, bodies) = (Collector::new(), bodies());
        let current = Arc::new(Current::new(Version::make(0, &bodies)));
        let reader = thread::spawn({
            let (local, current, bodies) = (collector.clone(), current.clone(), bodies.clone());
            move || {
                let local = local.register();
                let guard = pin(&local);
                let version = current.load(&guard);
                // an event inside an event: the inner guard doesn't end the outer pin
                drop(pin(&local));
                read(version, &bodies)
            }
        });
        let local = collector.register();
        let guard = pin(&local);
        let retired = current.swap(Version::make(1, &bodies), &guard);
        drop(guard);
        retired.free(&wait(&local));
        let number = reader.join().unwrap();
        seen.note("read the old one", number == 0);
        seen.note("read the new one", number == 1);
    });
}

#[test]
fn a_thread_that_comes_back_holds_up_the_next_change() {
    explore(1, 100, &["0 then 1", "1 then 2"], |seen| {
        let (collector, bodies) = (Collector::new(), bodies());
        let current = Arc::new(Current::new(Version::make(0, &bodies)));
        let reader = thread::spawn({
            let (local, current, bodies) = (collector.clone(), current.clone(), bodies.clone());
            move || {
                let local = local.register();
                let first = read(current.load(&pin(&local)), &bodies);
                let guard = pin(&local);
                let version = current.load(&guard);
                thread::yield_now();
                (first, read(version, &bodies))
            }
        });
        let local = collector.register();
        for number in [1, 2] {
            let guard = pin(&local);
            let retired = current.swap(Version::make(number, &bodies), &guard);
            drop(guard);
            retired.free(&wait(&local));
        }
        let pair = reader.join().unwrap();
        assert!(pair.0 <= pair.1);
        seen.note("0 then 1", pair == (0, 1));
        seen.note("1 then 2", pair == (1, 2));
    });
}
