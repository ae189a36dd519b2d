//! The fast forms of a call's records against the general ones, and actions of cached calls that defer work.

use super::{
    activation::Activation,
    context::CallContext,
    exit::{emit_return, emit_value},
    on_call, on_exit, Exit,
};
use crate::{
    clock::Clock,
    control::{Arm, Op, Target},
    delivery::drain::{drain, What},
    record::identity::{Class, Kind},
    ring::RecordRef,
    state::{
        call_cache::Action,
        flags::Flags,
        frame::{exit_actions, Frame},
        node::{Node, Who},
        plan::Mfa,
        session::{Capture, Options, Session, Takes},
        setting::kinds,
        snapshot::Snapshot,
        thread::Thread,
    },
    trace::matching::Subject,
};
use inviso_match::{terms::TermView, Context, Program};
use inviso_term::{
    etf::{Encoder, Full},
    term::Term,
};
use std::{ops::ControlFlow, sync::Arc};

const OUTER: usize = 16;
const INNER: usize = 32;

/// A call of a function without parameters.
struct Call {
    at: usize,
    is_generator: bool,
    /// The caller's address and function.
    caller: (usize, usize),
    /// The byte that stands for its deferred arguments.
    argument: u8,
}

impl Subject for Call {
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

impl Activation for Call {
    fn address(&self) -> usize {
        self.at
    }
    fn is_generator(&self) -> bool {
        self.is_generator
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
    fn arguments_late(&self, out: &mut Vec<u8>, _: &Session, _: u16) {
        out.push(self.argument);
    }
    fn name(&self, _: &mut Encoder<'_>) -> bool {
        false
    }
    fn caller_function(&self) -> (usize, usize) {
        self.caller
    }
    fn caller(&self, _: &mut Encoder<'_>) -> usize {
        self.caller.0
    }
}

fn outer() -> Call {
    Call { at: 1 << 8, is_generator: false, caller: (0, 0), argument: 0 }
}

fn inner(is_generator: bool, argument: u8) -> Call {
    Call { at: 2 << 8, is_generator, caller: (1 << 8, OUTER), argument }
}

/// A host whose functions always give events.
struct Armed;

impl Arm for Armed {
    fn arm(&self, _: &[(usize, u8)], _: u8) {}
}

/// A node with one thread.
fn program() -> (Arc<Node>, Thread) {
    let node = Node::new(Clock::new());
    let thread = node.thread(node.process(Kind::Thread, 0));
    (node, thread)
}

/// A session that traces both functions.
fn traced(node: &Node, options: Options, flags: Flags, kinds: u16, op: &Op) -> Arc<Session> {
    let session = node.session_create("", 0, options).unwrap();
    let target = |(key, function): (usize, &str)| {
        let name = Arc::new(Mfa { module: "m".into(), function: function.into(), arity: 0 });
        Target { key, name, exported: true, foreign: false, is_gone: false }
    };
    let targets = [(OUTER, "outer"), (INNER, "inner")].map(target);
    node.function(&session, &targets, kinds, op.clone(), &Armed).unwrap();
    node.flags(&session, Who::All(Class::Process), true, flags).unwrap();
    session
}

/// The bytes of all records of a session.
fn records(session: &Session) -> Vec<([u64; 4], Vec<u8>)> {
    let mut all = vec![];
    for feed in session.feeds() {
        let read = feed.ring.drain(usize::MAX, |record| {
            match record {
                RecordRef::Event { header, payload } => all.push((header, payload.to_vec())),
                RecordRef::Drop { count } => panic!("{count} lost"),
            }
            ControlFlow::Continue(())
        });
        assert!(read.is_ok());
    }
    all
}

/// A match specification with this head, which runs these actions.
fn matching(head: Term, actions: &[&str]) -> Op {
    let body = actions.iter().map(|action| Term::Tuple(vec![Term::atom(action)])).collect();
    let clause = Term::Tuple(vec![head, Term::List(vec![]), Term::List(body)]);
    Op::Match(Arc::new(Program::compile(&Term::List(vec![clause]), Context::Call).unwrap()))
}

/// Checks the records of cached calls against those of their plan.
fn check_cached_calls(flags: Flags, op: &Op, is_generator: bool, records_of_a_call: usize) {
    let (node, mut thread) = program();
    // A latency takes both the call and its end out of the fast forms. The newer session comes first in a plan.
    let slow = traced(&node, Options::default(), flags, kinds::LOCAL | kinds::LATENCY, op);
    let fast = traced(&node, Options::default(), flags, kinds::LOCAL, op);
    let (outer, inner) = (outer(), inner(is_generator, 0));
    on_call(&node, &mut thread, OUTER, &outer);
    for _ in 0..3 {
        on_call(&node, &mut thread, INNER, &inner);
        on_exit(&node, &mut thread, INNER, Exit::Return, &inner);
    }
    on_call(&node, &mut thread, INNER, &inner);
    on_exit(&node, &mut thread, INNER, Exit::Unwind, &inner);
    on_call(&node, &mut thread, OUTER, &outer);
    let version = node.read(|snapshot| snapshot.version);
    for function in [OUTER, INNER] {
        let place = thread.call_cache.find(function, version).unwrap();
        let known = thread.call_cache.at(place);
        assert!(matches!(known.action(0), Some(Action::Emit(known)) if known.id == fast.id as u32));
        assert!(matches!(known.action(1), Some(Action::Planned(id)) if *id == slow.id as u32));
    }
    let (records, wanted) = (records(&fast), records(&slow));
    let raised = if matches!(op, Op::On) { 0 } else { 1 };
    assert_eq!(records.len(), 2 + 3 * records_of_a_call + 1 + raised + usize::from(flags.has(Flags::RETURN_TO)));
    assert_eq!(records, wanted);
    let frame = Frame::new(inner.at, fast.id as u32, fast.index, exit_actions::RETURN_TO, 0);
    let is_fast = |snapshot: &Snapshot| {
        let context = CallContext { node: &node, snapshot, call: &inner, at: inner.at, now: 0 };
        emit_value(context, &mut thread, INNER, &frame) && emit_return(context, &mut thread, &frame)
    };
    assert!(node.read(is_fast));
}

#[test]
fn a_cached_call_writes_the_bytes_that_its_plan_would() {
    let (ends, plain) = (matching(Term::atom("_"), &["return_trace", "exception_trace"]), Op::On);
    for stamps in [Flags::NONE, Flags::TIMESTAMP, Flags::MONOTONIC_TIMESTAMP, Flags::SCHEDULER_ID] {
        let flags = Flags::CALL | Flags::ARITY | stamps;
        for is_generator in [false, true] {
            check_cached_calls(flags, &plain, is_generator, 1);
            check_cached_calls(flags | Flags::RETURN_TO, &plain, is_generator, 2);
            check_cached_calls(flags, &ends, is_generator, 2);
            check_cached_calls(flags | Flags::RETURN_TO, &ends, is_generator, 3);
        }
    }
}

#[test]
fn what_a_cached_filter_defers_runs_before_its_call_goes_on() {
    let (node, mut thread) = program();
    let capture = Capture { takes: Takes::Texts, ..Capture::default() };
    let op = matching(Term::List(vec![]), &[]); // no arguments: it has to be run for each call
    let options = Options { capture, ..Options::default() };
    let session = traced(&node, options, Flags::CALL, kinds::LOCAL, &op);
    for argument in [7, 8, 9] {
        on_call(&node, &mut thread, INNER, &inner(false, argument));
        let mut payloads = vec![];
        let took = drain(&session, 9, |record| match record.what {
            What::Event(event) => payloads.push(event.payload),
            What::Lost(count) => panic!("{count} lost"),
        });
        assert_eq!((took, payloads), (Ok(1), vec![vec![argument]]));
    }
}

#[test]
fn an_end_drops_the_frames_of_calls_whose_ends_were_not_seen() {
    let (node, mut thread) = program();
    let _session =
        traced(&node, Options::default(), Flags::CALL | Flags::ARITY | Flags::RETURN_TO, kinds::LOCAL, &Op::On);
    let (outer, inner) = (outer(), inner(false, 0));
    on_call(&node, &mut thread, OUTER, &outer);
    for at in [2 << 8, 3 << 8, 4 << 8] {
        on_call(&node, &mut thread, INNER, &Call { at, ..inner });
    }
    let frames = |thread: &Thread| thread.stack.iter().map(|frame| frame.at >> 8).collect::<Vec<_>>();
    on_exit(&node, &mut thread, INNER, Exit::Return, &Call { at: 9 << 8, ..inner });
    assert_eq!(frames(&thread), [1, 2, 3, 4], "a call without a frame");
    on_exit(&node, &mut thread, INNER, Exit::Return, &Call { at: 3 << 8, ..inner });
    assert_eq!(frames(&thread), [1, 2]);
    on_call(&node, &mut thread, INNER, &inner);
    assert_eq!(frames(&thread), [1, 2], "another call at the address of one whose end was not seen");
    on_exit(&node, &mut thread, OUTER, Exit::Return, &outer);
    assert_eq!(frames(&thread), []);
}
