//! `Session`: convert, call the core, convert back.

use crate::{
    counters, errors,
    host::{
        self,
        arming::Armer,
        codes::{self, Pattern as Names},
        instruments::Wants,
        outlet::Outlet,
        Host,
    },
    match_spec::{self, MatchProgram},
    pid::Pid,
    seq, terms,
    trace_port::{self, LogPort},
    tracer::{self, Given},
};
use inviso_core::{
    cells::{key, Measure},
    control::{Op, Target},
    drain,
    flags::Flags,
    messages::{Pattern, Patterns},
    monitor,
    node::Who,
    plan::{self, kinds, Entry},
    ring::Overflow,
    session::{Capture, Exceptions, Options, Session as Core, Stamps, Switched, Takes, MODULE},
    tracee::{Class, Kind, Tracee},
    tree::Tree,
};
use inviso_cpython::interpreter::calling;
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    gc::{PyTraverseError, PyVisit},
    prelude::*,
    types::PyType,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{sync::Arc, time::Duration};

/// A trace session, by a strong or a weak handle.
#[pyclass(frozen, weakref, module = "inviso._native")]
pub struct Session {
    core: Arc<Core>,
    outlet: Arc<Outlet>,
    strong: bool,
}

/// The module, name and arity of an MFA; None is a wildcard.
type Mfa = (Option<String>, Option<String>, Option<i64>);

impl Drop for Session {
    fn drop(&mut self) {
        self.doom();
    }
}

fn op(how: &str, program: Option<&Bound<'_, MatchProgram>>) -> PyResult<Op> {
    Ok(match how {
        "on" => program.map_or(Op::On, |program| Op::Match(program.get().program.clone())),
        "off" => Op::Off,
        "pause" => Op::Pause,
        "restart" => Op::Restart,
        _ => return Err(PyValueError::new_err("how")),
    })
}

/// Whether there is a clock of a thread's CPU time.
#[pyfunction]
pub fn has_cpu_clock(py: Python<'_>) -> PyResult<bool> {
    Ok(host::host(py)?.node.clock.cpu().is_some())
}

/// Makes a session. `overflow` is drop, overwrite or block (with `block_ms`); `capture` is depth, items, bytes of one and bytes
/// in all; it `takes` values, texts or objects; `clock` is fast or system. `module` is a tracer module. One step of the tracer takes `step`
/// records at most. Its match specifications switch the flags of `switched`, if that is given.
#[pyfunction]
#[pyo3(signature = (name, tracer, ring_bytes, overflow, block_ms, ended_processes, capture, takes, clock, module=None, port=None, dumps=None, step=None, switched=None))]
#[allow(clippy::too_many_arguments)]
pub fn session_create(
    py: Python<'_>, name: &str, tracer: Option<&Pid>, ring_bytes: usize, overflow: &str, block_ms: u64,
    ended_processes: usize, capture: (u32, usize, usize, usize), takes: &str, clock: &str, module: Option<Given<'_>>,
    port: Option<&LogPort>, dumps: Option<(Option<Asks<'_>>, Option<f64>)>, step: Option<usize>,
    switched: Option<&Session>,
) -> PyResult<Session> {
    let host = host::host(py)?;
    if calling::is_ending(py) {
        return Err(PyRuntimeError::new_err("the interpreter is ending; make sessions before"));
    }
    host.reap(py);
    let overflow = match overflow {
        "overwrite" => Overflow::Overwrite,
        "block" => Overflow::Block { limit: Duration::from_millis(block_ms) },
        _ => Overflow::Drop,
    };
    let takes = match takes {
        "texts" => Takes::Texts,
        "objects" => Takes::Objects,
        _ => Takes::Values,
    };
    let (depth, items, bytes, total) = capture;
    let capture = Capture { depth, items, bytes, total, takes };
    let clock = if clock == "system" { Stamps::System } else { Stamps::Ticks };
    let module = module.map(|given| tracer::make(py, given)).transpose()?;
    let told = module.as_ref().map(|made| made.module.clone());
    let switched = switched.map(|session| Switched(session.core.clone()));
    let options =
        Options { ring_bytes, overflow, ended_processes, capture, clock, tracer: told, switched, ..dumping(dumps) };
    let id = tracer.map_or(0, |t| t.id);
    let core = py.detach(|| host.node.session_create(name, id, options)).map_err(errors::raise)?;
    if let Some(made) = module {
        return Ok(Session { outlet: host.outlets.open_to(core.clone(), made), core, strong: true });
    }
    if let Some(port) = port {
        let outlet = py.detach(|| host.outlets.open_port(&host.node, core.clone(), &port.0));
        return Ok(Session { core, outlet, strong: true });
    }
    let mailbox = match tracer {
        Some(pid) => match pid.tracee(py) {
            Some(tracee) => host.mailbox(&tracee),
            None => {
                host.node.lose_tracer(&core);
                Arc::default()
            }
        },
        None => Arc::default(),
    };
    let outlet = host.outlets.open(core.clone(), mailbox, step);
    Ok(Session { core, outlet, strong: true })
}

/// The exceptions that ask for a dump.
#[derive(FromPyObject)]
pub enum Asks<'py> {
    /// Those that it takes.
    Spec(Bound<'py, MatchProgram>),
    /// Instances of these, which are kept by whoever has the session.
    Classes(Vec<Bound<'py, PyType>>),
}

/// What asks for a dump, of a session whose dumps are written when they are asked for: exceptions, and a call's seconds.
fn dumping(dumps: Option<(Option<Asks<'_>>, Option<f64>)>) -> Options {
    let Some((exceptions, slower)) = dumps else { return Options::default() };
    Options {
        on_dump: Some(inviso_port::bell::ring),
        dump_on: exceptions.map(|asks| match asks {
            Asks::Spec(program) => Exceptions::Matching(program.get().program.clone()),
            Asks::Classes(classes) => Exceptions::Of(classes.iter().map(|class| class.as_ptr() as usize).collect()),
        }),
        dump_slower: slower.map(|seconds| (seconds * 1e9) as u64),
        ..Options::default()
    }
}

/// All living sessions, by weak handles, newest first.
#[pyfunction]
pub fn sessions(py: Python<'_>) -> PyResult<Vec<Session>> {
    let host = host::host(py)?;
    if calling::is_ending(py) {
        return Ok(Vec::new()); // they end with it
    }
    host.reap(py);
    let weak = |core: Arc<Core>| Some(Session { outlet: host.outlets.of(core.id)?, core, strong: false });
    Ok(host.node.sessions().into_iter().rev().filter(|core| !core.is_inner).filter_map(weak).collect())
}

/// Whether there is an open port of this name.
#[pyfunction]
pub fn port_exists(py: Python<'_>, port: &Bound<'_, PyAny>) -> PyResult<bool> {
    let host = host::host(py)?;
    Ok(terms::local_number(port).is_some_and(|id| living(py, host, id).is_some()))
}

/// Whether there is a function of this name.
#[pyfunction]
pub fn function_exists(py: Python<'_>, mfa: Mfa) -> PyResult<bool> {
    let mut pattern = Names { module: mfa.0, function: mfa.1, arity: mfa.2 };
    if !codes::find(py, &pattern)?.is_empty() {
        return Ok(true);
    }
    pattern.arity = None;
    Ok(host::foreign::find(py, &pattern)?.is_some())
}

fn named(event: &str) -> PyResult<monitor::Event> {
    let known = monitor::Event::NAMES.into_iter().find(|(name, _)| *name == event);
    known.map(|(_, event)| event).ok_or_else(|| PyValueError::new_err("event"))
}

/// The living process or open port with this number.
fn living(py: Python<'_>, host: &'static Host, id: u64) -> Option<Arc<Tracee>> {
    let found = host.directory.living(py, host, id)?;
    (found.kind != Kind::Port || !host::ports::was_closed(py, host, &found)).then_some(found)
}

impl Session {
    /// Has the session ended soon, if this handle keeps it alive.
    fn doom(&self) {
        if !self.strong || !self.core.is_alive() {
            return;
        }
        let Some(host) = host::try_host() else { return };
        let mut doomed = host.doomed.lock().unwrap_or_else(|e| e.into_inner());
        if !doomed.iter().any(|known| Arc::ptr_eq(known, &self.core)) {
            doomed.push(self.core.clone());
            drop(doomed);
            host::schedule_burial();
        }
    }

    fn host(&self, py: Python<'_>) -> PyResult<&'static Host> {
        let host = host::host(py)?;
        if calling::is_ending(py) || host.node.session(self.core.id).is_none_or(|s| !Arc::ptr_eq(&s, &self.core)) {
            return Err(errors::raise(inviso_core::error::Error::SessionDead));
        }
        Ok(host)
    }

    /// A match spec that may set tokens, or switch flags on: what they need has to be ready before it runs.
    fn expect_actions(&self, py: Python<'_>, host: &'static Host, op: &Op) -> PyResult<()> {
        let Op::Match(program) = op else { return Ok(()) };
        if program.uses().sets_token {
            let fresh = self.core.note_tokens();
            let undo = || {
                if fresh {
                    self.core.forget_tokens()
                }
            };
            host.adjust_or(py, Wants { tokens: true, ..Wants::default() }, undo)?;
        }
        if !program.uses().switches {
            return Ok(());
        }
        let all = Flags(Flags::ALL.0 | Flags::CPU_TIMESTAMP.0);
        host.adjust(py, Wants { processes: all, ..Wants::default() })?;
        let other = self.core.options.switched.as_ref().map(|switched| &switched.0);
        for session in other.into_iter().chain([&self.core]) {
            let fresh = session.note_flags(Class::Process, all);
            if fresh.has(Flags::RETURN_TO) {
                py.detach(|| host.node.rearm(session, &Armer));
            }
        }
        Ok(())
    }

    /// The functions that a pattern takes, held; and those that are gone but for what this session has set on them.
    fn targets(&self, py: Python<'_>, host: &'static Host, mfa: Mfa) -> PyResult<Vec<Target>> {
        let pattern = Names { module: mfa.0, function: mfa.1, arity: mfa.2 };
        let mut targets = codes::targets(py, host, codes::find(py, &pattern)?);
        let known: FxHashSet<usize> = targets.iter().map(|t| t.key).collect();
        host.node.read(|snapshot| {
            let mine =
                snapshot.plans().filter(|(key, plan)| !known.contains(key) && plan.entry(self.core.id).is_some());
            targets.extend(mine.filter_map(|(key, plan)| {
                let name = host.node.names.name(plan.name).filter(|name| pattern.takes(name))?;
                Some(Target { key, name, exported: false, foreign: plan.foreign, is_gone: true })
            }));
        });
        Ok(targets)
    }

    /// The entries of every code object of this name; `None` if there is none.
    fn entries(&self, py: Python<'_>, host: &'static Host, mfa: Mfa) -> PyResult<Option<Vec<(u32, Entry)>>> {
        let mut pattern = Names { module: mfa.0, function: mfa.1, arity: mfa.2 };
        // what is set on a name is at hand: all that is loaded has to be looked through only if nothing is
        let set = self.set_on(host, &pattern);
        if !set.is_empty() {
            return Ok(Some(set));
        }
        let mut found = codes::find(py, &pattern)?;
        if found.is_empty() {
            // the arity of a function written in C is not known for sure: any will do
            pattern.arity = None;
            found.extend(host::foreign::find(py, &pattern)?);
        }
        if found.is_empty() {
            return Ok(None);
        }
        Ok(Some(found.iter().filter_map(|f| host.node.entry(&self.core, f.key)).collect()))
    }

    /// What the session has set on code objects of this name, gone but for us or not.
    fn set_on(&self, host: &Host, pattern: &Names) -> Vec<(u32, Entry)> {
        let Names { module: Some(module), function: Some(function), arity: Some(arity) } = pattern else {
            return Vec::new();
        };
        let arity = u32::try_from(*arity).unwrap_or(u32::MAX);
        let name = plan::Mfa { module: module.as_str().into(), function: function.as_str().into(), arity };
        let Some(number) = host.node.names.known(&name) else { return Vec::new() };
        host.node.read(|snapshot| {
            let named = snapshot.plans().filter(|(_, plan)| plan.name == number);
            named.filter_map(|(_, plan)| Some((plan.slot, plan.entry(self.core.id)?.clone()))).collect()
        })
    }

    /// Sums of one measure by process over several code objects: `(pid, count, amount)` by pid.
    fn measured(&self, entries: &[(u32, Entry)], measure: Measure) -> Vec<(u64, u64, u64)> {
        let wanted: FxHashMap<u32, u32> = entries
            .iter()
            .map(|(slot, e)| (key(*slot, measure), if measure == Measure::Time { e.time } else { e.memory }))
            .collect();
        let mut sums: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
        self.core.each_function(|r| {
            if wanted.get(&r.key) == Some(&r.generation) {
                let sum = sums.entry(r.pid).or_default();
                sum.0 += r.count;
                sum.1 += r.amount;
            }
        });
        let mut all: Vec<_> = sums.into_iter().map(|(pid, (count, amount))| (pid, count, amount)).collect();
        all.sort_by_key(|(pid, ..)| pid >> 2);
        all
    }
}

#[pymethods]
impl Session {
    /// The name that its maker gave it.
    #[getter]
    fn name(&self) -> &str {
        &self.core.name
    }

    /// Its number, never used twice in a process.
    #[getter]
    fn id(&self) -> u64 {
        self.core.id
    }

    /// Whether this handle keeps the session alive.
    #[getter]
    fn is_strong(&self) -> bool {
        self.strong
    }

    /// A handle that keeps nothing alive.
    fn weak(&self) -> Session {
        Session { core: self.core.clone(), outlet: self.outlet.clone(), strong: false }
    }

    /// What the tracer module is belongs to the strong handle, though the session calls it: a module that has its own session goes
    /// with it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.outlet.tracer {
            Some(tracer) if self.strong => tracer.traverse(&visit),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        // SAFETY: the collector runs attached.
        self.abandon(unsafe { Python::assume_attached() });
    }

    /// The last handle goes: no callback is called any more, and the session ends soon.
    fn abandon(&self, py: Python<'_>) {
        if self.strong {
            self.outlet.tracer.iter().for_each(|tracer| tracer.release(py));
            self.doom();
        }
    }

    /// Whether the session may still be used.
    fn is_alive(&self, py: Python<'_>) -> bool {
        self.host(py).is_ok()
    }

    /// The pid of the tracer process, or None if the session is its own tracer.
    #[getter]
    fn tracer(&self) -> Option<Pid> {
        match self.core.tracer.load(std::sync::atomic::Ordering::Acquire) {
            0 | MODULE => None,
            id => Some(Pid::new(id)),
        }
    }

    /// The tracer module and its state, None of a session without one, and of one that has ended.
    #[getter]
    fn module(&self, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
        self.outlet.tracer.as_ref()?.pair(py)
    }

    /// Whether a tracer module is called in place of messages being sent.
    #[getter]
    fn has_module(&self) -> bool {
        self.outlet.tracer.is_some()
    }

    /// How often the tracer module raised or answered nonsense.
    fn tracer_errors(&self) -> u64 {
        self.core.tracer_errors()
    }

    /// Whether it takes the objects themselves.
    #[getter]
    fn takes_objects(&self) -> bool {
        self.core.options.capture.takes == Takes::Objects
    }

    /// The trace port that its messages go to, if that is what its tracer is.
    #[getter]
    fn port(&self) -> Option<LogPort> {
        self.outlet.port.clone().map(LogPort)
    }

    /// Whether messages have somebody to go to.
    #[getter]
    fn has_tracer(&self) -> bool {
        self.core.has_tracer()
    }

    /// Ends the session; False if it had ended before.
    fn destroy(&self, py: Python<'_>) -> PyResult<bool> {
        let Ok(host) = self.host(py) else { return Ok(false) };
        let done = host.end_session(py, &self.core)?;
        Ok(done)
    }

    /// Applies a pattern; answers how many functions it matched.
    #[pyo3(signature = (mfa, kinds, how, program=None))]
    fn function(
        &self, py: Python<'_>, mfa: Mfa, kinds: u16, how: &str, program: Option<&Bound<'_, MatchProgram>>,
    ) -> PyResult<usize> {
        let host = self.host(py)?;
        let op = op(how, program)?;
        let targets = self.targets(py, host, mfa)?;
        let held = || targets.iter().filter(|t| !t.is_gone).map(|t| t.key);
        if matches!(op, Op::On | Op::Match(_)) && !targets.is_empty() {
            let wants_memory = kinds & kinds::MEMORY != 0;
            let wants_foreign = targets.iter().any(|t| t.foreign);
            let ready = host
                .ready(py)
                .and_then(|()| if wants_foreign { host.ready_for_foreign(py) } else { Ok(()) })
                .and_then(|()| if wants_memory { host.count_allocations(py) } else { Ok(()) });
            if let Err(error) = ready {
                host.release(py, held());
                return Err(error);
            }
        }
        if let Err(error) = self.expect_actions(py, host, &op) {
            host.release(py, held());
            return Err(error);
        }
        if matches!(op, Op::On | Op::Match(_)) && (kinds & kinds::ENDS != 0 || matches!(op, Op::Match(_))) {
            // before the first call whose end is awaited
            if let Err(error) = host.adjust(py, Wants { ends: true, ..Wants::default() }) {
                host.release(py, held());
                return Err(error);
            }
        }
        let matched = py.detach(|| host.node.function(&self.core, &targets, kinds, op, &Armer));
        host.release(py, held());
        host.after_change(py)?;
        matched.map_err(errors::raise)
    }

    /// Sets what functions that come into being later get: all, or those that one of some patterns takes.
    #[pyo3(signature = (kinds, how, only=None, program=None))]
    fn on_load(
        &self, py: Python<'_>, kinds: u16, how: &str, only: Option<Vec<Mfa>>, program: Option<&Bound<'_, MatchProgram>>,
    ) -> PyResult<()> {
        let host = self.host(py)?;
        let op = op(how, program)?;
        self.expect_actions(py, host, &op)?;
        if matches!(op, Op::On | Op::Match(_)) {
            host.loading.begin(py)?;
            if kinds & kinds::MEMORY != 0 {
                host.count_allocations(py)?;
            }
            let pattern = |(module, function, arity)| Names { module, function, arity };
            let only = only.unwrap_or_else(|| vec![(None, None, None)]);
            host.loading.want(self.core.id, only.into_iter().map(pattern).collect());
        }
        let done = py.detach(|| host.node.on_load(&self.core, kinds, op));
        if self.core.on_load().is_none() {
            host.loading.unwant(self.core.id);
        }
        done.map_err(errors::raise)?;
        let all = host.node.read(|s| s.events);
        inviso_core::control::Arm::arm(&Armer, &[], all);
        host.after_change(py)
    }

    /// The kinds that `on_load` has set.
    fn on_load_kinds(&self, py: Python<'_>) -> PyResult<u16> {
        self.host(py)?;
        Ok(self.core.on_load().map_or(0, |e| e.has))
    }

    /// Switches flags of processes, or of ports. `who` is a Pid, or one of all, existing, new.
    fn process(&self, py: Python<'_>, who: &Bound<'_, PyAny>, how: bool, flags: u32, ports: bool) -> PyResult<usize> {
        let host = self.host(py)?;
        let flags = Flags(flags);
        let class = if ports { Class::Port } else { Class::Process };
        let fresh = if how { self.core.note_flags(class, flags) } else { Flags::NONE };
        // the program may have emptied `gc.callbacks`
        if fresh != Flags::NONE || how && flags.has(Flags::GARBAGE_COLLECTION) {
            host.adjust_or(py, Wants::default(), || self.core.forget_flags(class, fresh))?;
        }
        if fresh.has(Flags::RETURN_TO) {
            py.detach(|| host.node.rearm(&self.core, &Armer));
        }
        let answer = if let Some(id) = terms::local_number(who) {
            let dead = || errors::raise(inviso_core::error::Error::ProcessDead);
            let tracee = living(py, host, id).ok_or_else(dead)?;
            seq::with(py, |_, _| Ok(host.node.flags(&self.core, Who::One(&tracee), how, flags)))?
        } else {
            let text: &str = who.extract()?;
            if text != "new" {
                host.directory.refresh(py, host)?;
                if ports {
                    host::ports::refresh(py, host)?;
                }
            }
            let who = match text {
                "all" => Who::All(class),
                "existing" => Who::Existing(class),
                "new" => Who::New(class),
                _ => return Err(PyValueError::new_err("procs")),
            };
            let answer = seq::with(py, |_, _| Ok(host.node.flags(&self.core, who, how, flags)))?;
            if flags.has(Flags::CPU_TIMESTAMP) {
                py.detach(|| host.node.forget_remembered(&Armer));
            }
            answer
        };
        host.bury(py);
        answer.map_err(errors::raise)
    }

    /// The flags of a process or port, or None if it has ended.
    fn flags_of(&self, py: Python<'_>, who: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let host = self.host(py)?;
        let tracee = terms::local_number(who).and_then(|id| living(py, host, id));
        let Some(tracee) = tracee else { return Ok(None) };
        if self.outlet.tracer.is_some() && tracee.flags(self.core.index) != Flags::NONE {
            seq::with(py, |_, _| Ok(host.node.trace_status(&self.core, Some(&tracee))))?;
        }
        Ok(Some(tracee.flags(self.core.index).0))
    }

    /// The flags that new processes, or new ports, get.
    fn new_flags(&self, py: Python<'_>, ports: bool) -> PyResult<u32> {
        let host = self.host(py)?;
        let kind = if ports { Kind::Port } else { Kind::Thread };
        if self.outlet.tracer.is_some() && self.core.new_flags(kind) != Flags::NONE {
            seq::with(py, |_, _| Ok(host.node.trace_status(&self.core, None)))?;
        }
        Ok(self.core.new_flags(kind).0)
    }

    /// Sets which messages are traced where they are sent, or where they arrive: `on`, `off`, or as a program decides.
    #[pyo3(signature = (receive, on, program=None))]
    fn messages(
        &self, py: Python<'_>, receive: bool, on: bool, program: Option<&Bound<'_, MatchProgram>>,
    ) -> PyResult<()> {
        let host = self.host(py)?;
        let pattern = match program {
            _ if !on => Pattern::Nothing,
            Some(program) => Pattern::Spec(program.get().program.clone()),
            None => Pattern::All,
        };
        if let Pattern::Spec(program) = &pattern {
            self.expect_actions(py, host, &Op::Match(program.clone()))?;
            host.adjust(py, Wants { senders: receive, ..Wants::default() })?;
        }
        let change = |patterns: &mut Patterns| match receive {
            true => patterns.receive = pattern,
            false => patterns.send = pattern,
        };
        py.detach(|| host.node.messages(&self.core, change, &Armer)).map_err(errors::raise)?;
        host.adjust(py, Wants::default())?;
        host.bury(py);
        Ok(())
    }

    /// Which messages are traced where they are sent, or where they arrive: a bool, or a match spec.
    fn messages_of(&self, py: Python<'_>, receive: bool) -> PyResult<Py<PyAny>> {
        let host = self.host(py)?;
        let patterns = host.node.patterns(&self.core);
        match if receive { patterns.receive } else { patterns.send } {
            Pattern::All => Ok(true.into_pyobject(py)?.to_owned().into_any().unbind()),
            Pattern::Nothing => Ok(false.into_pyobject(py)?.to_owned().into_any().unbind()),
            Pattern::Spec(program) => match_spec::object_of(py, program.spec()),
        }
    }

    /// Sets, or with None removes, the limit of a system event; of long_message_queue the length where it ends, too.
    #[pyo3(signature = (event, limit, short=0))]
    fn monitor(&self, py: Python<'_>, event: &str, limit: Option<u64>, short: u64) -> PyResult<()> {
        let host = self.host(py)?;
        let event = named(event)?;
        let was = (self.core.limit(event), self.core.short_queue());
        if event == monitor::Event::LongMessageQueue && limit.is_some() {
            self.core.set_short_queue(short);
        }
        self.core.set_limit(event, limit);
        host.adjust_or(py, Wants::default(), || {
            self.core.set_limit(event, was.0);
            self.core.set_short_queue(was.1);
        })
    }

    /// The limits of system events that are set, `(event, limit, short)`.
    fn monitored(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64, u64)>> {
        self.host(py)?;
        let limit = |(name, event)| Some((name, self.core.limit(event)?, self.core.short_queue()));
        Ok(monitor::Event::NAMES.into_iter().filter_map(limit).collect())
    }

    /// What is set on a function: `(set, running)` kinds; None if there is no such function.
    fn kinds_of(&self, py: Python<'_>, mfa: Mfa) -> PyResult<Option<(u16, u16)>> {
        let host = self.host(py)?;
        let entries = self.entries(py, host, mfa)?;
        Ok(entries.map(|all| all.iter().fold((0, 0), |(has, run), (_, e)| (has | e.has, run | e.run))))
    }

    /// Whether a call of a function has found the tracer of its meta messages gone; of on_load, where `mfa` is None, whether that
    /// pattern has lost it.
    fn has_lost_meta(&self, py: Python<'_>, mfa: Option<Mfa>) -> PyResult<bool> {
        let host = self.host(py)?;
        let Some(mfa) = mfa else { return Ok(self.core.on_load().is_some_and(|entry| entry.has_lost_meta())) };
        Ok(self.entries(py, host, mfa)?.is_some_and(|all| all.iter().any(|(_, entry)| entry.has_lost_meta())))
    }

    /// The match spec that decides about a function's messages, or its meta messages; of on_load where `mfa` is None. None if
    /// there is none.
    fn spec_of(&self, py: Python<'_>, mfa: Option<Mfa>, meta: bool) -> PyResult<Option<Py<PyAny>>> {
        let host = self.host(py)?;
        let entries: Vec<Entry> = match mfa {
            None => self.core.on_load().into_iter().collect(),
            Some(mfa) => self.entries(py, host, mfa)?.unwrap_or_default().into_iter().map(|(_, entry)| entry).collect(),
        };
        let spec = entries.into_iter().find_map(|entry| if meta { entry.meta_spec } else { entry.spec });
        spec.map(|program| match_spec::object_of(py, program.spec())).transpose()
    }

    /// call_count of a function: None if there is no such function, False if it is not counted.
    fn count_of<'py>(&self, py: Python<'py>, mfa: Mfa) -> PyResult<Option<Option<u64>>> {
        let host = self.host(py)?;
        let Some(entries) = self.entries(py, host, mfa)? else { return Ok(None) };
        let counted: Vec<u32> =
            entries.iter().filter(|(_, e)| e.has & kinds::COUNT != 0).map(|(_, e)| e.count).collect();
        if counted.is_empty() {
            return Ok(Some(None));
        }
        Ok(Some(Some(counted.into_iter().map(|c| host.node.count(c)).sum())))
    }

    /// call_time of a function: `[(pid, calls, nanoseconds)]`.
    fn time_of(&self, py: Python<'_>, mfa: Mfa) -> PyResult<Vec<(Pid, u64, u64)>> {
        let host = self.host(py)?;
        let mut entries = self.entries(py, host, mfa)?.unwrap_or_default();
        entries.retain(|(_, e)| e.has & kinds::TIME != 0);
        let all = self.measured(&entries, Measure::Time);
        Ok(all.into_iter().map(|(pid, n, ticks)| (Pid::new(pid), n, host.node.clock.nanos(ticks))).collect())
    }

    /// call_memory of a function: `[(pid, calls, bytes)]`.
    fn memory_of(&self, py: Python<'_>, mfa: Mfa) -> PyResult<Vec<(Pid, u64, u64)>> {
        let host = self.host(py)?;
        let mut entries = self.entries(py, host, mfa)?.unwrap_or_default();
        entries.retain(|(_, e)| e.has & kinds::MEMORY != 0);
        let all = self.measured(&entries, Measure::Memory);
        Ok(all.into_iter().map(|(pid, n, bytes)| (Pid::new(pid), n, bytes)).collect())
    }

    /// call_latency of a function: `[(nanoseconds, calls)]`, the buckets of its histogram that are not empty.
    fn latency_of(&self, py: Python<'_>, mfa: Mfa) -> PyResult<Vec<(u64, u64)>> {
        let host = self.host(py)?;
        let entries = self.entries(py, host, mfa)?.unwrap_or_default();
        let mut sum: Option<inviso_core::latency::Histogram<u64>> = None;
        for latency in entries.iter().filter_map(|(_, e)| e.latency.as_ref()) {
            let read = latency.read();
            match &mut sum {
                Some(sum) => sum.add(&read).map_err(|e| PyValueError::new_err(e.to_string()))?,
                None => sum = Some(read),
            }
        }
        Ok(sum.map_or_else(Vec::new, |h| {
            h.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
        }))
    }

    /// See [`counters::all`].
    fn counters(&self, py: Python<'_>, kind: &str) -> PyResult<Vec<counters::Row>> {
        counters::all(py, self.host(py)?, &self.core, kind)
    }

    /// Counters of time and memory are kept by chains of callers from now on. Before a pattern is set.
    fn keep_tree(&self) {
        self.core.tree.get_or_init(Tree::default);
    }

    /// See [`counters::tree`].
    fn tree(&self, py: Python<'_>, kind: &str) -> PyResult<counters::Places> {
        counters::tree(py, self.host(py)?, &self.core, kind)
    }

    /// Writes what the rings hold to a file; messages written, and lost before.
    fn dump_to_file(&self, py: Python<'_>, path: std::path::PathBuf, blocks: bool) -> PyResult<(u64, u64)> {
        self.host(py)?;
        trace_port::dump_file(py, &self.core, path, blocks)
    }

    /// The monotonic time stamp that a message would have now, in nanoseconds. The system's clock may differ from it by some microseconds.
    fn now(&self, py: Python<'_>) -> PyResult<u64> {
        let clock = &self.host(py)?.node.clock;
        Ok(clock.monotonic(clock.ticks()))
    }

    /// What is added to a monotonic time stamp for the time of day, in nanoseconds.
    fn wall_offset(&self, py: Python<'_>) -> PyResult<i64> {
        let clock = &self.host(py)?.node.clock;
        clock.follow();
        let now = clock.ticks();
        Ok(clock.wall(now) as i64 - clock.monotonic(now) as i64)
    }

    /// The same, to a trace port.
    fn dump_to_port(&self, py: Python<'_>, port: &LogPort) -> PyResult<(u64, u64)> {
        self.host(py)?;
        trace_port::dump_port(py, &self.core, port)
    }

    /// Has dumps written when they are asked for, to files whose names have a number for `{n}`, with so many seconds between two;
    /// also when a signal comes (0 for none).
    fn record(&self, py: Python<'_>, template: std::ffi::OsString, every: f64, signal: i32) -> PyResult<()> {
        self.host(py)?;
        trace_port::record(py, &self.core, template, every, signal)
    }

    /// How many dumps were written so, where the last one is, what went wrong with one.
    fn dumps(&self, py: Python<'_>) -> (u64, Option<std::path::PathBuf>, Option<String>) {
        py.detach(|| inviso_port::recorder::state(&self.core))
    }

    /// Messages lost so far.
    fn dropped(&self) -> u64 {
        drain::lost(&self.core)
    }

    /// The next message of a session that is its own tracer; None when the time is over or, for a destroyed session, at
    /// the end.
    #[pyo3(signature = (timeout=None))]
    fn receive(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<PyAny>>> {
        let timeout = timeout.map(|t| Duration::try_from_secs_f64(t.max(0.0)).unwrap_or(Duration::MAX / 4));
        let letter = self.outlet.mailbox.receive(py, None, timeout, || Ok(self.core.is_alive()))?;
        Ok(letter.map(|letter| letter.message))
    }

    /// Everything that is there now.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.outlet.pump_to_mark(py)?;
        Ok(self.outlet.mailbox.take_all())
    }

    /// Brings every message written so far to the tracer's mailbox.
    fn pump(&self, py: Python<'_>) -> PyResult<()> {
        self.outlet.pump_to_mark(py)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Session>().is_ok_and(|o| Arc::ptr_eq(&o.get().core, &self.core))
    }

    fn __hash__(&self) -> u64 {
        self.core.id
    }

    fn __repr__(&self) -> String {
        let weak = if self.strong { "" } else { "weak " };
        format!("<{weak}session {:?} #{}>", self.core.name, self.core.id)
    }
}

impl Host {
    /// Ends a session and lets go of what it held.
    ///
    /// # Errors
    /// What `sys.monitoring` raises.
    pub fn end_session(&'static self, py: Python<'_>, core: &Arc<Core>) -> PyResult<bool> {
        if calling::is_ending(py) {
            return Ok(false); // it ends with the interpreter
        }
        let done = py.detach(|| {
            inviso_port::recorder::end(core);
            self.node.session_destroy(core, &Armer)
        });
        self.loading.unwant(core.id);
        if let Some(outlet) = self.outlets.close(core.id) {
            if let Some(tracer) = &outlet.tracer {
                tracer.release(py);
            }
            if let Some(port) = outlet.port.clone() {
                py.detach(|| port.detach(core));
            }
            drop(outlet);
        }
        self.after_change(py)?;
        Ok(done)
    }

    /// Ends the sessions whose last strong handle is gone.
    pub fn reap(&'static self, py: Python<'_>) {
        let doomed = std::mem::take(&mut *self.doomed.lock().unwrap_or_else(|e| e.into_inner()));
        for core in doomed {
            if let Err(error) = self.end_session(py, &core) {
                error.write_unraisable(py, None);
            }
        }
    }

    /// Switches off what no session needs any more, and lets go of objects.
    ///
    /// # Errors
    /// What `sys.monitoring` raises.
    pub fn after_change(&'static self, py: Python<'_>) -> PyResult<()> {
        if calling::is_ending(py) {
            return Ok(());
        }
        let sessions = self.node.sessions();
        if host::loading::is_on() && sessions.iter().all(|s| s.on_load().is_none()) {
            self.loading.end(py);
            let all = self.node.read(|s| s.events);
            inviso_core::control::Arm::arm(&Armer, &[], all);
        }
        self.adjust(py, Wants::default())?;
        if inviso_cpython::hooks::alloc::is_installed(py) {
            let needed = sessions.iter().any(|s| s.on_load().is_some_and(|e| e.has & kinds::MEMORY != 0))
                || self.node.read(|s| s.plans().any(|(_, p)| p.entries.iter().any(|e| e.has & kinds::MEMORY != 0)));
            if !needed {
                inviso_cpython::hooks::alloc::remove(py);
            }
        }
        self.bury(py);
        self.catch_up(py);
        Ok(())
    }

    /// Counts what Python's allocators are asked for, from now on.
    fn count_allocations(&self, py: Python<'_>) -> PyResult<()> {
        inviso_cpython::hooks::alloc::install(py).map_err(|_| {
            pyo3::exceptions::PyRuntimeError::new_err("call_memory: too many other allocator hooks have come and gone")
        })
    }
}
