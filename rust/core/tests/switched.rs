//! A meta trace beside a regular one: its match specs switch flags of the regular session.

mod calls;

use calls::{Call, Nobody};
use inviso_core::host::{
    clock::Clock,
    control::{Op, Target},
    event::on_call,
    flags::Flags,
    node::Node,
    plan::{kinds, Mfa},
    session::{Options, Session, Switched},
    thread::Thread,
    tracee::Kind,
};
use inviso_match::{Context, Program};
use inviso_term::term::Term;
use std::sync::Arc;

struct Beside {
    node: Arc<Node>,
    regular: Arc<Session>,
    meta: Arc<Session>,
    thread: Thread,
}

impl Beside {
    fn new() -> Self {
        let node = Node::new(Clock::new());
        let regular = node.session_create("regular", 0, Options::default()).unwrap();
        let switched = Some(Switched(regular.clone()));
        let meta = node.session_create("meta", 0, Options { switched, ..Options::default() }).unwrap();
        let thread = node.thread(node.process(Kind::Thread, 0));
        Beside { node, regular, meta, thread }
    }

    /// Calls a function whose meta pattern has these actions.
    fn call(&mut self, actions: Vec<Term>) {
        let name = Arc::new(Mfa { module: "m".into(), function: "f".into(), arity: 0 });
        let target = Target { key: 64, name, exported: true, foreign: false, is_gone: false };
        let clause = Term::Tuple(vec![Term::atom("_"), Term::List(vec![]), Term::List(actions)]);
        let program = Arc::new(Program::compile(&Term::List(vec![clause]), Context::Call).unwrap());
        self.node.function(&self.meta, &[target], kinds::META, Op::Match(program), &Nobody).unwrap();
        on_call(&self.node, &mut self.thread, 64, &Call { at: 64, allocated: 0, is_global: false });
    }

    /// The calling process's flags of the regular session. It has none of the meta session.
    fn flags(&self) -> Flags {
        assert_eq!(self.thread.current().flags(self.meta.index), Flags::NONE);
        self.thread.current().flags(self.regular.index)
    }
}

fn trace(off: &[&str], on: Vec<Term>) -> Term {
    let off = off.iter().map(|flag| Term::atom(flag)).collect();
    Term::Tuple(vec![Term::atom("trace"), Term::List(off), Term::List(on)])
}

/// `{{tracer, Id}}`, the form of a tuple in a spec.
fn tracer(id: u64) -> Term {
    Term::Tuple(vec![Term::Tuple(vec![Term::atom("tracer"), Term::from(id as i64)])])
}

#[test]
fn who_is_not_traced_needs_the_tracer() {
    let mut beside = Beside::new();
    let id = beside.regular.id;
    beside.call(vec![trace(&[], vec![Term::atom("call")])]);
    assert_eq!(beside.flags(), Flags::NONE);
    for wrong in [id + 1, beside.meta.id] {
        beside.call(vec![trace(&[], vec![Term::atom("call"), tracer(wrong)])]);
        assert_eq!(beside.flags(), Flags::NONE);
    }
    beside.call(vec![trace(&[], vec![Term::atom("call"), tracer(id)])]);
    assert_eq!(beside.flags(), Flags::CALL);
    beside.call(vec![trace(&["call"], vec![Term::atom("send")])]);
    assert_eq!(beside.flags(), Flags::SEND);
}

#[test]
fn other_actions_are_about_the_regular_session_too() {
    let mut beside = Beside::new();
    let action = |name, argument| Term::Tuple(vec![Term::atom(name), Term::atom(argument)]);
    beside.call(vec![action("enable_trace", "send"), action("silent", "true")]);
    assert_eq!(beside.flags(), Flags::NONE);
    beside.call(vec![trace(&[], vec![Term::atom("call"), tracer(beside.regular.id)]), action("enable_trace", "send")]);
    assert_eq!(beside.flags(), Flags::CALL | Flags::SEND);
    beside.call(vec![action("silent", "true")]);
    assert_eq!(beside.flags(), Flags::CALL | Flags::SEND | Flags::SILENT);
    beside.call(vec![action("silent", "false"), action("disable_trace", "call")]);
    assert_eq!(beside.flags(), Flags::SEND);
}

#[test]
fn a_regular_session_that_has_ended_is_left_alone() {
    let mut beside = Beside::new();
    let id = beside.regular.id;
    assert!(beside.node.session_destroy(&beside.regular, &Nobody));
    let next = beside.node.session_create("next", 0, Options::default()).unwrap();
    assert_eq!(next.index, beside.regular.index);
    let silent = Term::Tuple(vec![Term::atom("silent"), Term::atom("true")]);
    beside.call(vec![trace(&[], vec![Term::atom("call"), tracer(id)]), silent]);
    assert_eq!(beside.flags(), Flags::NONE);
}

#[test]
fn a_session_by_itself_knows_no_other_tracer() {
    let mut beside = Beside::new();
    beside.meta = beside.node.session_create("alone", 0, Options::default()).unwrap();
    let own = beside.meta.id;
    beside.call(vec![trace(&[], vec![Term::atom("send"), tracer(beside.regular.id)])]);
    assert_eq!(beside.flags(), Flags::NONE);
    beside.call(vec![trace(&[], vec![Term::atom("send"), tracer(own)])]);
    assert_eq!(beside.thread.current().flags(beside.meta.index), Flags::SEND);
}
