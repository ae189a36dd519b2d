//! Tracer modules: code that is called at an event, on the thread of the event (OTP's `erl_tracer` behaviour).
//!
//! A session whose [`Options`](crate::state::session::Options) have a tracer module has no rings. Its events are queued inside the section.
//! The module is called after the section is left, before the traced program continues. [`Tracer::enabled`] is called first: for a call
//! or a message, before any match spec runs. If it answers [`Answer::Trace`], [`Tracer::trace`] gets the event.
//!
//! ```
//! use inviso_core::{kinds, Class, Flags, Op, Options, Program, Who};
//! use inviso_core::tracer::{Answer, Event, Module, Tracer};
//! use std::sync::{Arc, Mutex};
//!
//! #[derive(Default)]
//! struct Calls(Mutex<Vec<String>>);
//!
//! impl Tracer for Calls {
//!     fn enabled(&self, _tag: &'static str, _tracee: Option<u64>) -> Answer {
//!         Answer::Trace
//!     }
//!     fn trace(&self, event: &Event<'_>) {
//!         self.0.lock().unwrap().push(format!("{} {}", event.tag(), event.term()));
//!     }
//! }
//!
//! let (program, seen) = (Program::new(), Arc::new(Calls::default()));
//! let order = program.point("shop", "order", 1);
//! let options = Options { tracer: Some(Module(seen.clone())), ..Options::default() };
//! let session = program.session("called at once", options).unwrap();
//! program.function(&session, &[&order], kinds::LOCAL, Op::On).unwrap();
//! program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
//! drop(order.enter(|out| out.int(7)));
//! assert_eq!(*seen.0.lock().unwrap(), ["call {shop,order,[7]}"]);
//! ```
#![forbid(unsafe_code)]

use crate::{
    record,
    record::{
        header::stamp,
        parts::{self, part, Part},
        seq_event,
    },
    state::{gate, names::Names, tracee},
};
use inviso_term::{
    etf,
    record::{Element, Kind},
    term::{Identifier, Term},
};
use std::{fmt, sync::Arc};

/// Whether the calling thread is inside a callback of a tracer module.
/// Only other crates of the workspace use it.
#[must_use]
pub fn is_calling() -> bool {
    gate::is_inside()
}

/// A tracer's answer to [`Tracer::enabled`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It accepts the event.
    Trace,
    /// It refuses the event.
    Discard,
    /// It refuses, and the process or port loses all trace flags of the session.
    Remove,
}

/// The groups of events. A tracer may have a pair of callbacks for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// `seq_trace`, `trace_status`: the general pair.
    General,
    /// call, return_to, return_from, exception_from.
    Call,
    /// send, send_to_non_existing_process.
    Send,
    /// receive.
    Receive,
    /// spawn, spawned, exit, register, unregister; events of links, of processes.
    Procs,
    /// open, closed; register, unregister, events of links, of ports.
    Ports,
    /// in, out, in_exiting, out_exiting, out_exited, of processes.
    RunningProcs,
    /// The same events of ports.
    RunningPorts,
    /// gc_minor_start and the other events of collections.
    GarbageCollection,
}

impl Group {
    /// All groups with the suffix of their callbacks' names; the general pair has no suffix.
    pub const NAMES: [(Group, &'static str); 9] = [
        (Group::General, ""),
        (Group::Call, "_call"),
        (Group::Send, "_send"),
        (Group::Receive, "_receive"),
        (Group::Procs, "_procs"),
        (Group::Ports, "_ports"),
        (Group::RunningProcs, "_running_procs"),
        (Group::RunningPorts, "_running_ports"),
        (Group::GarbageCollection, "_garbage_collection"),
    ];

    /// The group of an event.
    #[must_use]
    pub fn of(kind: Kind, tracee: u64) -> Group {
        let port = tracee::Kind::of(tracee) == tracee::Kind::Port;
        match kind {
            Kind::Call | Kind::CallArity | Kind::ReturnTo | Kind::ReturnFrom | Kind::ExceptionFrom => Group::Call,
            Kind::Send | Kind::SendToNonExisting => Group::Send,
            Kind::Receive => Group::Receive,
            Kind::In | Kind::Out | Kind::InExiting | Kind::OutExiting | Kind::OutExited if port => Group::RunningPorts,
            Kind::In | Kind::Out | Kind::InExiting | Kind::OutExiting | Kind::OutExited => Group::RunningProcs,
            Kind::GcMinorStart | Kind::GcMinorEnd | Kind::GcMajorStart | Kind::GcMajorEnd | Kind::GcMaxHeapSize => {
                Group::GarbageCollection
            }
            Kind::Open | Kind::Closed => Group::Ports,
            Kind::Monitor | Kind::Seq | Kind::Drop | Kind::Delivered => Group::General,
            _ if port => Group::Ports,
            _ => Group::Procs,
        }
    }
}

/// The tag of an event of sequential tracing.
pub const SEQ_TRACE: &str = Kind::Seq.tag();
/// The tag of the question without an event: whether the tracer still accepts events.
/// Only other crates of the workspace use it.
pub const TRACE_STATUS: &str = "trace_status";

macro_rules! pairs {
    ($($(#[$doc:meta])* $group:ident $enabled:ident $trace:ident;)*) => {
        /// A tracer (erl_tracer.md). Its callbacks run on the thread of the event, on several threads at the same time, and without
        /// locks. A panic in a callback is caught and counted: [`Session::tracer_errors`](crate::state::session::Session::tracer_errors).
        ///
        /// During a callback, no tracer module gets events of the thread.
        pub trait Tracer: Send + Sync {
            /// Whether the tracer accepts an event of this process or port; `None` for events without one. Also called with
            /// [`TRACE_STATUS`] when trace flags are switched on. It may be called more than once for one event.
            fn enabled(&self, tag: &'static str, tracee: Option<u64>) -> Answer;
            /// Gets an event.
            fn trace(&self, event: &Event<'_>);
            $(
                $(#[$doc])*
                /// Falls back to [`Tracer::enabled`].
                fn $enabled(&self, tag: &'static str, tracee: Option<u64>) -> Answer {
                    self.enabled(tag, tracee)
                }
                $(#[$doc])*
                /// Falls back to [`Tracer::trace`].
                fn $trace(&self, event: &Event<'_>) {
                    self.trace(event);
                }
            )*
            /// Calls the group's `enabled`. A tracer with one way for all groups overrides it.
            fn ask(&self, group: Group, tag: &'static str, tracee: Option<u64>) -> Answer {
                match group {
                    Group::General => self.enabled(tag, tracee),
                    $(Group::$group => self.$enabled(tag, tracee),)*
                }
            }
            /// Calls the group's `trace`. A tracer with one way for all groups overrides it.
            fn emit(&self, group: Group, event: &Event<'_>) {
                match group {
                    Group::General => self.trace(event),
                    $(Group::$group => self.$trace(event),)*
                }
            }
        }
    };
}

pairs! {
    /// For [`Group::Call`].
    Call enabled_call trace_call;
    /// For [`Group::Send`].
    Send enabled_send trace_send;
    /// For [`Group::Receive`].
    Receive enabled_receive trace_receive;
    /// For [`Group::Procs`].
    Procs enabled_procs trace_procs;
    /// For [`Group::Ports`].
    Ports enabled_ports trace_ports;
    /// For [`Group::RunningProcs`].
    RunningProcs enabled_running_procs trace_running_procs;
    /// For [`Group::RunningPorts`].
    RunningPorts enabled_running_ports trace_running_ports;
    /// For [`Group::GarbageCollection`].
    GarbageCollection enabled_garbage_collection trace_garbage_collection;
}

/// A tracer in a session's options.
#[derive(Clone)]
pub struct Module(pub Arc<dyn Tracer>);

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Module")
    }
}

/// The kind of timestamp that a flag requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timestamp {
    /// `(megasecs, secs, microsecs)`.
    Timestamp,
    /// The same, in CPU time of the thread.
    CpuTimestamp,
    /// Nanoseconds.
    Monotonic,
    /// `(nanoseconds, unique)`.
    StrictMonotonic,
}

impl Timestamp {
    /// The name in erl_tracer.md.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Timestamp::Timestamp => "timestamp",
            Timestamp::CpuTimestamp => "cpu_timestamp",
            Timestamp::Monotonic => "monotonic",
            Timestamp::StrictMonotonic => "strict_monotonic",
        }
    }
}

/// An event for a tracer. Its terms are decoded on request.
pub struct Event<'a> {
    /// The id of the session.
    pub session: u64,
    /// The names of the node.
    pub(crate) names: &'a Names,
    /// Whether `timestamp` is CPU time.
    pub(crate) stamps_cpu_time: bool,
    /// As the trace point wrote it.
    pub record: &'a record::event::Event,
    pub(crate) kind: Kind,
}

impl Event<'_> {
    /// The kind of the event.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The tag of its message.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        self.kind.tag()
    }

    /// The process or port of the event. `None` for sequential tracing, which has [`Event::label`] instead.
    #[must_use]
    pub fn tracee(&self) -> Option<u64> {
        self.kind.shape().has(Element::Tracee).then_some(self.record.tracee)
    }

    /// The label, for sequential tracing.
    #[must_use]
    pub fn label(&self) -> Option<Term> {
        self.tracee().is_none().then(|| self.own(0)).flatten()
    }

    /// The fourth element of the trace message.
    #[must_use]
    pub fn term(&self) -> Term {
        self.own(usize::from(self.tracee().is_none())).unwrap_or_else(undefined)
    }

    /// The fifth element, if there is one.
    #[must_use]
    pub fn extra(&self) -> Option<Term> {
        self.own(1 + usize::from(self.tracee().is_none()))
    }

    /// The term that a match spec adds to the message.
    #[must_use]
    pub fn match_spec_result(&self) -> Option<Term> {
        (!self.record.extra.is_empty()).then(|| decoded(&self.record.extra))
    }

    /// The scheduler's number, if a flag requests it.
    #[must_use]
    pub fn scheduler_id(&self) -> Option<u16> {
        parts::scheduler(self.record)
    }

    /// The requested kind of timestamp. The tracer reads the time itself.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        match self.record.stamps & stamp::MASK {
            stamp::TIMESTAMP if self.stamps_cpu_time => Some(Timestamp::CpuTimestamp),
            stamp::TIMESTAMP => Some(Timestamp::Timestamp),
            stamp::STRICT => Some(Timestamp::StrictMonotonic),
            stamp::MONOTONIC => Some(Timestamp::Monotonic),
            _ => None,
        }
    }

    /// The element at this place, of the kind's own elements.
    fn own(&self, place: usize) -> Option<Term> {
        let own = self.kind.shape().own;
        if own == [Element::Pair] {
            let Ok(Term::Tuple(pair)) = etf::decode(&seq_event::pair(self.record)) else { return None };
            return pair.into_iter().nth(place);
        }
        part(*own.get(place)?, self.record).map(|part| match part {
            Part::Identity(id) => identity(id),
            Part::Function(name) => self.function(name, None),
            Part::Call(name, arguments) => self.function(name, Some(decoded(arguments))),
            Part::Term(bytes) | Part::Value(bytes) => decoded(bytes),
            Part::Number(n) => Term::Int(n.into()),
            // these elements are not the kind's own; a tracer reads them by name
            Part::Trace(_) | Part::Tag | Part::Pair(_) | Part::Stamp => undefined(),
        })
    }

    /// `{Module, Function, Arity}`, or with the arguments.
    fn function(&self, name: u64, arguments: Option<Term>) -> Term {
        let Some(name) = self.names.name(name as u32) else { return undefined() };
        let last = arguments.unwrap_or_else(|| Term::from(i64::from(name.arity)));
        Term::Tuple(vec![Term::atom(&name.module), Term::atom(&name.function), last])
    }
}

fn undefined() -> Term {
    Term::atom("undefined")
}

fn decoded(bytes: &[u8]) -> Term {
    etf::decode(bytes).unwrap_or_else(|_| Term::Cut("message".into()))
}

/// The process or port with this number.
#[must_use]
pub fn identity(id: u64) -> Term {
    if tracee::Kind::of(id) == tracee::Kind::Port {
        Term::Port(Identifier::own(id >> 2))
    } else {
        Term::Pid(Identifier::own(id))
    }
}
