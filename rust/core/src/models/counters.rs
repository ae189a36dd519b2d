//! Counters: reused numbers, ending threads, growing tables, reset cells.

use super::explore;
use crate::{
    count::{
        cells::{key, Arena, Cell, Measure, FOLDED},
        counts::{Counts, Pool},
    },
    sync::{thread, Arc, Mutex},
};

/// The threads of a node, reduced to their counts.
#[derive(Default)]
struct List {
    live: Vec<Arc<Counts>>,
    pool: Pool,
}

impl List {
    fn total(&self, counter: u32) -> u64 {
        self.live.iter().map(|counts| counts.read(counter)).sum()
    }

    fn value(&self, counter: u32) -> u64 {
        self.pool.value(counter, self.total(counter))
    }

    fn take(&mut self) -> u32 {
        let live = self.live.clone();
        self.pool.take(|counter| live.iter().map(|counts| counts.read(counter)).sum())
    }
}

#[test]
fn a_number_used_again_starts_from_zero() {
    explore(3, 20, &["0", "1", "2"], |seen| {
        let mut list = List::default();
        let counts = Arc::new(Counts::default());
        list.live.push(counts.clone());
        let counter = list.take();
        counts.add(counter);
        list.pool.give(counter);
        // the owner learns of the new counter from the snapshot, after the counter was taken
        assert_eq!(list.take(), counter);
        let owner = thread::spawn(move || {
            counts.add(counter);
            counts.add(counter);
        });
        let (first, second) = (list.value(counter), list.value(counter));
        assert!(first <= second && second <= 2, "{first}, then {second}");
        seen.note("0", first == 0);
        seen.note("1", first == 1);
        seen.note("2", first == 2);
        owner.join().unwrap();
        assert_eq!(list.value(counter), 2);
    });
}

#[test]
fn a_table_grows_under_its_readers() {
    explore(3, 20, &["before", "between", "after"], |seen| {
        let mut list = List::default();
        let counts = Arc::new(Counts::default());
        list.live.push(counts.clone());
        // a model's first segment has two cells: the third counter creates the next segment
        let counters = [list.take(), list.take(), list.take()];
        let list = Arc::new(list);
        let reader = thread::spawn({
            let list = list.clone();
            move || (list.value(counters[2]), list.value(counters[0]))
        });
        // the owner runs first: loom would not run the reader before a load that a store of the owner follows
        counts.add(counters[0]);
        counts.add(counters[2]);
        counts.add(counters[0]);
        let (last, first) = reader.join().unwrap();
        assert!(first <= 2 && last <= 1);
        seen.note("before", last == 0 && first == 0);
        seen.note("between", last == 0 && first > 0);
        seen.note("after", last == 1);
        assert_eq!(counters.map(|counter| list.value(counter)), [2, 0, 1]);
    });
}

#[test]
fn an_ended_thread_is_counted_once() {
    explore(2, 30, &["alive", "ended", "another came"], |seen| {
        let mut list = List::default();
        let counter = list.take();
        let list = Arc::new(Mutex::new(list));
        let threads = thread::spawn({
            let list = list.clone();
            move || {
                for _ in 0..2 {
                    let counts = Arc::new(Counts::default());
                    list.lock().unwrap().live.push(counts.clone());
                    counts.add(counter);
                    let mut list = list.lock().unwrap();
                    let at = list.live.iter().position(|c| Arc::ptr_eq(c, &counts)).unwrap();
                    list.live.swap_remove(at);
                    list.pool.fold(&counts);
                }
            }
        });
        let mut last = 0;
        for _ in 0..3 {
            let list = list.lock().unwrap();
            let (living, value) = (list.live.len(), list.value(counter));
            assert!(last <= value && value <= 2, "{last}, then {value}");
            seen.note("alive", living == 1 && value == 1);
            seen.note("ended", living == 0 && value == 1);
            seen.note("another came", living == 1 && value == 2);
            last = value;
        }
        threads.join().unwrap();
        assert_eq!(list.lock().unwrap().value(counter), 2);
    });
}

#[test]
fn a_reading_is_of_one_generation() {
    // the amount of a generation is 10 times its number, so that a mixture is detected
    fn count(cell: &Cell, generation: u32) {
        cell.enter(generation);
        cell.charge(u64::from(generation) * 10);
    }
    explore(3, 100, &["the old", "the new", "neither", "the new, not charged yet"], |seen| {
        let cell = Arc::new(Cell::default());
        count(&cell, 1);
        let owner = thread::spawn({
            let cell = cell.clone();
            move || count(&cell, 2)
        });
        let (old, new) = (cell.read(1), cell.read(2));
        assert!([(1, 10, 0), (0, 0, 0)].contains(&old), "{old:?}");
        assert!([(0, 0, 0), (1, 0, 0), (0, 20, 0), (1, 20, 0)].contains(&new), "{new:?}");
        seen.note("the old", old == (1, 10, 0));
        seen.note("the new", new == (1, 20, 0));
        seen.note("neither", old == (0, 0, 0) && new == (0, 0, 0));
        seen.note("the new, not charged yet", new == (1, 0, 0));
        owner.join().unwrap();
        assert_eq!((cell.read(1), cell.read(2)), ((0, 0, 0), (1, 20, 0)));
    });
}

#[test]
fn cells_of_an_ended_process_are_counted_once_and_used_again() {
    explore(2, 50, &["living", "folded", "used again"], |seen| {
        let arena = Arc::new(Arena::default());
        let owner = thread::spawn({
            let arena = arena.clone();
            move || {
                for pid in [1, 2] {
                    let block = arena.block(pid);
                    arena.assign(block.start, key(1, Measure::Time));
                    arena.cell(block.start).enter(1);
                    arena.cell(block.start).charge(5);
                    if pid == 1 {
                        arena.fold(pid, 0);
                    }
                }
            }
        });
        let mut last = 0;
        for _ in 0..2 {
            let mut sum = (0, 0);
            let mut pids = vec![];
            arena.each(|r| {
                assert_eq!(r.key, key(1, Measure::Time), "a cell is read before it is assigned");
                sum = (sum.0 + r.count, sum.1 + r.amount);
                pids.push(r.pid);
            });
            assert!(last <= sum.0 && sum.0 <= 2 && sum.1 <= 10, "{last}, then {sum:?}");
            seen.note("living", pids == [1]);
            seen.note("folded", pids == [FOLDED]);
            seen.note("used again", pids == [FOLDED, 2]);
            last = sum.0;
        }
        owner.join().unwrap();
    });
}
