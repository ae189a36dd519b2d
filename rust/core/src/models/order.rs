//! Turns: ticks keep the order of the program, whether a thread counts or reads the counter.

use super::explore;
use crate::{
    clock::order::{LastTurn, Order},
    sync::{
        thread, Arc, AtomicU64,
        Ordering::{AcqRel, Acquire, Release},
    },
};

/// Shared by the threads: the order, the time, and the latest ticks that one hands over to the other.
struct Shared {
    order: Order,
    clock: AtomicU64,
    handed: AtomicU64,
}

impl Shared {
    fn new() -> Arc<Shared> {
        let order = Order::default();
        order.serial();
        Arc::new(Shared { order, clock: AtomicU64::new(1), handed: AtomicU64::new(0) })
    }

    /// Writes a record. Writing takes a tick, and reading the counter takes one.
    fn record(&self, turn: &mut LastTurn) -> u64 {
        self.clock.fetch_add(1, AcqRel);
        self.order.moment(|| self.clock.fetch_add(1, AcqRel), turn)
    }

    /// Writes `count` records. Hands over the first and the last.
    fn records(&self, count: usize) -> Vec<u64> {
        let mut turn = LastTurn::default();
        let mut all = Vec::new();
        for n in 1..=count {
            all.push(self.record(&mut turn));
            if n == 1 || n == count {
                self.handed.store(all[n - 1], Release);
            }
        }
        all
    }
}

/// One thread writes `count` records and hands some over. The other thread writes one record before it reads them and one after.
fn hands_over(count: usize, least: usize, outcomes: &'static [&'static str]) {
    explore(3, least, outcomes, move |seen| {
        let shared = Shared::new();
        let other = thread::spawn({
            let shared = shared.clone();
            move || shared.records(count)
        });
        let mut turn = LastTurn::default();
        let first = shared.record(&mut turn);
        let before = shared.handed.load(Acquire);
        let second = shared.record(&mut turn);
        let others = other.join().unwrap();
        let third = shared.record(&mut turn);
        let last = others[count - 1];
        assert!(first < second && second < third, "a thread's own records: {first} {second} {third}");
        assert!(others.is_sorted_by(|a, b| a < b), "the other's own records: {others:?}");
        assert!(before < second, "{before} came before {second}");
        assert!(last < third, "{last} came before {third}");
        seen.note("nothing yet", before == 0);
        seen.note("the first", before == others[0]);
        seen.note("the last", before == last);
        seen.note("went on counting", second == first + 1);
    });
}

/// The other thread counts while this one reads the counter.
#[test]
fn what_comes_after_has_more_ticks() {
    hands_over(4, 100, &["nothing yet", "the first", "the last", "went on counting"]);
}

/// Both threads read the counter.
#[test]
fn a_turn_that_was_taken_meanwhile_is_taken_back() {
    hands_over(1, 50, &["nothing yet", "the last", "went on counting"]);
}

/// Meanwhile a third thread requests the time. Ticks that are read after that come after counted ones.
#[test]
fn the_time_comes_after_what_was_counted() {
    const OUTCOMES: [&str; 2] = ["counted", "read"];
    explore(3, 100, &OUTCOMES, |seen| {
        let shared = Shared::new();
        let other = thread::spawn({
            let shared = shared.clone();
            move || shared.records(2)
        });
        let wanting = thread::spawn({
            let shared = shared.clone();
            move || shared.order.timed()
        });
        let mut turn = LastTurn::default();
        let first = shared.record(&mut turn);
        let before = shared.handed.load(Acquire);
        let second = shared.record(&mut turn);
        wanting.join().unwrap();
        let others = other.join().unwrap();
        let now = shared.clock.load(Acquire);
        let third = shared.record(&mut turn);
        assert!(first < second && before < second, "{first} and {before} came before {second}");
        assert!(second < third && others[1] < third, "{second} and {} came before {third}", others[1]);
        assert!(third >= now, "{third} is not the time, which was {now}");
        seen.note(OUTCOMES[0], second == first + 1);
        seen.note(OUTCOMES[1], second != first + 1);
    });
}
