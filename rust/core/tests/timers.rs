//! A session in the place of another one that ended during a measured call.

mod calls;

use calls::{Call, Nobody};
use inviso_core::host::{
    cells::{key, Measure},
    clock::Clock,
    control::{Op, Target},
    event::{on_call, on_exit, on_switch, Exit, Suspended},
    flags::Flags,
    node::{Node, Who},
    plan::{kinds, Mfa},
    session::{Options, Session},
    thread::Thread,
    tracee::{Class, Kind},
};
use std::sync::Arc;

const OUTER: usize = 64;
const INNER: usize = 128;
const LATE: usize = 192;

fn measuring(node: &Node, functions: &[usize]) -> Arc<Session> {
    let session = node.session_create("", 0, Options::default()).unwrap();
    node.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    let targets: Vec<Target> = functions
        .iter()
        .map(|key| Target {
            key: *key,
            name: Arc::new(Mfa { module: "m".into(), function: format!("f{key}").into(), arity: 0 }),
            exported: true,
            foreign: false,
            is_gone: false,
        })
        .collect();
    node.function(&session, &targets, kinds::MEMORY, Op::On, &Nobody).unwrap();
    session
}

/// Calls and bytes of a function.
fn memory(node: &Node, session: &Session, function: usize) -> (u64, u64) {
    let (slot, entry) = node.entry(session, function).unwrap();
    let mut sum = (0, 0);
    session.arena.each(|r| {
        if (r.key, r.generation) == (key(slot, Measure::Memory), entry.memory) {
            sum = (sum.0 + r.count, sum.1 + r.amount);
        }
    });
    sum
}

fn enter(node: &Node, thread: &mut Thread, function: usize, allocated: u64) {
    on_call(node, thread, function, &Call { at: function, allocated, is_global: false });
}

fn leave(node: &Node, thread: &mut Thread, function: usize, allocated: u64) {
    on_exit(node, thread, function, Exit::Return, &Call { at: function, allocated, is_global: false });
}

/// A whole call, which allocates this many bytes.
fn measured(node: &Node, thread: &mut Thread, function: usize, allocated: u64, bytes: u64) {
    enter(node, thread, function, allocated);
    leave(node, thread, function, allocated + bytes);
}

// One test, because any session may take the cells that another one returns.
#[test]
fn nothing_is_charged_for_an_earlier_session() {
    for again in 0..3 {
        let node = Node::new(Clock::new());
        let mut threads = [(), ()].map(|()| node.thread(node.process(Kind::Thread, 0)));
        let [mine, other] = &mut threads;
        let first = measuring(&node, &[OUTER]);
        let index = first.index;
        enter(&node, mine, OUTER, 100);
        assert_eq!(memory(&node, &first, OUTER), (1, 0));
        assert!(node.session_destroy(&first, &Nobody));
        drop(first); // returns its cells
        let second = measuring(&node, &[INNER, LATE]);
        assert_eq!(second.index, index);
        match again {
            // the same thread calls the function of the second session
            0 => {
                measured(&node, mine, LATE, 1_000, 1);
                measured(&node, mine, INNER, 5_000, 10);
            }
            // another thread calls it, with cells that the first session had
            1 => {
                measured(&node, other, LATE, 1_000, 1);
                measured(&node, other, INNER, 5_000, 10);
            }
            // or another stack of calls resumes
            _ => {
                let mut suspended = Suspended::default();
                measured(&node, other, LATE, 1_000, 1);
                on_switch(&node, mine, &mut suspended, 3_000);
                measured(&node, mine, INNER, 5_000, 10);
                on_switch(&node, mine, &mut suspended, 6_000);
            }
        }
        leave(&node, mine, OUTER, 9_000);
        let seen = (memory(&node, &second, LATE), memory(&node, &second, INNER));
        assert_eq!(seen, ((1, 1), (1, 10)), "{again}");
    }
}
