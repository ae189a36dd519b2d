//! A dump that a match spec requests.

mod calls;

use calls::{Call, Nobody};
use inviso_core::host::{
    clock::Clock,
    control::{Op, Target},
    drain::drain,
    event::on_call,
    flags::Flags,
    node::{Node, Who},
    plan::{kinds, Mfa},
    session::{Options, Session},
    tracee::{Class, Kind},
};
use inviso_match::{Context, Program};
use inviso_term::term::Term;
use std::sync::{Arc, Mutex};

static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);
/// The number of records in the rings at each request.
static FOUND: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The host's `on_dump`, which takes the dump at once.
fn bell() {
    let session = SESSION.lock().unwrap().clone().unwrap();
    assert!(session.take_dump());
    FOUND.lock().unwrap().push(drain(&session, 100, |_| ()).unwrap());
}

#[test]
fn it_has_the_message_of_the_call() {
    let node = Node::new(Clock::new());
    let session = node.session_create("", 0, Options { on_dump: Some(bell), ..Options::default() }).unwrap();
    *SESSION.lock().unwrap() = Some(session.clone());
    node.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    let name = Arc::new(Mfa { module: "m".into(), function: "f".into(), arity: 0 });
    let target = Target { key: 64, name, exported: true, foreign: false, is_gone: false };
    let dump = Term::Tuple(vec![Term::atom("dump")]);
    let spec = Term::List(vec![Term::Tuple(vec![Term::atom("_"), Term::List(vec![]), Term::List(vec![dump])])]);
    let program = Arc::new(Program::compile(&spec, Context::Call).unwrap());
    for (kind, dumps) in [(kinds::LOCAL, 1), (kinds::META, 2)] {
        node.function(&session, std::slice::from_ref(&target), kinds::LOCAL | kinds::META, Op::Off, &Nobody).unwrap();
        node.function(&session, std::slice::from_ref(&target), kind, Op::Match(program.clone()), &Nobody).unwrap();
        let mut thread = node.thread(node.process(Kind::Thread, 0));
        on_call(&node, &mut thread, 64, &Call { at: 64, allocated: 0, is_global: false });
        assert_eq!(*FOUND.lock().unwrap(), vec![1; dumps]);
    }
}
