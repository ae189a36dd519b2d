//! A whole node under loom: calls of traced functions during changes of patterns and ends of sessions and threads.

use super::explore;
use crate::{
    clock::Clock,
    control::{Arm, Op, Target},
    record::identity::{Class, Kind},
    state::{
        error::Error,
        flags::Flags,
        node::{Node, Who},
        plan::{events, Mfa},
        session::{Capture, Options, Session},
        setting::kinds,
        thread::Thread,
    },
    sync::{
        thread, Arc as Shared, AtomicBool, AtomicU8,
        Ordering::{Acquire, Release},
    },
    trace::{
        event::{on_call, Activation},
        matching::Subject,
    },
};
use inviso_match::{terms::TermView, Context, Program};
use inviso_term::{
    etf::{Encoder, Full},
    term::Term,
};
use std::sync::Arc;

/// A call of a function without arguments.
struct Plain(usize);

impl Subject for Plain {
    type View<'v> = TermView<'v>;

    fn count(&self) -> usize {
        0
    }
    fn argument(&self, _: usize) -> Option<TermView<'_>> {
        None
    }
    fn write(&self, view: TermView<'_>, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.term(view.0)
    }
}

impl Activation for Plain {
    fn address(&self) -> usize {
        self.0
    }
    fn is_generator(&self) -> bool {
        false
    }
    fn identify(&self, thread: &mut Thread) {
        thread.switch_to_own();
    }
    fn allocated(&self) -> u64 {
        0
    }
    fn is_global(&self) -> bool {
        true
    }
    fn arguments(&self, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.nil()
    }
    fn arguments_late(&self, _: &mut Vec<u8>, _: &Session, _: u16) {}
    fn name(&self, _: &mut Encoder<'_>) -> bool {
        false
    }
    fn caller_function(&self) -> (usize, usize) {
        (0, 0)
    }

    fn caller(&self, _: &mut Encoder<'_>) -> usize {
        0
    }
}

/// A host whose functions always give events.
struct Armed;

impl Arm for Armed {
    fn arm(&self, _: &[(usize, u8)], _: u8) {}
}

fn targets(keys: &[usize]) -> Vec<Target> {
    let name = Arc::new(Mfa { module: "m".into(), function: "f".into(), arity: 0 });
    keys.iter()
        .map(|key| Target { key: *key, name: name.clone(), exported: true, foreign: false, is_gone: false })
        .collect()
}

fn set(node: &Node, session: &Arc<Session>, keys: &[usize], kind: u16, op: Op) -> Result<usize, Error> {
    node.function(session, &targets(keys), kind, op, &Armed)
}

fn node() -> (Arc<Node>, Arc<Session>) {
    let node = Node::new(Clock::new());
    let options = Options { ring_bytes: 0, ..Options::default() };
    let session = node.session_create("", 0, options).unwrap();
    (node, session)
}

fn count(node: &Node, session: &Session, key: usize) -> u64 {
    let (_, entry) = node.entry(session, key).unwrap();
    node.count(entry.count)
}

/// A thread that calls `keys` concurrently and ends. `before` is called first, here.
///
/// The calls of `before` create the thread's cells. A reader of a missing cell reads only `made`, which the thread loads and then
/// stores, and there loom 0.7.2 would not explore the other order.
fn caller(node: &Arc<Node>, before: &[usize], keys: &'static [usize]) -> thread::JoinHandle<()> {
    let node = node.clone();
    let mut scheduler = node.thread(node.process(Kind::Thread, 0));
    before.iter().for_each(|key| on_call(&node, &mut scheduler, *key, &Plain(9)));
    thread::spawn(move || {
        for (n, key) in keys.iter().enumerate() {
            on_call(&node, &mut scheduler, *key, &Plain(n + 1));
        }
        node.end_thread(scheduler);
    })
}

#[test]
fn a_change_is_one_point_in_time() {
    const OUTCOMES: [&str; 4] = ["before all", "after the first", "after the second", "after all"];
    explore(3, 40, &OUTCOMES, |seen| {
        let (node, session) = node();
        let calls = caller(&node, &[], &[1, 2, 1]);
        set(&node, &session, &[1, 2], kinds::COUNT, Op::On).unwrap();
        calls.join().unwrap();
        let counts = (count(&node, &session, 1), count(&node, &session, 2));
        let legal = [(2, 1), (1, 1), (1, 0), (0, 0)];
        let switched = legal.iter().position(|l| *l == counts).unwrap_or_else(|| panic!("no one point: {counts:?}"));
        seen.note(OUTCOMES[switched], true);
    });
}

/// A scheduler that has called function 1, so that its cells exist; see [`caller`].
fn scheduler(node: &Node) -> Thread {
    let mut scheduler = node.thread(node.process(Kind::Thread, 0));
    on_call(node, &mut scheduler, 1, &Plain(9));
    scheduler
}

#[test]
fn no_call_is_counted_after_a_pause() {
    explore(3, 40, &["before", "between", "after"], |seen| {
        let (node, session) = node();
        set(&node, &session, &[1], kinds::COUNT, Op::On).unwrap();
        let counter = node.entry(&session, 1).unwrap().1.count;
        let mut scheduler = scheduler(&node);
        let control = thread::spawn({
            let node = node.clone();
            move || {
                set(&node, &session, &[1], kinds::COUNT, Op::Pause).unwrap();
                node.count(counter)
            }
        });
        // the calls run first: loom would not run them before a load that the control side's swap follows
        on_call(&node, &mut scheduler, 1, &Plain(1));
        on_call(&node, &mut scheduler, 1, &Plain(2));
        let paused = control.join().unwrap();
        assert_eq!(node.count(counter), paused, "a call was counted after the pause");
        seen.note("before", paused == 3);
        seen.note("between", paused == 2);
        seen.note("after", paused == 1);
    });
}

#[test]
fn a_restart_loses_no_call() {
    explore(3, 40, &["all in the first", "in both", "all in the second"], |seen| {
        let (node, session) = node();
        set(&node, &session, &[1], kinds::COUNT, Op::On).unwrap();
        let first = node.entry(&session, 1).unwrap().1.count;
        let mut scheduler = scheduler(&node);
        let control = thread::spawn({
            let node = node.clone();
            move || {
                set(&node, &session, &[1], kinds::COUNT, Op::Restart).unwrap();
                (node.entry(&session, 1).unwrap().1.count, node.count(first))
            }
        });
        on_call(&node, &mut scheduler, 1, &Plain(1));
        on_call(&node, &mut scheduler, 1, &Plain(2));
        let (second, was) = control.join().unwrap();
        assert_ne!(first, second);
        assert_eq!(node.count(first), was, "a call was counted by a counter that was gone");
        let now = node.count(second);
        assert_eq!(was + now, 3, "a call was lost");
        seen.note("all in the first", now == 0);
        seen.note("in both", now == 1);
        seen.note("all in the second", now == 2);
    });
}

/// A host that keeps the armed events of function 1.
struct Switch(AtomicU8);

impl Arm for Switch {
    fn arm(&self, functions: &[(usize, u8)], _: u8) {
        for (_, events) in functions {
            self.0.store(*events, Release);
        }
    }
}

/// A spec that suppresses the message and needs the call's end.
fn wants_ends() -> Op {
    let atom = Term::atom;
    let body = [Term::Tuple(vec![atom("message"), atom("false")]), Term::Tuple(vec![atom("return_trace")])];
    let clause = Term::Tuple(vec![atom("_"), Term::List(Vec::new()), Term::List(body.into())]);
    Op::Match(Arc::new(Program::compile(&Term::List(vec![clause]), Context::Call).unwrap()))
}

#[test]
fn the_end_of_a_call_that_is_waited_for_is_seen() {
    explore(3, 20, &["not waited for", "waited for"], |seen| {
        let (node, session) = node();
        node.flags(&session, Who::All(Class::Process), true, Flags::CALL | Flags::SILENT).unwrap();
        let host = Shared::new(Switch(AtomicU8::new(0)));
        node.function(&session, &targets(&[1]), kinds::LOCAL, Op::On, &*host).unwrap();
        let mut scheduler = scheduler(&node);
        node.flags(&session, Who::One(scheduler.own()), false, Flags::SILENT).unwrap();
        node.flags(&session, Who::One(scheduler.own()), true, Flags::CALL | Flags::ARITY).unwrap();
        let control = thread::spawn({
            let (node, host) = (node.clone(), host.clone());
            move || node.function(&session, &targets(&[1]), kinds::LOCAL, wants_ends(), &*host).unwrap()
        });
        on_call(&node, &mut scheduler, 1, &Plain(1));
        let waited = !scheduler.is_idle();
        assert!(!waited || host.0.load(Acquire) & events::END != 0, "a call's end is waited for and not seen");
        control.join().unwrap();
        seen.note("waited for", waited);
        seen.note("not waited for", !waited);
    });
}

#[test]
fn nothing_is_heard_of_a_session_after_its_end() {
    explore(3, 40, &["no more", "one more", "two more"], |seen| {
        let (node, session) = node();
        node.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
        set(&node, &session, &[1], kinds::LOCAL | kinds::COUNT, Op::On).unwrap();
        let counter = node.entry(&session, 1).unwrap().1.count;
        let calls = caller(&node, &[1], &[1, 1]);
        assert!(node.session_destroy(&session, &Armed));
        let heads = || session.feeds().iter().map(|feed| feed.ring.head()).sum::<u64>();
        let (written, counted) = (heads(), node.count(counter));
        assert!(node.session(session.id).is_none() && node.entry(&session, 1).is_none());
        calls.join().unwrap();
        assert_eq!((heads(), node.count(counter)), (written, counted), "an event after the end");
        seen.note("no more", written == 1);
        seen.note("one more", written == 2);
        seen.note("two more", written == 3);
        assert_eq!(Arc::strong_count(&session), 1, "the node still holds the session");
    });
}

#[test]
fn an_index_used_again_brings_no_flags() {
    explore(2, 10, &["in time", "too late"], |seen| {
        let (node, old) = node();
        let process = node.process(Kind::Thread, 0);
        let user = thread::spawn({
            let (node, old) = (node.clone(), old.clone());
            move || node.flags(&old, Who::Existing(Class::Process), true, Flags::CALL)
        });
        assert!(node.session_destroy(&old, &Armed));
        let new = node.session_create("", 0, Options::default()).unwrap();
        assert_eq!(old.index, new.index);
        let answer = user.join().unwrap();
        assert_eq!(process.flags(new.index), Flags::NONE, "a flag of the old session");
        seen.note("in time", answer.is_ok());
        seen.note("too late", answer == Err(Error::SessionDead));
    });
}

#[test]
fn a_weak_handle_and_a_destroyer() {
    explore(1, 100, &["used", "refused", "not found"], |seen| {
        let (node, session) = node();
        let (id, ended) = (session.id, Shared::new(AtomicBool::new(false)));
        let user = thread::spawn({
            let (node, ended) = (node.clone(), ended.clone());
            move || {
                let ended = ended.load(Acquire);
                let found = node.session(id);
                assert!(!ended || found.is_none(), "found after its end");
                found.map(|session| set(&node, &session, &[1], kinds::COUNT, Op::On))
            }
        });
        // the last strong handle goes with the destroyer's
        assert!(node.session_destroy(&session, &Armed));
        ended.store(true, Release);
        let weak = Arc::downgrade(&session);
        drop(session);
        let answer = user.join().unwrap();
        assert!(node.read(|snapshot| snapshot.is_empty()), "a pattern outlives its session");
        assert!(weak.upgrade().is_none(), "the session outlives its handles");
        seen.note("used", answer == Some(Ok(1)));
        seen.note("refused", answer == Some(Err(Error::SessionDead)));
        seen.note("not found", answer.is_none());
    });
}

#[test]
fn a_thread_that_ends_is_counted_once() {
    explore(2, 10, &["1", "2", "3"], |seen| {
        let (node, session) = node();
        set(&node, &session, &[1], kinds::COUNT, Op::On).unwrap();
        let counter = node.entry(&session, 1).unwrap().1.count;
        let calls = caller(&node, &[1], &[1, 1]);
        let (first, second) = (node.count(counter), node.count(counter));
        assert!(1 <= first && first <= second && second <= 3, "{first}, then {second}");
        seen.note("1", second == 1);
        seen.note("2", second == 2);
        seen.note("3", second == 3);
        calls.join().unwrap();
        assert_eq!(node.count(counter), 3);
    });
}

#[test]
fn a_process_ends_once() {
    explore(3, 5, &["mine", "theirs"], |seen| {
        let (node, session) = node();
        let process = node.process(Kind::Task, 16);
        let other = thread::spawn({
            let (node, process) = (node.clone(), process.clone());
            move || node.end_process(&process)
        });
        let mine = node.end_process(&process);
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "ended {} times", u8::from(mine) + u8::from(theirs));
        assert!(!process.is_alive() && node.processes().is_empty());
        assert!(matches!(node.flags(&session, Who::One(&process), true, Flags::PROCS), Err(Error::ProcessDead)));
        seen.note("mine", mine);
        seen.note("theirs", theirs);
    });
}

#[test]
fn a_child_begins_with_flags_of_living_sessions_only() {
    explore(3, 100, &["born before", "born after"], |seen| {
        let (node, old) = node();
        node.flags(&old, Who::New(Class::Process), true, Flags::PROCS).unwrap();
        let births = thread::spawn({
            let node = node.clone();
            move || {
                let parent = node.process(Kind::Thread, 0);
                (node.child(Kind::Thread, 0, &parent), parent)
            }
        });
        assert!(node.session_destroy(&old, &Armed));
        let early = !node.processes().is_empty();
        let new = node.session_create("", 0, Options::default()).unwrap();
        let (child, parent) = births.join().unwrap();
        for process in [child, parent] {
            assert_eq!(process.flags(new.index), Flags::NONE, "a flag of the old session");
        }
        seen.note("born before", early);
        seen.note("born after", !early);
    });
}
