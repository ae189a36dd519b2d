//! Trace points for Rust programs: a program that is its own host.
//!
//! A [`Point`] stands for a function. While no session traces it, entering it is one relaxed load.
//!
//! # Roles
//! Any thread enters and leaves points; its scheduler is in a thread-local variable. The control side arms points, under the control
//! lock.
//!
//! # States
//! A point is armed with a set of [`events`], which is empty at first. A call is open from [`Point::enter`] until it is dropped.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `armed` | [`Arm::arm`], `Relaxed` | threads that enter, `Relaxed` | a hint: the plan is in the snapshot, and an event without a plan does nothing |
//!
//! # Checked by
//! `tests/exact.rs`, `tests/growth.rs`, `tests/timers.rs`.
//!
//! ```
//! use inviso_core::{kinds, Class, Flags, Op, Options, Program, Who};
//!
//! let program = Program::new();
//! let order = program.point("shop", "order", 1);
//! let session = program.session("first look", Options::default()).unwrap();
//! program.function(&session, &[&order], kinds::COUNT, Op::On).unwrap();
//! for n in 0..3 {
//!     let _call = order.enter(|out| out.int(n));
//! }
//! assert_eq!(program.count(&session, &order), Some(3));
//! # program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
//! ```
#![forbid(unsafe_code)]

use crate::{
    clock::Clock,
    control::{Arm, Op, Target},
    record::identity::Kind,
    state::{
        error::Error,
        flags::Flags,
        node::{Node, Who},
        plan::{events, Mfa},
        session::{Capture, Options, Session},
        setting::kinds,
        thread::Thread,
    },
    sync::{AtomicU8, Mutex, Ordering::Relaxed, Unpoisoned},
    trace::{
        event::{self, Activation, Exit},
        matching::Subject,
    },
};
use inviso_match::terms::TermView;
use inviso_term::{
    etf::{self, Encoder, Full},
    term::Term,
};
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

/// A Rust program that can be traced. Clones are the same program.
#[derive(Clone)]
pub struct Program(Arc<Inner>);

struct Inner {
    node: Arc<Node>,
    points: Mutex<Vec<Arc<PointState>>>,
}

struct PointState {
    key: usize,
    name: Arc<Mfa>,
    armed: AtomicU8,
    node: Arc<Node>,
}

/// A function of a Rust program that can be traced.
#[derive(Clone)]
pub struct Point(Arc<PointState>);

/// This thread's scheduler of one node. It ends with the thread.
struct ThreadScheduler {
    node: Arc<Node>,
    thread: Option<Thread>,
    depth: usize,
}

impl Drop for ThreadScheduler {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let own = thread.own().clone();
            self.node.end_thread(thread);
            self.node.end_process(&own);
            self.node.fold_counters(&own);
        }
    }
}

thread_local! {
    static SCHEDULERS: RefCell<Vec<ThreadScheduler>> = const { RefCell::new(Vec::new()) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call of a trace point.
struct PointCall<'a, F> {
    at: usize,
    name: &'a Mfa,
    arguments: &'a F,
    /// The arguments, after a match specification has read them.
    seen: OnceCell<Vec<Term>>,
}

impl<'a, F: Fn(&mut Encoder<'_>) -> Result<(), Full>> PointCall<'a, F> {
    fn new(at: usize, name: &'a Mfa, arguments: &'a F) -> Self {
        PointCall { at, name, arguments, seen: OnceCell::new() }
    }

    fn terms(&self) -> &[Term] {
        self.seen.get_or_init(|| {
            let mut room = vec![0; 1 << 16];
            let mut out = Encoder::new(&mut room);
            let written = out.list(self.name.arity as usize).and_then(|()| (self.arguments)(&mut out));
            match written.and_then(|()| out.nil()).ok().and_then(|()| etf::decode(out.written()).ok()) {
                Some(Term::List(arguments)) => arguments,
                _ => Vec::new(),
            }
        })
    }
}

impl<F: Fn(&mut Encoder<'_>) -> Result<(), Full>> Subject for PointCall<'_, F> {
    type View<'v>
        = TermView<'v>
    where
        Self: 'v;

    fn count(&self) -> usize {
        self.name.arity as usize
    }
    fn argument(&self, n: usize) -> Option<TermView<'_>> {
        self.terms().get(n).map(TermView)
    }
    fn write(&self, view: TermView<'_>, out: &mut Encoder<'_>, _: &Capture) -> Result<(), Full> {
        out.term(view.0)
    }
}

impl<F: Fn(&mut Encoder<'_>) -> Result<(), Full>> Activation for PointCall<'_, F> {
    fn address(&self) -> usize {
        self.at
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
        out.list(self.name.arity as usize)?;
        (self.arguments)(out)?;
        out.nil()
    }
    /// The same values: a trace point has no objects.
    fn arguments_late(&self, out: &mut Vec<u8>, session: &Session, _scheduler: u16) {
        let capture = &session.options.capture;
        out.resize(capture.total, 0);
        let mut encoder = Encoder::new(out);
        if self.arguments(&mut encoder, capture).is_err() {
            encoder.truncate(0);
            let _ = encoder.cut("arguments");
        }
        let length = encoder.len();
        out.truncate(length);
    }
    fn name(&self, out: &mut Encoder<'_>) -> bool {
        write_name(out, self.name).is_ok()
    }
    fn caller_function(&self) -> (usize, usize) {
        (0, 0)
    }
    fn caller(&self, _out: &mut Encoder<'_>) -> usize {
        0
    }
}

fn write_name(out: &mut Encoder<'_>, name: &Mfa) -> Result<(), Full> {
    out.tuple(3)?;
    out.atom(&name.module)?;
    out.atom(&name.function)?;
    out.int(i64::from(name.arity))
}

/// An open call of a trace point. It ends when this is dropped.
#[must_use = "the call ends when this is dropped"]
pub struct Call<'a> {
    point: Option<&'a PointState>,
    at: usize,
}

impl Point {
    /// A call begins. `arguments` writes as many terms as the point has parameters, and runs only for a message or a match
    /// specification.
    #[inline(always)]
    pub fn enter(&self, arguments: impl Fn(&mut Encoder<'_>) -> Result<(), Full>) -> Call<'_> {
        if self.0.armed.load(Relaxed) == 0 {
            return Call { point: None, at: 0 };
        }
        enter(&self.0, arguments)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Mfa {
        &self.0.name
    }
}

fn enter(state: &PointState, arguments: impl Fn(&mut Encoder<'_>) -> Result<(), Full>) -> Call<'_> {
    let mut at = 0;
    with_scheduler(&state.node, |thread, depth| {
        let mark = *depth + 1;
        let call = PointCall::new(mark, &state.name, &arguments);
        event::on_call(&state.node, thread, state.key, &call);
        if state.armed.load(Relaxed) & events::END != 0 {
            *depth = mark;
            at = mark;
        }
    });
    Call { point: (at != 0).then_some(state), at }
}

impl Drop for Call<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(state) = self.point {
            exit(state, self.at);
        }
    }
}

fn exit(state: &PointState, at: usize) {
    let how = if std::thread::panicking() { Exit::Unwind } else { Exit::Return };
    with_scheduler(&state.node, |thread, depth| {
        let nothing = |_: &mut Encoder<'_>| Ok(());
        let call = PointCall::new(at, &state.name, &nothing);
        event::on_exit(&state.node, thread, state.key, how, &call);
        *depth = at - 1;
    });
}

/// Runs `with` on this thread's scheduler, unless that runs already or the thread is ending.
#[inline(always)]
fn with_scheduler(node: &Arc<Node>, with: impl FnOnce(&mut Thread, &mut usize)) {
    if INSIDE.replace(true) {
        return;
    }
    let _ = SCHEDULERS.try_with(|schedulers| {
        let mut all = schedulers.borrow_mut();
        let at = match all.iter().position(|scheduler| Arc::ptr_eq(&scheduler.node, node)) {
            Some(at) => at,
            None => {
                let own = node.process(Kind::Thread, 0);
                all.push(ThreadScheduler { node: node.clone(), thread: Some(node.thread(own)), depth: 0 });
                all.len() - 1
            }
        };
        let ThreadScheduler { thread, depth, .. } = &mut all[at];
        if let Some(thread) = thread {
            with(thread, depth);
        }
    });
    INSIDE.set(false);
}

impl Arm for Program {
    fn arm(&self, functions: &[(usize, u8)], _all: u8) {
        let points = self.0.points.lock().unpoisoned();
        for (key, events) in functions {
            points[*key - 1].armed.store(*events, Relaxed);
        }
    }
}

impl Program {
    /// A program in which nothing is traced.
    #[must_use]
    pub fn new() -> Self {
        Program(Arc::new(Inner { node: Node::new(Clock::new()), points: Mutex::new(Vec::new()) }))
    }

    /// What a host sees of the program.
    #[must_use]
    pub fn node(&self) -> &Arc<Node> {
        &self.0.node
    }

    /// A new trace point. Make it once, at the program's start, and keep it.
    #[must_use]
    pub fn point(&self, module: &str, function: &str, arity: u32) -> Point {
        let mut points = self.0.points.lock().unpoisoned();
        let state = Arc::new(PointState {
            key: points.len() + 1,
            name: Arc::new(Mfa { module: module.into(), function: function.into(), arity }),
            armed: AtomicU8::new(0),
            node: self.0.node.clone(),
        });
        points.push(state.clone());
        Point(state)
    }

    /// The calling thread as a process.
    #[must_use]
    pub fn current(&self) -> Option<Arc<crate::state::tracee::Tracee>> {
        let mut own = None;
        with_scheduler(&self.0.node, |thread, _| own = Some(thread.own().clone()));
        own
    }

    /// A session that is its own tracer.
    ///
    /// # Errors
    /// [`Error::Limit`].
    pub fn session(&self, name: &str, options: Options) -> Result<Arc<Session>, Error> {
        self.0.node.session_create(name, 0, options)
    }

    /// Ends a session; `false` if it had ended before.
    pub fn destroy(&self, session: &Arc<Session>) -> bool {
        self.0.node.session_destroy(session, self)
    }

    /// Sets [`kinds`] of tracing on points, or removes them; answers how many points there were.
    ///
    /// # Errors
    /// [`Error::SessionDead`].
    pub fn function(&self, session: &Arc<Session>, points: &[&Point], kinds: u16, op: Op) -> Result<usize, Error> {
        let targets: Vec<Target> = points
            .iter()
            .map(|p| Target { key: p.0.key, name: p.0.name.clone(), exported: true, foreign: false, is_gone: false })
            .collect();
        self.0.node.function(session, &targets, kinds, op, self)
    }

    /// Switches trace flags of threads, and answers how many matched. A session sees calls only in threads that have
    /// [`Flags::CALL`].
    ///
    /// # Errors
    /// [`Error::SessionDead`], [`Error::ProcessDead`].
    pub fn flags(&self, session: &Arc<Session>, who: Who<'_>, how: bool, flags: Flags) -> Result<usize, Error> {
        self.0.node.flags(session, who, how, flags)
    }

    /// The name of the function that an event is about: see [`Event::what`](crate::Event::what). Only calls and their
    /// ends have a function. `None` if no function has the number.
    ///
    /// ```
    /// use inviso_core::{drain, kinds, Class, Flags, Op, Options, Program, What, Who};
    ///
    /// let program = Program::new();
    /// let order = program.point("shop", "order", 0);
    /// let session = program.session("who", Options::default()).unwrap();
    /// program.function(&session, &[&order], kinds::LOCAL, Op::On).unwrap();
    /// program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    /// drop(order.enter(|_| Ok(())));
    /// drop(order.enter(|_| Ok(())));
    ///
    /// let mut seen = Vec::new();
    /// drain(&session, 10, |record| {
    ///     if let What::Event(event) = record.what {
    ///         seen.push((program.nanos(record.ticks), program.name(event.what).unwrap()));
    ///     }
    /// })
    /// .unwrap();
    /// assert!(seen.len() == 2 && seen[0].0 <= seen[1].0);
    /// assert_eq!((&*seen[0].1.module, &*seen[0].1.function, seen[0].1.arity), ("shop", "order", 0));
    /// assert_eq!(program.name(u64::MAX), None);
    /// ```
    #[must_use]
    pub fn name(&self, what: u64) -> Option<Arc<Mfa>> {
        self.0.node.name(u32::try_from(what).ok()?)
    }

    /// The nanoseconds since the program's beginning at a record's ticks. They never go back as ticks grow. [`Program::name`] has an example.
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> u64 {
        self.0.node.clock.follow();
        self.0.node.clock.monotonic(ticks)
    }

    /// The value of a point's call_count in a session, `None` if it has none.
    #[must_use]
    pub fn count(&self, session: &Session, point: &Point) -> Option<u64> {
        let (_, entry) = self.0.node.entry(session, point.0.key)?;
        (entry.has & kinds::COUNT != 0).then(|| self.0.node.count(entry.count))
    }

    /// Calls and own time of a point by process: `(pid, calls, nanoseconds)`; `None` if its time is not counted.
    #[must_use]
    pub fn time(&self, session: &Session, point: &Point) -> Option<Vec<(u64, u64, u64)>> {
        let (slot, entry) = self.0.node.entry(session, point.0.key)?;
        let wanted = crate::count::cells::key(slot, crate::count::cells::Measure::Time);
        let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        session.each_function(|r| {
            if r.key == wanted && r.generation == entry.time {
                let sum = sums.entry(r.pid).or_default();
                *sum = (sum.0 + r.count, sum.1 + r.amount);
            }
        });
        let nanos = |(pid, (calls, ticks))| (pid, calls, self.0.node.clock.nanos(ticks));
        (entry.has & kinds::TIME != 0).then(|| sums.into_iter().map(nanos).collect())
    }
}

impl Default for Program {
    fn default() -> Self {
        Self::new()
    }
}
