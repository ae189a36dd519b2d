//! Eight threads make traced calls while sessions begin, change and end: every number is exact, every message is in order.

use inviso_core::{
    drain, host::drain::Mark, kinds, lost, Class, Event, Flags, Op, Options, Overflow, Point, Program, Record, Session,
    What, Who,
};
use inviso_term::{etf::decode, term::Term};
use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, Ordering::SeqCst},
        Arc, Barrier,
    },
    thread,
};

const THREADS: usize = 8;
/// Fewer under valgrind.
const CALLS: u64 = match option_env!("INVISO_FEW") {
    Some(_) => 300,
    None => 20_000,
};

fn call(point: &Point, number: u64) {
    let _call = point.enter(|out| out.int(number as i64));
}

/// Creates, changes and destroys sessions with patterns of every kind on `point` until `stop`. Answers their number.
fn churn(program: &Program, point: &Point, stop: &AtomicBool) -> usize {
    let mut rounds = 0;
    while rounds == 0 || !stop.load(SeqCst) {
        let options = Options { ring_bytes: 1 << 14, overflow: Overflow::Overwrite, ..Options::default() };
        let session = program.session("passing", options).unwrap();
        let set = |kind, op| assert_eq!(program.function(&session, &[point], kind, op), Ok(1));
        program.flags(&session, Who::All(Class::Process), true, Flags::CALL | Flags::RETURN_TO).unwrap();
        set(kinds::COUNT | kinds::TIME | kinds::LATENCY, Op::On);
        set(kinds::COUNT, Op::Pause);
        let paused = program.count(&session, point);
        set(kinds::LOCAL | kinds::META, Op::On);
        set(kinds::TIME, Op::Restart);
        assert_eq!(program.count(&session, point), paused, "it stands still");
        set(kinds::COUNT, Op::Restart);
        set(kinds::GLOBAL, Op::On);
        assert_eq!(program.count(&session, point), None, "global removes the counters");
        if rounds % 2 == 0 {
            set(kinds::GLOBAL, Op::Off);
        }
        assert!(program.destroy(&session) && !program.destroy(&session));
        rounds += 1;
    }
    rounds
}

fn counts(program: &Program, session: &Session, point: &Point) -> Vec<(u64, u64)> {
    program.time(session, point).unwrap().into_iter().map(|(pid, calls, _)| (pid, calls)).collect()
}

#[test]
fn counts_are_exact_while_other_sessions_come_and_go() {
    let program = Program::new();
    let point = program.point("exact", "f", 1);
    let session = program.session("counted", Options::default()).unwrap();
    program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    program.function(&session, &[&point], kinds::COUNT | kinds::TIME, Op::On).unwrap();
    let (stop, step) = (AtomicBool::new(false), Barrier::new(THREADS + 1));
    let rounds = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for part in 0..3 {
                    (0..CALLS).for_each(|n| call(&point, n));
                    step.wait();
                    // the main thread checks, and changes the counter of the next part
                    if part < 2 {
                        step.wait();
                    }
                }
            });
        }
        let churning = scope.spawn(|| churn(&program, &point, &stop));
        let all = THREADS as u64 * CALLS;

        step.wait();
        assert_eq!(program.count(&session, &point), Some(all));
        program.function(&session, &[&point], kinds::COUNT, Op::Restart).unwrap();
        assert_eq!(program.count(&session, &point), Some(0));
        step.wait();

        step.wait();
        assert_eq!(program.count(&session, &point), Some(all), "only the second part");
        assert!(counts(&program, &session, &point).iter().all(|(_, calls)| *calls == 2 * CALLS));
        program.function(&session, &[&point], kinds::COUNT | kinds::TIME, Op::Pause).unwrap();
        step.wait();

        step.wait();
        assert_eq!(program.count(&session, &point), Some(all), "the third part came after the pause");
        assert!(counts(&program, &session, &point).iter().all(|(_, calls)| *calls == 2 * CALLS));
        stop.store(true, SeqCst);
        churning.join().unwrap()
    });
    assert!(rounds > 0);
    assert_eq!(counts(&program, &session, &point).len(), THREADS, "ended processes still have counts of their own");
    assert_eq!(program.count(&session, &point), Some(THREADS as u64 * CALLS), "and what their threads counted is kept");
}

#[test]
fn threads_that_end_are_counted_and_folded() {
    let program = Program::new();
    let point = program.point("exact", "f", 1);
    let session = program.session("few", Options { ended_processes: 3, ..Options::default() }).unwrap();
    program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    program.function(&session, &[&point], kinds::COUNT | kinds::TIME, Op::On).unwrap();
    for generation in 1..=20 {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..10).for_each(|n| call(&point, n)));
            }
        });
        // a scope waits for the closures only; the end of a thread is visible when its process has been folded
        while counts(&program, &session, &point).len() > 4 || !program.node().processes().is_empty() {
            thread::yield_now();
        }
        let all = generation * THREADS as u64 * 10;
        let by_process = counts(&program, &session, &point);
        assert_eq!(program.count(&session, &point), Some(all));
        assert_eq!(by_process.iter().map(|(_, calls)| calls).sum::<u64>(), all);
        assert_eq!(by_process.len(), 4, "three processes and the sum of the others: {by_process:?}");
    }
}

/// The argument in a call's message.
fn number(event: &Event) -> u64 {
    match decode(&event.payload).unwrap() {
        Term::List(arguments) => match &arguments[..] {
            [Term::Int(n)] => u64::try_from(n).unwrap(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn read_and_lost_is_produced_and_each_thread_is_in_order() {
    for overflow in [Overflow::Drop, Overflow::Overwrite] {
        let program = Program::new();
        let point = program.point("exact", "f", 1);
        let options = Options { ring_bytes: 1 << 15, overflow, ..Options::default() };
        let session = program.session("lossy", options).unwrap();
        program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
        program.function(&session, &[&point], kinds::LOCAL, Op::On).unwrap();
        let mut last: HashMap<u64, u64> = HashMap::new();
        let (mut read, mut gone) = (0, 0);
        let mut take = |record: Record| match record.what {
            What::Event(event) => {
                read += 1;
                let n = number(&event);
                if let Some(before) = last.insert(event.tracee, n) {
                    assert!(before < n, "{before}, then {n}");
                }
            }
            What::Lost(count) => gone += count,
        };
        thread::scope(|scope| {
            let callers: Vec<_> =
                (0..THREADS).map(|_| scope.spawn(|| (0..CALLS).for_each(|n| call(&point, n)))).collect();
            while callers.iter().any(|caller| !caller.is_finished()) {
                drain(&session, 1000, &mut take).unwrap();
            }
        });
        while drain(&session, usize::MAX, &mut take).unwrap() > 0 {}
        assert_eq!(read + gone, THREADS as u64 * CALLS, "{overflow:?}");
        assert_eq!(lost(&session), gone);
        assert_eq!(last.len(), THREADS);
        assert!(overflow != Overflow::Overwrite || last.values().all(|n| *n == CALLS - 1), "the newest are there");
    }
}

#[test]
fn a_mark_passes_when_the_taker_has_all_before_it() {
    let program = Program::new();
    let point = program.point("exact", "f", 1);
    let session = program.session("marked", Options::default()).unwrap();
    program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    program.function(&session, &[&point], kinds::LOCAL, Op::On).unwrap();
    assert!(Mark::of(&session).passed(), "nothing was written");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let draining = scope.spawn(|| {
            let mut taken: HashMap<u64, Vec<u64>> = HashMap::new();
            while !stop.load(SeqCst) {
                let take = |record: Record| match record.what {
                    What::Event(event) => taken.entry(event.tracee).or_default().push(number(&event)),
                    What::Lost(count) => panic!("{count} lost"),
                };
                drain(&session, 64, take).unwrap();
            }
            taken
        });
        for n in 0..2_000 {
            call(&point, n);
            if n % 100 == 0 {
                let mark = Mark::of(&session);
                while !mark.passed() {
                    thread::yield_now();
                }
            }
        }
        let mark = Mark::of(&session);
        while !mark.passed() {
            thread::yield_now();
        }
        stop.store(true, SeqCst);
        let own = program.current().unwrap().pid;
        assert_eq!(draining.join().unwrap(), HashMap::from([(own, (0..2_000).collect())]));
    });
}

#[test]
fn a_second_drain_is_refused_and_takes_nothing() {
    let program = Program::new();
    let point = program.point("exact", "f", 1);
    let session = program.session("shared", Options::default()).unwrap();
    program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    program.function(&session, &[&point], kinds::LOCAL, Op::On).unwrap();
    call(&point, 1);
    let mark = Mark::of(&session);
    let taken = drain(&session, 9, |_| {
        assert!(drain(&session, 9, |_| panic!("taken twice")).is_err());
        assert!(!mark.passed(), "the taker is still at it");
    });
    assert_eq!(taken, Ok(1));
    assert!(mark.passed());
}

#[test]
fn flags_of_a_session_that_is_gone_are_refused() {
    let program = Program::new();
    let process = program.current().unwrap();
    let old = program.session("old", Options::default()).unwrap();
    program.flags(&old, Who::All(Class::Process), true, Flags::CALL).unwrap();
    assert_eq!(process.flags(old.index), Flags::CALL);
    program.destroy(&old);
    assert!(program.flags(&old, Who::One(&process), true, Flags::CALL).is_err());
    let new = program.session("new", Options::default()).unwrap();
    assert_eq!((new.index, process.flags(new.index)), (old.index, Flags::NONE));
    assert_eq!(Arc::strong_count(&old), 1, "nobody else holds the old one");
}
