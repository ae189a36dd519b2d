//! Messages, links and names against slow models: the events of each session, in order.

use inviso_core::host::{
    clock::Clock,
    control::Arm,
    drain::{drain, Event, What},
    flags::Flags,
    matching::Subject,
    messages::{on_receive, on_send, reserve, About, MessageSource, Pattern},
    monitor,
    node::{Node, Who},
    record::event::with_receiver,
    relations::Unnamed,
    session::{Capture, Options, Session, Takes},
    thread::Thread,
    tracee::{Class, Kind, Tracee},
};
use inviso_match::{terms::TermView, Context, Program};
use inviso_term::{
    etf::{self, Encoder, Full},
    record::{
        self,
        numbered::{MessageKind, Number},
    },
    term::{Identifier, Term},
};
use proptest::prelude::*;
use std::{collections::BTreeSet, sync::Arc};

struct Nobody;

impl Arm for Nobody {
    fn arm(&self, _: &[(usize, u8)], _: u8) {}
}

/// A message of terms.
struct Letter {
    parts: Vec<Term>,
    to: u64,
    number: u64,
    sender: u32,
}

impl Letter {
    fn to(pid: u64, message: Term) -> Letter {
        Letter { parts: vec![Term::Pid(Identifier::own(pid)), message], to: pid, number: 0, sender: 0 }
    }

    fn named(name: &str, message: Term) -> Letter {
        Letter { parts: vec![Term::atom(name), message], to: 0, number: 0, sender: 0 }
    }

    fn from(pid: u64, message: Term) -> Letter {
        let parts = vec![Term::atom("nonode@nohost"), Term::Pid(Identifier::own(pid)), message];
        Letter { parts, to: 0, number: 0, sender: 0 }
    }
}

impl Subject for Letter {
    type View<'v> = TermView<'v>;

    fn count(&self) -> usize {
        self.parts.len()
    }
    fn argument(&self, n: usize) -> Option<TermView<'_>> {
        self.parts.get(n).map(TermView)
    }
    fn write(&self, view: TermView<'_>, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.term(view.0)
    }
}

impl MessageSource for Letter {
    fn message(&self, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.term(self.parts.last().unwrap())
    }
    fn message_late(&self, out: &mut Vec<u8>, _: &Session, _: u16) {
        *out = etf::encode(self.parts.last().unwrap());
    }
    fn process(&self) -> u64 {
        self.to
    }
    fn number(&self) -> u64 {
        self.number
    }
    fn kind(&self) -> MessageKind {
        MessageKind::Result
    }
    fn sender(&self) -> u32 {
        self.sender
    }
    fn name(&self) -> Term {
        self.parts[0].clone()
    }
}

fn program(clause: Vec<Term>) -> Arc<Program> {
    let spec = Term::List(vec![Term::Tuple(clause)]);
    Arc::new(Program::compile(&spec, Context::Send).unwrap_or_else(|problems| panic!("{problems:?}")))
}

/// Accepts messages that are ints above `least`, and adds each message to its own event.
fn above(least: i64) -> Arc<Program> {
    let variable = || Term::atom("$1");
    let head = Term::List(vec![Term::atom("_"), variable()]);
    let guard = Term::Tuple(vec![Term::atom(">"), variable(), Term::from(least)]);
    let body = Term::Tuple(vec![Term::atom("message"), variable()]);
    program(vec![head, Term::List(vec![guard]), Term::List(vec![body])])
}

fn events(session: &Session) -> Vec<Event> {
    let mut all = Vec::new();
    drain(session, usize::MAX, |record| match record.what {
        What::Event(event) => all.push(event),
        What::Lost(n) => panic!("lost {n}"),
    })
    .unwrap();
    all
}

fn kinds(session: &Session) -> Vec<(u8, u64, u64)> {
    events(session).into_iter().map(|event| (event.kind, event.tracee, event.what)).collect()
}

fn world() -> (Arc<Node>, Thread, Vec<Arc<Tracee>>) {
    let node = Node::new(Clock::new());
    let processes: Vec<_> = (0..4).map(|_| node.process(Kind::Thread, 0)).collect();
    let thread = node.thread(processes[0].clone());
    (node, thread, processes)
}

fn session(node: &Node) -> Arc<Session> {
    node.session_create("s", 0, Options::default()).unwrap()
}

#[test]
fn a_name_stands_behind_the_message() {
    let (node, mut thread, _) = world();
    let session = session(&node);
    node.flags(&session, Who::All(Class::Process), true, Flags::SEND).unwrap();
    on_send(&node, &mut thread, About::Current, true, &Letter::named("logger", Term::from(5)));
    let [event] = &events(&session)[..] else { panic!("one event") };
    let (message, receiver) = with_receiver(&event.payload);
    assert_eq!((event.kind, event.what), (record::Kind::Send as u8, 0));
    assert_eq!(message, etf::encode(&Term::from(5)));
    assert_eq!(receiver, etf::encode(&Term::atom("logger")));
}

/// The numbers of the messages in a session's records.
fn numbers(session: &Session) -> Vec<Option<u64>> {
    let mut all = Vec::new();
    drain(session, usize::MAX, |record| match record.what {
        What::Event(event) => all.push(event.message(record.ticks).map(|number| {
            assert_eq!(number.sender, 0);
            number.number
        })),
        What::Lost(n) => panic!("lost {n}"),
    })
    .unwrap();
    all
}

#[test]
fn the_receipt_of_a_message_has_the_number_of_its_sending_in_every_session() {
    let (node, mut thread, p) = world();
    let letter = |n: i64| Letter::to(p[1].pid, Term::from(n));
    assert_eq!(on_send(&node, &mut thread, About::Current, true, &letter(0)), 0, "no session writes of it");
    let (one, two) = (session(&node), session(&node));
    for session in [&one, &two] {
        node.flags(session, Who::All(Class::Process), true, Flags::SEND | Flags::RECEIVE).unwrap();
    }
    node.messages(&two, |all| all.send = Pattern::Spec(above(1)), &Nobody).unwrap();
    let sent: Vec<u64> = (0..4).map(|n| on_send(&node, &mut thread, About::Current, n != 3, &letter(n))).collect();
    assert!(sent.iter().all(|number| number >> 48 == thread.shared.number.into()));
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), 4);
    for number in [sent[2], 0] {
        let letter = Letter { number, ..Letter::from(p[0].pid, Term::from(2)) };
        on_receive(&node, &mut thread, About::Other(&p[1]), &letter);
    }
    let sent: Vec<_> = sent.into_iter().map(Some).collect();
    assert_eq!(numbers(&one), [&sent[..], &[sent[2], None]].concat());
    assert_eq!(numbers(&two), [sent[2], sent[3], sent[2], None]);
}

/// A message whose number was sent before its record was written, and one from another operating system process.
#[test]
fn a_number_that_a_record_has_itself_changes_nothing_else_of_it() {
    let (node, mut thread, p) = world();
    let text = Capture { takes: Takes::Texts, ..Capture::default() };
    let strict = Flags::SEND | Flags::RECEIVE | Flags::STRICT_MONOTONIC_TIMESTAMP;
    for (capture, flags) in
        [(Capture::default(), Flags::SEND | Flags::RECEIVE), (Capture::default(), strict), (text, strict)]
    {
        let session = node.session_create("s", 0, Options { capture, ..Options::default() }).unwrap();
        node.flags(&session, Who::All(Class::Process), true, flags).unwrap();
        node.messages(&session, |all| all.send = Pattern::Spec(above(1)), &Nobody).unwrap();
        let reserved = reserve(&node, &mut thread);
        for number in [0, reserved] {
            for letter in [Letter::to(p[1].pid, Term::from(2)), Letter::named("logger", Term::from(2))] {
                let sent = on_send(&node, &mut thread, About::Current, true, &Letter { number, ..letter });
                assert!(if number == 0 { sent > reserved } else { sent == reserved });
            }
        }
        for sender in [0, 77] {
            let letter = Letter { number: 5, sender, ..Letter::from(p[0].pid, Term::from(2)) };
            on_receive(&node, &mut thread, About::Current, &letter);
        }
        let mut records = Vec::new();
        drain(&session, usize::MAX, |record| records.push(record)).unwrap();
        let events: Vec<_> = records
            .into_iter()
            .map(|record| {
                let What::Event(event) = record.what else { panic!() };
                (event.message(record.ticks).unwrap(), event.what, event.payload, event.extra)
            })
            .collect();
        let [to, named, to_reserved, named_reserved, own, other] = &events[..] else { panic!("{events:?}") };
        for (plain, reserved_one) in [(to, to_reserved), (named, named_reserved)] {
            assert_eq!(reserved_one.0, Number { number: reserved, sender: 0, kind: MessageKind::Result });
            assert_eq!((plain.1, &plain.2, &plain.3), (reserved_one.1, &reserved_one.2, &reserved_one.3));
            assert_eq!(plain.3, etf::encode(&Term::from(2)), "what a match spec adds");
        }
        assert_eq!(with_receiver(&named.2).1, etf::encode(&Term::atom("logger")));
        let number = |sender| Number { number: 5, sender, kind: MessageKind::Item };
        assert_eq!((own.0, other.0), (number(0), number(77)));
        assert_eq!((own.1, &own.2, &own.3), (other.1, &other.2, &other.3));
        assert_eq!(other.2, etf::encode(&Term::from(2)));
        assert!(node.session_destroy(&session, &Nobody));
    }
}

#[test]
fn names_are_given_once_and_go_with_their_process() {
    let (node, mut thread, p) = world();
    let session = session(&node);
    node.flags(&session, Who::All(Class::Process), true, Flags::PROCS).unwrap();
    assert_eq!(node.register(&mut thread, "a", &p[1]), Ok(()));
    assert_eq!(node.register(&mut thread, "a", &p[2]), Err(Unnamed::Taken));
    assert_eq!(node.register(&mut thread, "b", &p[1]), Err(Unnamed::HasName));
    assert_eq!(node.whereis("a").map(|t| t.pid), Some(p[1].pid));
    node.link(&mut thread, &p[1], &p[2]);
    assert_eq!(node.unrelate(Some(&mut thread), &p[1]), [p[2].pid]);
    node.end_process(&p[1]);
    assert_eq!(node.register(&mut thread, "c", &p[1]), Err(Unnamed::Dead));
    assert!(node.whereis("a").is_none() && node.links(p[2].pid).is_empty() && !node.is_related());
    use record::Kind::*;
    let seen: Vec<u8> = kinds(&session).into_iter().map(|(kind, ..)| kind).collect();
    assert_eq!(seen, [Register, Link, GettingLinked, Unregister].map(|kind| kind as u8));
}

#[test]
fn a_name_of_a_process_that_nobody_unrelated_is_free_again() {
    let (node, mut thread, p) = world();
    assert_eq!(node.register(&mut thread, "a", &p[1]), Ok(()));
    node.end_process(&p[1]);
    assert!(node.registered().is_empty() && !node.is_related());
    assert_eq!(node.register(&mut thread, "a", &p[2]), Ok(()));
}

#[test]
fn a_limit_is_reported_to_those_that_it_is_reached_for() {
    let (node, mut thread, p) = world();
    let (low, high) = (session(&node), session(&node));
    low.set_limit(monitor::LimitEvent::LongGc, Some(10));
    high.set_limit(monitor::LimitEvent::LongGc, Some(100));
    assert_eq!(node.watched(monitor::LimitEvent::LongGc), Some(10));
    assert_eq!(node.watched(monitor::LimitEvent::LargeHeap), None);
    for took in [5u64, 50, 500] {
        node.alarm(&mut thread, p[1].pid, monitor::LimitEvent::LongGc, |_, limit| {
            (took >= limit).then(|| Term::from(took as i64))
        });
    }
    assert_eq!((events(&low).len(), events(&high).len()), (2, 1));
}

#[derive(Clone, Debug)]
enum Step {
    Flags { session: usize, process: usize, how: bool, flags: Flags },
    Pattern { session: usize, receive: bool, pattern: u8 },
    Send { from: usize, to: usize, value: i64 },
    Arrive { at: usize, from: usize, value: i64 },
    Link { from: usize, to: usize },
    Unlink { from: usize, to: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flags = prop::sample::select(vec![Flags::SEND, Flags::RECEIVE, Flags::PROCS, Flags::SILENT]);
    let step = prop_oneof![
        (0..2usize, 0..4usize, any::<bool>(), flags).prop_map(|(session, process, how, flags)| Step::Flags {
            session,
            process,
            how,
            flags
        }),
        (0..2usize, any::<bool>(), 0..3u8).prop_map(|(session, receive, pattern)| Step::Pattern {
            session,
            receive,
            pattern
        }),
        (0..4usize, 0..4usize, -20..20i64).prop_map(|(from, to, value)| Step::Send { from, to, value }),
        (0..4usize, 0..4usize, -20..20i64).prop_map(|(at, from, value)| Step::Arrive { at, from, value }),
        (0..4usize, 0..4usize).prop_map(|(from, to)| Step::Link { from, to }),
        (0..4usize, 0..4usize).prop_map(|(from, to)| Step::Unlink { from, to }),
    ];
    prop::collection::vec(step, 1..80)
}

/// The expected events of one session, by the rules.
#[derive(Default)]
struct Model {
    flags: [u32; 4],
    patterns: [u8; 2],
    expected: Vec<(u8, u64, u64)>,
}

impl Model {
    fn has(&self, process: usize, flags: Flags) -> bool {
        self.flags[process] & flags.0 != 0
    }

    /// Whether a pattern accepts a message: all, none, or a spec, which silence hides.
    fn takes(&self, receive: bool, process: usize, value: i64) -> bool {
        match self.patterns[usize::from(receive)] {
            0 => true,
            1 => false,
            _ => value > 0 && !self.has(process, Flags::SILENT),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_session_gets_the_events_of_its_rules(steps in steps()) {
        use record::Kind::{GettingLinked, GettingUnlinked, Link, Receive, Send, Unlink};
        let (node, mut thread, p) = world();
        let sessions = [session(&node), session(&node)];
        let mut models = [Model::default(), Model::default()];
        let mut links: BTreeSet<(usize, usize)> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Flags { session, process, how, flags } => {
                    node.flags(&sessions[session], Who::One(&p[process]), how, flags).unwrap();
                    let word = &mut models[session].flags[process];
                    *word = if how { *word | flags.0 } else { *word & !flags.0 };
                }
                Step::Pattern { session, receive, pattern } => {
                    models[session].patterns[usize::from(receive)] = pattern;
                    let pattern = match pattern {
                        0 => Pattern::All,
                        1 => Pattern::Nothing,
                        _ => Pattern::Spec(if receive { from_above(0) } else { above(0) }),
                    };
                    node.messages(&sessions[session], |all| match receive {
                        true => all.receive = pattern,
                        false => all.send = pattern,
                    }, &Nobody).unwrap();
                }
                Step::Send { from, to, value } => {
                    let letter = Letter::to(p[to].pid, Term::from(value));
                    on_send(&node, &mut thread, About::Other(&p[from]), true, &letter);
                    for model in &mut models {
                        if model.has(from, Flags::SEND) && model.takes(false, from, value) {
                            model.expected.push((Send as u8, p[from].pid, p[to].pid));
                        }
                    }
                }
                Step::Arrive { at, from, value } => {
                    let letter = Letter::from(p[from].pid, Term::from(value));
                    on_receive(&node, &mut thread, About::Other(&p[at]), &letter);
                    for model in &mut models {
                        if model.has(at, Flags::RECEIVE) && model.takes(true, at, value) {
                            model.expected.push((Receive as u8, p[at].pid, 0));
                        }
                    }
                }
                Step::Link { from, to } => {
                    let fresh = from != to && links.insert((from.min(to), from.max(to)));
                    prop_assert_eq!(node.link(&mut thread, &p[from], &p[to]), fresh);
                    for model in &mut models {
                        if model.has(from, Flags::PROCS) {
                            model.expected.push((Link as u8, p[from].pid, p[to].pid));
                        }
                        if fresh && model.has(to, Flags::PROCS) {
                            model.expected.push((GettingLinked as u8, p[to].pid, p[from].pid));
                        }
                    }
                }
                Step::Unlink { from, to } => {
                    let there = links.remove(&(from.min(to), from.max(to)));
                    prop_assert_eq!(node.unlink(&mut thread, &p[from], p[to].pid), there);
                    for model in &mut models {
                        if model.has(from, Flags::PROCS) {
                            model.expected.push((Unlink as u8, p[from].pid, p[to].pid));
                        }
                        if there && model.has(to, Flags::PROCS) {
                            model.expected.push((GettingUnlinked as u8, p[to].pid, p[from].pid));
                        }
                    }
                }
            }
        }
        for (session, model) in sessions.iter().zip(&models) {
            prop_assert_eq!(&kinds(session), &model.expected);
        }
    }
}

/// As [`above`], for received messages.
fn from_above(least: i64) -> Arc<Program> {
    let any = || Term::atom("_");
    let head = Term::List(vec![any(), any(), Term::atom("$1")]);
    let guard = Term::Tuple(vec![Term::atom(">"), Term::atom("$1"), Term::from(least)]);
    program(vec![head, Term::List(vec![guard]), Term::List(Vec::new())])
}
