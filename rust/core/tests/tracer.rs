//! Tracer modules: the order of their callbacks, and the effects of their answers.

use inviso_core::{
    host::{
        clock::Clock,
        control::Arm,
        matching::Subject,
        messages::{on_receive, on_send, About, MessageSource, Pattern},
        node::Node,
        process_events::Turn,
        seq,
        thread::Thread,
        tracee::Kind,
    },
    kinds,
    tracer::{Answer, Event, Module, Timestamp, Tracer},
    Capture, Class, Flags, Op, Options, Program, Session, Tracee, Who,
};
use inviso_match::{terms::TermView, Context};
use inviso_term::{
    etf::{self, Encoder, Full},
    record,
    term::{Identifier, Term},
};
use std::sync::{
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    mpsc, Arc, Mutex,
};

type Heard = Arc<Mutex<Vec<String>>>;

/// Records its callbacks. Answers by a function.
struct Scribe {
    heard: Heard,
    answer: Box<dyn Fn(&str) -> Answer + Send + Sync>,
}

impl Scribe {
    fn answering(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (Heard, Options) {
        let heard = Heard::default();
        let scribe = Scribe { heard: heard.clone(), answer: Box::new(answer) };
        (heard, with(Arc::new(scribe)))
    }

    fn hear(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }
}

fn with(tracer: Arc<dyn Tracer>) -> Options {
    Options { tracer: Some(Module(tracer)), ..Options::default() }
}

fn taken(heard: &Heard) -> Vec<String> {
    std::mem::take(&mut *heard.lock().unwrap())
}

impl Tracer for Scribe {
    fn enabled(&self, tag: &'static str, _: Option<u64>) -> Answer {
        self.hear(format!("{tag}?"));
        (self.answer)(tag)
    }
    fn trace(&self, event: &Event<'_>) {
        let mut line = format!("{} {}", event.tag(), event.term());
        for more in [event.extra(), event.match_spec_result(), event.label()].into_iter().flatten() {
            line += &format!(" + {more}");
        }
        self.hear(line);
    }
}

fn program_with(options: Options, kinds: u16, op: Op) -> (Program, inviso_core::Point, Arc<Session>) {
    let program = Program::new();
    let point = program.point("shop", "order", 1);
    let session = program.session("s", options).unwrap();
    program.function(&session, &[&point], kinds, op).unwrap();
    program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    (program, point, session)
}

fn tuple(name: &str, rest: Vec<Term>) -> Term {
    Term::Tuple([vec![Term::atom(name)], rest].concat())
}

fn spec(context: Context, head: Term, body: Vec<Term>) -> Arc<inviso_match::Program> {
    let clause = Term::Tuple(vec![head, Term::List(vec![]), Term::List(body)]);
    let spec = Term::List(vec![clause]);
    Arc::new(inviso_match::Program::compile(&spec, context).unwrap_or_else(|problems| panic!("{problems:?}")))
}

#[test]
fn a_tracer_is_asked_before_the_match_spec_runs_and_told_after_it() {
    let body = vec![
        tuple("set_tcw", vec![Term::from(9)]),
        tuple("return_trace", vec![]),
        tuple("message", vec![Term::str("seen")]),
    ];
    let wanted = Arc::new(AtomicBool::new(false));
    let is_wanted = wanted.clone();
    let (heard, options) =
        Scribe::answering(move |_| if is_wanted.load(SeqCst) { Answer::Trace } else { Answer::Discard });
    let spec = spec(Context::Call, Term::atom("_"), body);
    let (program, order, _session) = program_with(options, kinds::LOCAL, Op::Match(spec));
    drop(order.enter(|out| out.int(1)));
    let asked = taken(&heard);
    assert_eq!(asked.first().map(String::as_str), Some("trace_status?"));
    assert_eq!(asked.last().map(String::as_str), Some("call?"));
    assert_eq!(program.node().control_word(), 0, "the match spec of a call that is discarded has run");
    wanted.store(true, SeqCst);
    drop(order.enter(|out| out.int(2)));
    assert_eq!(program.node().control_word(), 9);
    assert_eq!(
        taken(&heard),
        ["call?", "call {shop,order,[2]} + <<\"seen\">>", "return_from?", "return_from {shop,order,1} + []"]
            .map(|line| line.replace("+ []", &format!("+ {}", Term::Cut("result".into()))))
    );
}

#[test]
fn counters_go_on_beside_a_tracer_and_other_sessions_are_as_they_were() {
    let (heard, options) = Scribe::answering(|_| Answer::Discard);
    let (program, order, session) = program_with(options, kinds::LOCAL | kinds::COUNT, Op::On);
    let rings = program.session("rings", Options::default()).unwrap();
    program.function(&rings, &[&order], kinds::LOCAL, Op::On).unwrap();
    program.flags(&rings, Who::All(Class::Process), true, Flags::CALL).unwrap();
    for n in 0..5 {
        drop(order.enter(|out| out.int(n)));
    }
    assert_eq!(program.count(&session, &order), Some(5));
    assert_eq!(taken(&heard).iter().filter(|line| *line == "call?").count(), 5);
    let mut seen = 0;
    inviso_core::host::drain::drain(&rings, usize::MAX, |_| seen += 1).unwrap();
    assert_eq!(seen, 5);
    assert!(session.feeds().is_empty(), "a session with a tracer module has no rings");
}

#[test]
fn remove_takes_the_flags_of_one_process() {
    let (heard, options) = Scribe::answering(|tag| if tag == "call" { Answer::Remove } else { Answer::Trace });
    let (program, order, session) = program_with(options, kinds::LOCAL, Op::On);
    let other = program.node().process(Kind::Thread, 0);
    drop(order.enter(|out| out.int(1)));
    let own = program.current().unwrap();
    assert_eq!(own.flags(session.index), Flags::NONE);
    assert_eq!(other.flags(session.index), Flags::CALL);
    taken(&heard);
    drop(order.enter(|out| out.int(1)));
    assert!(taken(&heard).is_empty());
}

#[test]
fn a_dead_tracer_says_so_and_no_flags_are_left() {
    let (heard, options) = Scribe::answering(|tag| if tag == "trace_status" { Answer::Remove } else { Answer::Trace });
    let (program, order, session) = program_with(options, kinds::LOCAL, Op::On);
    assert_eq!(session.new_flags(Kind::Thread), Flags::NONE);
    drop(order.enter(|out| out.int(1)));
    assert!(taken(&heard).iter().all(|line| line == "trace_status?"));
    let own = program.current().unwrap();
    assert_eq!(program.flags(&session, Who::One(&own), true, Flags::CALL), Ok(1));
    assert_eq!(own.flags(session.index), Flags::NONE);
}

#[test]
fn what_a_tracer_calls_is_not_told() {
    struct Calls(Mutex<Option<inviso_core::Point>>, AtomicUsize);
    impl Tracer for Calls {
        fn enabled(&self, _: &'static str, _: Option<u64>) -> Answer {
            self.call();
            Answer::Trace
        }
        fn trace(&self, _: &Event<'_>) {
            self.1.fetch_add(1, SeqCst);
            self.call();
        }
    }
    impl Calls {
        fn call(&self) {
            if let Some(point) = &*self.0.lock().unwrap() {
                drop(point.enter(|out| out.int(0)));
            }
        }
    }
    let calls = Arc::new(Calls(Mutex::default(), AtomicUsize::default()));
    let (_program, order, _session) = program_with(with(calls.clone()), kinds::LOCAL, Op::On);
    *calls.0.lock().unwrap() = Some(order.clone());
    for _ in 0..3 {
        drop(order.enter(|out| out.int(1)));
    }
    assert_eq!(calls.1.load(SeqCst), 3);
}

#[test]
fn a_panic_is_counted_and_the_program_goes_on() {
    struct Panics;
    impl Tracer for Panics {
        fn enabled(&self, tag: &'static str, _: Option<u64>) -> Answer {
            assert_ne!(tag, "return_to");
            Answer::Trace
        }
        fn trace(&self, _: &Event<'_>) {
            panic!("of the tracer");
        }
    }
    let (program, order, session) = program_with(with(Arc::new(Panics)), kinds::LOCAL, Op::On);
    drop(order.enter(|out| out.int(1)));
    drop(order.enter(|out| out.int(1)));
    assert_eq!(session.tracer_errors(), 2);
    assert!(!inviso_core::host::tracer::is_calling());
    // another session's tracer still gets events, and the end of this session doesn't wait
    let (heard, options) = Scribe::answering(|_| Answer::Trace);
    let other = program.session("other", options).unwrap();
    program.function(&other, &[&order], kinds::LOCAL, Op::On).unwrap();
    program.flags(&other, Who::All(Class::Process), true, Flags::CALL).unwrap();
    taken(&heard);
    drop(order.enter(|out| out.int(1)));
    assert_eq!(session.tracer_errors(), 3);
    assert_eq!(taken(&heard), ["call?", "call {shop,order,[1]}"]);
    assert!(program.destroy(&session));
}

/// A tracer that panics in `enabled` gets no event and keeps its flags.
#[test]
fn a_panic_is_no_answer() {
    let (heard, options) = Scribe::answering(|tag| if tag == "call" { panic!("of the tracer") } else { Answer::Trace });
    let (program, order, session) = program_with(options, kinds::LOCAL, Op::On);
    taken(&heard);
    for errors in 1..3 {
        drop(order.enter(|out| out.int(1)));
        assert_eq!((session.tracer_errors(), taken(&heard)), (errors, vec!["call?".to_owned()]));
    }
    assert!(program.current().unwrap().flags(session.index).has(Flags::CALL));
    assert!(program.destroy(&session));
    // also when it is asked for its status
    let (_heard, options) = Scribe::answering(|_| panic!("of the tracer"));
    let (program, _order, session) = program_with(options, kinds::LOCAL, Op::On);
    let before = session.tracer_errors();
    assert_eq!(session.tracer_status(None), None);
    assert!(program.node().trace_status(&session, None));
    assert_eq!(session.tracer_errors(), before + 2);
    assert!(!inviso_core::host::tracer::is_calling());
}

#[test]
fn the_end_of_a_session_waits_for_a_callback_but_its_own() {
    struct Slow(mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>, AtomicBool);
    impl Tracer for Slow {
        fn enabled(&self, _: &'static str, _: Option<u64>) -> Answer {
            Answer::Trace
        }
        fn trace(&self, _: &Event<'_>) {
            self.0.send(()).unwrap();
            self.1.lock().unwrap().recv().unwrap();
            self.2.store(true, SeqCst);
        }
    }
    let (entered, inside) = mpsc::channel();
    let (leave, left) = mpsc::channel();
    let slow = Arc::new(Slow(entered, Mutex::new(left), AtomicBool::new(false)));
    let (program, order, session) = program_with(with(slow.clone()), kinds::LOCAL, Op::On);
    let caller = std::thread::spawn(move || drop(order.enter(|out| out.int(1))));
    inside.recv().unwrap();
    let ends = std::thread::spawn(move || {
        assert!(program.destroy(&session));
        assert!(slow.2.load(SeqCst), "destroyed while a callback ran");
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    leave.send(()).unwrap();
    ends.join().unwrap();
    caller.join().unwrap();

    struct Ends(Mutex<Option<(Program, Arc<Session>)>>);
    impl Tracer for Ends {
        fn enabled(&self, _: &'static str, _: Option<u64>) -> Answer {
            Answer::Trace
        }
        fn trace(&self, _: &Event<'_>) {
            if let Some((program, session)) = self.0.lock().unwrap().take() {
                assert!(program.destroy(&session));
            }
        }
    }
    let ends = Arc::new(Ends(Mutex::default()));
    let (program, order, session) = program_with(with(ends.clone()), kinds::LOCAL, Op::On);
    *ends.0.lock().unwrap() = Some((program, session.clone()));
    drop(order.enter(|out| out.int(1)));
    assert!(!session.is_alive() && session.tracer_errors() == 0);
}

struct Nobody;

impl Arm for Nobody {
    fn arm(&self, _: &[(usize, u8)], _: u8) {}
}

/// A message of terms: `[Receiver, Message]` or `[Node, Sender, Message]`.
struct Letter(Vec<Term>, u64);

impl Subject for Letter {
    type View<'v> = TermView<'v>;

    fn count(&self) -> usize {
        self.0.len()
    }
    fn argument(&self, n: usize) -> Option<TermView<'_>> {
        self.0.get(n).map(TermView)
    }
    fn write(&self, view: TermView<'_>, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.term(view.0)
    }
}

impl MessageSource for Letter {
    fn message(&self, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.term(self.0.last().unwrap())
    }
    fn message_late(&self, out: &mut Vec<u8>, _: &Session, _: u16) {
        *out = etf::encode(self.0.last().unwrap());
    }
    fn process(&self) -> u64 {
        self.1
    }
    fn kind(&self) -> record::numbered::MessageKind {
        record::numbered::MessageKind::Item
    }
    fn sender(&self) -> u32 {
        0
    }
    fn number(&self) -> u64 {
        0
    }
    fn name(&self) -> Term {
        self.0[0].clone()
    }
}

fn world(options: Options, flags: Flags) -> (Arc<Node>, Thread, Vec<Arc<Tracee>>, Arc<Session>) {
    let node = Node::new(Clock::new());
    let all = [Kind::Thread, Kind::Thread, Kind::Port].map(|kind| node.process(kind, 0)).to_vec();
    let thread = node.thread(all[0].clone());
    let session = node.session_create("s", 0, options).unwrap();
    for class in [Class::Process, Class::Port] {
        node.flags(&session, Who::All(class), true, flags).unwrap();
    }
    (node, thread, all, session)
}

#[test]
fn messages_go_through_their_match_spec_when_the_tracer_wants_them() {
    let (heard, options) = Scribe::answering(|tag| if tag == "receive" { Answer::Discard } else { Answer::Trace });
    let (node, mut thread, all, session) = world(options, Flags::SEND | Flags::RECEIVE);
    taken(&heard);
    let to = all[1].pid;
    let letter = |message: i64| Letter(vec![Term::Pid(Identifier::own(to)), Term::from(message)], to);
    let head = Term::List(vec![Term::atom("_"), Term::from(2)]);
    let only_two = spec(Context::Send, head, vec![tuple("message", vec![Term::atom("two")])]);
    on_send(&node, &mut thread, About::Current, true, &letter(1));
    node.messages(&session, |patterns| patterns.send = Pattern::Spec(only_two), &Nobody).unwrap();
    on_send(&node, &mut thread, About::Current, true, &letter(1));
    on_send(&node, &mut thread, About::Current, true, &letter(2));
    on_send(&node, &mut thread, About::Current, false, &Letter(vec![Term::atom("gone"), Term::from(2)], 0));
    on_receive(&node, &mut thread, About::Other(&all[1]), &letter(3));
    let pid = Term::Pid(Identifier::own(to));
    assert_eq!(
        taken(&heard),
        [
            "send?".to_string(),
            format!("send 1 + {pid}"),
            "send?".into(),
            "send?".into(),
            format!("send 2 + {pid} + two"),
            "send_to_non_existing_process?".into(),
            "send_to_non_existing_process 2 + gone + two".into(),
            "receive?".into(),
        ]
    );
}

/// Records which of its callbacks is called.
struct Pairs(Heard);

macro_rules! own {
    ($($enabled:ident $trace:ident)*) => {
        impl Tracer for Pairs {
            fn enabled(&self, tag: &'static str, _: Option<u64>) -> Answer {
                if tag != "trace_status" {
                    self.0.lock().unwrap().push(format!("enabled {tag}"));
                }
                Answer::Trace
            }
            fn trace(&self, event: &Event<'_>) {
                self.0.lock().unwrap().push(format!("trace {}", event.tag()));
            }
            $(
                fn $enabled(&self, tag: &'static str, _: Option<u64>) -> Answer {
                    self.0.lock().unwrap().push(format!("{} {tag}", stringify!($enabled)));
                    Answer::Trace
                }
                fn $trace(&self, event: &Event<'_>) {
                    self.0.lock().unwrap().push(format!("{} {}", stringify!($trace), event.tag()));
                }
            )*
        }
    };
}

own! {
    enabled_call trace_call
    enabled_send trace_send
    enabled_receive trace_receive
    enabled_procs trace_procs
    enabled_ports trace_ports
    enabled_running_procs trace_running_procs
    enabled_running_ports trace_running_ports
    enabled_garbage_collection trace_garbage_collection
}

#[test]
fn each_tag_goes_to_its_own_pair() {
    let nothing = etf::encode(&Term::List(vec![]));
    let tell = |node: &Node, thread: &mut Thread, about: About<'_>, kind: record::Kind| {
        node.emit_event(thread, about, Flags::ALL, kind, 4, &nothing);
    };
    use record::Kind as K;
    let cases: [(&str, bool, &[K]); 7] = [
        ("call", false, &[K::Call, K::CallArity, K::ReturnTo, K::ReturnFrom, K::ExceptionFrom]),
        ("send", false, &[K::Send, K::SendToNonExisting]),
        ("receive", false, &[K::Receive]),
        (
            "procs",
            false,
            &[
                K::Spawn,
                K::Spawned,
                K::Exit,
                K::Register,
                K::Unregister,
                K::Link,
                K::Unlink,
                K::GettingLinked,
                K::GettingUnlinked,
            ],
        ),
        ("ports", true, &[K::Open, K::Closed, K::Register, K::Link, K::Unlink, K::GettingLinked, K::GettingUnlinked]),
        (
            "garbage_collection",
            false,
            &[K::GcMinorStart, K::GcMinorEnd, K::GcMajorStart, K::GcMajorEnd, K::GcMaxHeapSize],
        ),
        ("running_ports", true, &[K::In, K::Out]),
    ];
    let heard = Heard::default();
    let (node, mut thread, all, _session) = world(with(Arc::new(Pairs(heard.clone()))), Flags::ALL);
    for (group, port, kinds) in cases {
        for kind in kinds {
            let about = if port { About::Other(&all[2]) } else { About::Current };
            tell(&node, &mut thread, about, *kind);
            let tag = kind.tag();
            assert_eq!(taken(&heard), [format!("enabled_{group} {tag}"), format!("trace_{group} {tag}")]);
        }
    }
    for (turn, tag) in [(Turn::In, "in"), (Turn::Out, "out"), (Turn::Exited, "out_exited")] {
        node.on_turn(&mut thread, About::Current, turn, Flags::RUNNING, &nothing);
        assert_eq!(taken(&heard), [format!("enabled_running_procs {tag}"), format!("trace_running_procs {tag}")]);
    }
}

#[test]
fn sequential_tracing_tells_its_label_in_the_tracee_s_place() {
    let (heard, options) = Scribe::answering(|_| Answer::Trace);
    let (node, mut thread, all, _) = world(Options::default(), Flags::NONE);
    let tracer = node.session_create("seq", 0, Options { is_inner: true, ..options }).unwrap();
    node.set_seq_tracer(Some(tracer));
    node.seq_change(&all[0], |token| {
        token.flags = seq::flags::PRINT | seq::flags::MONOTONIC_TIMESTAMP;
        token.label = etf::encode(&Term::str("order 7")).into();
    });
    node.seq_print(&mut thread, None, |out, _| out.int(5));
    let me = Term::Pid(Identifier::own(all[0].pid));
    assert_eq!(
        taken(&heard),
        ["seq_trace?".into(), format!("seq_trace {{print,{{0,1}},{me},[],5}} + <<\"order 7\">>")]
    );
    let (heard, options) = Scribe::answering(|_| Answer::Remove);
    let tracer = node.session_create("seq", 0, Options { is_inner: true, ..options }).unwrap();
    node.set_seq_tracer(Some(tracer));
    node.seq_print(&mut thread, None, |out, _| out.int(5));
    node.seq_print(&mut thread, None, |out, _| out.int(5));
    assert_eq!(taken(&heard), ["seq_trace?"]);
    assert!(node.seq_tracer().is_none());
}

#[test]
fn opts_say_what_was_asked_for() {
    #[derive(Default)]
    struct Opts(Mutex<Vec<(Option<Timestamp>, bool)>>);
    impl Tracer for Opts {
        fn enabled(&self, _: &'static str, _: Option<u64>) -> Answer {
            Answer::Trace
        }
        fn trace(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push((event.timestamp(), event.scheduler_id().is_some()));
        }
    }
    let opts = Arc::new(Opts::default());
    let (node, mut thread, all, session) = world(with(opts.clone()), Flags::PROCS);
    let cases = [
        (Flags::NONE, (None, false)),
        (Flags::MONOTONIC_TIMESTAMP, (Some(Timestamp::Monotonic), false)),
        (Flags::STRICT_MONOTONIC_TIMESTAMP, (Some(Timestamp::StrictMonotonic), false)),
        (Flags::TIMESTAMP, (Some(Timestamp::Timestamp), false)),
        (Flags::SCHEDULER_ID, (Some(Timestamp::Timestamp), true)),
    ];
    for (flag, expected) in cases {
        node.flags(&session, Who::One(&all[0]), true, flag).unwrap();
        node.on_process_exit(&mut thread, About::Current, &etf::encode(&Term::atom("normal")));
        assert_eq!(opts.0.lock().unwrap().last(), Some(&expected));
    }
}
