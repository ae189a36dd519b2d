//! `Session`: convert, call the core, convert back.

use super::{
    counters,
    match_spec::{self, MatchProgram},
    running::as_process,
    trace_port::{self, LogPort},
};
use crate::{
    control::arming::Armer,
    convert::{errors, pid::Pid, terms},
    library::ports,
    state::{host::Host, mailbox::Delivery, pattern::Pattern as Names, wants::Wants},
};
use inviso_core::host::{
    cells::Measure,
    control::Op,
    drain,
    flags::Flags,
    messages::{Pattern, Patterns},
    monitor,
    node::Who,
    plan::{kinds, Setting},
    session::{Session as Core, Takes, MODULE},
    tracee::{Class, Kind, Tracee},
    tree::Tree,
};
use pyo3::{
    exceptions::PyValueError,
    gc::{PyTraverseError, PyVisit},
    prelude::*,
};
use std::{sync::Arc, time::Duration};

/// A trace session, by a strong or a weak handle.
#[pyclass(frozen, weakref, module = "inviso._native.trace")]
pub struct Session {
    pub(super) core: Arc<Core>,
    pub(super) delivery: Arc<Delivery>,
    pub(super) strong: bool,
}

/// The module, name and arity of an MFA; None is a wildcard.
pub(super) type Mfa = (Option<String>, Option<String>, Option<i64>);

impl Drop for Session {
    fn drop(&mut self) {
        self.doom();
    }
}

pub fn op(how: &str, program: Option<&Bound<'_, MatchProgram>>) -> PyResult<Op> {
    Ok(match how {
        "on" => program.map_or(Op::On, |program| Op::Match(program.get().program.clone())),
        "off" => Op::Off,
        "pause" => Op::Pause,
        "restart" => Op::Restart,
        _ => return Err(PyValueError::new_err("how")),
    })
}

pub fn named(event: &str) -> PyResult<monitor::LimitEvent> {
    let known = monitor::LimitEvent::NAMES.into_iter().find(|(name, _)| *name == event);
    known.map(|(_, event)| event).ok_or_else(|| PyValueError::new_err("event"))
}

/// The living process or open port with this number.
pub(super) fn living(py: Python<'_>, host: &'static Host, id: u64) -> Option<Arc<Tracee>> {
    let found = host.directory.living(py, host, id)?;
    (found.kind != Kind::Port || !ports::was_closed(py, host, &found)).then_some(found)
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

    /// A weak handle.
    fn weak(&self) -> Session {
        Session { core: self.core.clone(), delivery: self.delivery.clone(), strong: false }
    }

    /// The strong handle owns the tracer module's objects, although the session calls them: a module that has its own
    /// session is collected with it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.delivery.tracer {
            Some(tracer) if self.strong => tracer.traverse(&visit),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        // SAFETY: the collector runs attached.
        self.abandon(unsafe { Python::assume_attached() });
    }

    /// The last handle is dropped: no callback is called any more, and the session ends soon.
    fn abandon(&self, py: Python<'_>) {
        if self.strong {
            self.delivery.tracer.iter().for_each(|tracer| tracer.release(py));
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

    /// The tracer module and its state; None for a session without one, or one that has ended.
    #[getter]
    fn module(&self, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
        self.delivery.tracer.as_ref()?.pair(py)
    }

    /// Whether a tracer module is called in place of messages being sent.
    #[getter]
    fn has_module(&self) -> bool {
        self.delivery.tracer.is_some()
    }

    /// How often the tracer module raised or returned an invalid answer.
    fn tracer_errors(&self) -> u64 {
        self.core.tracer_errors()
    }

    /// Whether the session captures the objects themselves.
    #[getter]
    fn takes_objects(&self) -> bool {
        self.core.options.capture.takes == Takes::Objects
    }

    /// The trace port that gets its messages, if it has one.
    #[getter]
    fn port(&self) -> Option<LogPort> {
        self.delivery.port.clone().map(LogPort)
    }

    /// Whether messages have a receiver.
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

    /// Applies a pattern; returns the number of matched functions.
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

    /// Sets the pattern for functions that are defined later: all of them, or those of some patterns.
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
        inviso_core::host::control::Arm::arm(&Armer, &[], all);
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
            let dead = || errors::raise(inviso_core::host::error::Error::ProcessDead);
            let tracee = living(py, host, id).ok_or_else(dead)?;
            as_process(py, |_, _| Ok(host.node.flags(&self.core, Who::One(&tracee), how, flags)))?
        } else {
            let text: &str = who.extract()?;
            if text != "new" {
                host.directory.refresh(py, host)?;
                if ports {
                    ports::refresh(py, host)?;
                }
            }
            let who = match text {
                "all" => Who::All(class),
                "existing" => Who::Existing(class),
                "new" => Who::New(class),
                _ => return Err(PyValueError::new_err("procs")),
            };
            let answer = as_process(py, |_, _| Ok(host.node.flags(&self.core, who, how, flags)))?;
            if flags.has(Flags::CPU_TIMESTAMP) {
                py.detach(|| host.node.forget_remembered(&Armer));
            }
            answer
        };
        host.drop_deferred(py);
        answer.map_err(errors::raise)
    }

    /// The flags of a process or port; None if it has ended.
    fn flags_of(&self, py: Python<'_>, who: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let host = self.host(py)?;
        let tracee = terms::local_number(who).and_then(|id| living(py, host, id));
        let Some(tracee) = tracee else { return Ok(None) };
        if self.delivery.tracer.is_some() && tracee.flags(self.core.index) != Flags::NONE {
            as_process(py, |_, _| Ok(host.node.trace_status(&self.core, Some(&tracee))))?;
        }
        Ok(Some(tracee.flags(self.core.index).0))
    }

    /// The flags that new processes, or new ports, get.
    fn new_flags(&self, py: Python<'_>, ports: bool) -> PyResult<u32> {
        let host = self.host(py)?;
        let kind = if ports { Kind::Port } else { Kind::Thread };
        if self.delivery.tracer.is_some() && self.core.new_flags(kind) != Flags::NONE {
            as_process(py, |_, _| Ok(host.node.trace_status(&self.core, None)))?;
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
        host.drop_deferred(py);
        Ok(())
    }

    /// The messages that are traced where they are sent, or where they arrive: a bool, or a match spec.
    fn messages_of(&self, py: Python<'_>, receive: bool) -> PyResult<Py<PyAny>> {
        let host = self.host(py)?;
        let patterns = host.node.patterns(&self.core);
        match if receive { patterns.receive } else { patterns.send } {
            Pattern::All => Ok(true.into_pyobject(py)?.to_owned().into_any().unbind()),
            Pattern::Nothing => Ok(false.into_pyobject(py)?.to_owned().into_any().unbind()),
            Pattern::Spec(program) => match_spec::object_of(py, program.spec()),
        }
    }

    /// Sets, or with None removes, the limit of a system event; for long_message_queue also the length at which it
    /// ends.
    #[pyo3(signature = (event, limit, short=0))]
    fn monitor(&self, py: Python<'_>, event: &str, limit: Option<u64>, short: u64) -> PyResult<()> {
        let host = self.host(py)?;
        let event = named(event)?;
        let was = (self.core.limit(event), self.core.short_queue());
        if event == monitor::LimitEvent::LongMessageQueue && limit.is_some() {
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
        Ok(monitor::LimitEvent::NAMES.into_iter().filter_map(limit).collect())
    }

    /// The kinds of a function: `(set, running)`; None without such a function.
    fn kinds_of(&self, py: Python<'_>, mfa: Mfa) -> PyResult<Option<(u16, u16)>> {
        let host = self.host(py)?;
        let entries = self.entries(py, host, mfa)?;
        Ok(entries.map(|all| all.iter().fold((0, 0), |(has, run), (_, e)| (has | e.has, run | e.run))))
    }

    /// Whether a call of a function has found the tracer of its meta messages gone; for on_load (`mfa` is None),
    /// whether that pattern has lost it.
    fn has_lost_meta(&self, py: Python<'_>, mfa: Option<Mfa>) -> PyResult<bool> {
        let host = self.host(py)?;
        let Some(mfa) = mfa else { return Ok(self.core.on_load().is_some_and(|entry| entry.has_lost_meta())) };
        Ok(self.entries(py, host, mfa)?.is_some_and(|all| all.iter().any(|(_, entry)| entry.has_lost_meta())))
    }

    /// The match spec of a function's messages, or of its meta messages; of on_load if `mfa` is None. None without a
    /// match spec.
    fn spec_of(&self, py: Python<'_>, mfa: Option<Mfa>, meta: bool) -> PyResult<Option<Py<PyAny>>> {
        let host = self.host(py)?;
        let settings: Vec<Setting> = match mfa {
            None => self.core.on_load().into_iter().collect(),
            Some(mfa) => {
                self.entries(py, host, mfa)?.unwrap_or_default().into_iter().map(|(_, entry)| entry.set).collect()
            }
        };
        let spec = settings.into_iter().find_map(|setting| if meta { setting.meta_spec } else { setting.spec });
        spec.map(|program| match_spec::object_of(py, program.spec())).transpose()
    }

    /// call_count of a function: None without such a function, False if it is not counted.
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
        let mut sum: Option<inviso_core::host::latency::Histogram<u64>> = None;
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

    /// Keeps counters of time and memory by chains of callers from now on. Called before a pattern is set.
    fn keep_tree(&self) {
        self.core.tree.get_or_init(Tree::default);
    }

    /// See [`counters::tree`].
    fn tree(&self, py: Python<'_>, kind: &str) -> PyResult<counters::PlaceCounts> {
        counters::tree(py, self.host(py)?, &self.core, kind)
    }

    /// Writes the contents of the rings to a file; returns the messages written, and those lost before.
    fn dump_to_file(&self, py: Python<'_>, path: std::path::PathBuf, blocks: bool) -> PyResult<(u64, u64)> {
        self.host(py)?;
        trace_port::dump_file(py, &self.core, path, blocks)
    }

    /// The monotonic time stamp that a message would have now, in nanoseconds. The system's clock may differ from it by
    /// some microseconds.
    fn now(&self, py: Python<'_>) -> PyResult<u64> {
        let clock = &self.host(py)?.node.clock;
        Ok(clock.monotonic(clock.ticks()))
    }

    /// The nanoseconds that, added to a monotonic time stamp, give the time of day.
    fn wall_offset(&self, py: Python<'_>) -> PyResult<i64> {
        let clock = &self.host(py)?.node.clock;
        clock.follow();
        let now = clock.ticks();
        Ok(clock.wall(now) as i64 - clock.monotonic(now) as i64)
    }

    /// Writes the contents of the rings to a trace port.
    fn dump_to_port(&self, py: Python<'_>, port: &LogPort) -> PyResult<(u64, u64)> {
        self.host(py)?;
        trace_port::dump_port(py, &self.core, port)
    }

    /// Has dumps written on request, to files whose names have a number in place of `{n}`, at most one in `every`
    /// seconds; also when a signal comes (0 for none).
    fn record(&self, py: Python<'_>, template: std::ffi::OsString, every: f64, signal: i32) -> PyResult<()> {
        self.host(py)?;
        trace_port::record(py, &self.core, template, every, signal)
    }

    /// The number of dumps written so, the path of the last one, and the error of one.
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
        let letter = self.delivery.mailbox.receive(py, None, timeout, || Ok(self.core.is_alive()))?;
        Ok(letter.map(|letter| letter.message))
    }

    /// Takes all messages that are there now.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.delivery.pump_to_mark(py)?;
        Ok(self.delivery.mailbox.take_all())
    }

    /// Brings every message that was written so far to the tracer's mailbox.
    fn pump(&self, py: Python<'_>) -> PyResult<()> {
        self.delivery.pump_to_mark(py)
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
