//! The life of a session, its rings, and flags that only one child may get.

use super::explore;
use crate::{
    record::identity::{Class, Kind},
    ring::{Overflow, Ring},
    state::{
        flags::Flags,
        life::Life,
        session::{Options, Session},
        tracee::Tracee,
    },
    sync::{thread, Arc, Ordering::Relaxed, UnsafeCell},
};

#[test]
fn one_destroyer_wins() {
    explore(4, 5, &["mine", "theirs"], |seen| {
        let life = Arc::new(Life::new());
        let other = thread::spawn({
            let life = life.clone();
            move || life.begin_end()
        });
        let mine = life.begin_end();
        assert!(!life.is_alive());
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "mine {mine}, theirs {theirs}");
        seen.note("mine", mine);
        seen.note("theirs", theirs);
    });
}

#[test]
fn dead_says_that_all_is_done() {
    struct Work(UnsafeCell<u32>);
    // SAFETY: loom checks the accesses; the model exists for that.
    unsafe impl Sync for Work {}
    // SAFETY: loom checks the accesses.
    unsafe impl Send for Work {}

    explore(4, 4, &["alive", "clearing", "dead"], |seen| {
        let shared = Arc::new((Life::new(), Work(UnsafeCell::new(0))));
        let destroyer = thread::spawn({
            let shared = shared.clone();
            move || {
                assert!(shared.0.begin_end());
                // SAFETY: no other thread accesses it before DEAD.
                shared.1 .0.with_mut(|work| unsafe { *work = 1 });
                shared.0.finish_end();
            }
        });
        if shared.0.is_dead() {
            // SAFETY: after DEAD the destroyer's work is finished.
            assert_eq!(shared.1 .0.with(|work| unsafe { *work }), 1);
            seen.note("dead", true);
        } else {
            let alive = shared.0.is_alive();
            seen.note("alive", alive);
            seen.note("clearing", !alive && !shared.0.is_dead());
        }
        destroyer.join().unwrap();
    });
}

#[test]
fn no_ring_is_left_open() {
    explore(3, 10, &["closed", "refused"], |seen| {
        let session = std::sync::Arc::new(Session::new(1, 0, "", 0, Options::default()));
        let scheduler = thread::spawn({
            let session = session.clone();
            move || {
                let (_producer, ring) = Ring::split(0, Overflow::Drop);
                (session.add_ring(ring.clone()), ring)
            }
        });
        assert!(session.begin_end());
        session.finish_end();
        let (added, ring) = scheduler.join().unwrap();
        assert_eq!(added, ring.is_closed());
        seen.note("closed", added);
        seen.note("refused", !added);
    });
}

#[test]
fn the_first_child_is_one() {
    explore(4, 6, &["mine", "theirs"], |seen| {
        let parent = std::sync::Arc::new(Tracee::new(1, Kind::Thread, 0));
        let given = Flags::CALL | Flags::SET_ON_SPAWN | Flags::SET_ON_FIRST_SPAWN;
        parent.change(0, true, given);
        let other = thread::spawn({
            let parent = parent.clone();
            move || parent.inherit(0)
        });
        let mine = parent.inherit(0);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() != theirs.is_some(), "mine {mine:?}, theirs {theirs:?}");
        assert_eq!(mine.or(theirs), Some(Flags::CALL), "the first child has neither of both flags");
        assert_eq!(parent.flags(0), Flags::CALL, "nor has the parent");
        seen.note("mine", mine.is_some());
        seen.note("theirs", theirs.is_some());
    });
}

#[test]
fn flags_of_a_child_and_of_a_change_are_both_kept() {
    explore(4, 10, &["before", "after"], |seen| {
        let parent = std::sync::Arc::new(Tracee::new(1, Kind::Thread, 0));
        parent.change(0, true, Flags::CALL | Flags::SET_ON_FIRST_SPAWN);
        let other = thread::spawn({
            let parent = parent.clone();
            move || parent.change(0, true, Flags::PROCS)
        });
        let child = parent.inherit(0).expect("it is the first child");
        other.join().unwrap();
        assert_eq!(parent.flags(0), Flags::CALL | Flags::PROCS);
        assert!(!child.has(Flags::SET_ON_FIRST_SPAWN));
        seen.note("before", child.has(Flags::PROCS));
        seen.note("after", !child.has(Flags::PROCS));
    });
}

#[test]
fn new_processes_get_flags_of_one_moment() {
    explore(4, 5, &["none", "both"], |seen| {
        let session = std::sync::Arc::new(Session::new(1, 0, "", 0, Options::default()));
        let other = thread::spawn({
            let session = session.clone();
            move || session.change_new_flags(Class::Process, true, Flags::CALL | Flags::PROCS)
        });
        let flags = session.new_flags(Kind::Thread);
        assert!([Flags::NONE, Flags::CALL | Flags::PROCS].contains(&flags), "{flags:?}");
        seen.note("none", flags == Flags::NONE);
        seen.note("both", flags != Flags::NONE);
        other.join().unwrap();
        assert_eq!(session.tracer.load(Relaxed), 0);
    });
}
