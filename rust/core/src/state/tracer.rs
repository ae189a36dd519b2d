//! Tracer modules: code that is called where an event happens, in the thread that it happens in (OTP's `erl_tracer` behaviour).
//!
//! A session whose [`Options`](crate::state::session::Options) have one has no rings: what happens is put down inside the section and told
//! after it has been left, still before the traced program goes on. [`Tracer::enabled`] is asked first, for a call or a message
//! before any match spec runs; [`Tracer::trace`] is told if the answer was [`Answer::Trace`].
//!
//! ```
//! use inviso_core::{control::Op, flags::Flags, node::Who, plan::kinds, point::Program, session::Options, tracee::Class};
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
//! let session = program.session("told at once", options).unwrap();
//! program.function(&session, &[&order], kinds::LOCAL, Op::On).unwrap();
//! program.node().flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
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
#[must_use]
pub fn is_calling() -> bool {
    gate::is_inside()
}

/// What a tracer answers when it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It wants to be told.
    Trace,
    /// It doesn't.
    Discard,
    /// It doesn't, and is removed from the process or port: that has no trace flags of the session any more.
    Remove,
}

/// The pairs of callbacks that a tracer may have besides the general one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// `seq_trace`, `trace_status`: no other than the general pair.
    General,
    /// call, return_to, return_from, exception_from.
    Call,
    /// send, send_to_non_existing_process.
    Send,
    /// receive.
    Receive,
    /// spawn, spawned, exit, register, unregister; link and what goes with it, of processes.
    Procs,
    /// open, closed; register, unregister, link and what goes with it, of ports.
    Ports,
    /// in, out, in_exiting, out_exiting, out_exited, of processes.
    RunningProcs,
    /// The same of ports.
    RunningPorts,
    /// gc_minor_start and the like.
    GarbageCollection,
}

impl Group {
    /// All of them with the end of their callbacks' names; the general pair has none.
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

    /// The pair that an event belongs to.
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
/// What is asked for where no event is: whether the tracer still wants to be one.
pub const TRACE_STATUS: &str = "trace_status";

macro_rules! pairs {
    ($($(#[$doc:meta])* $group:ident $enabled:ident $trace:ident;)*) => {
        /// A tracer (erl_tracer.md). Its callbacks run in the thread that they tell of, at the same time in several threads, with
        /// nothing locked. A panic in one is caught and counted: [`Session::tracer_errors`](crate::state::session::Session::tracer_errors).
        ///
        /// While one runs, no tracer module is told of anything that happens in the thread.
        pub trait Tracer: Send + Sync {
            /// Whether to be told of an event of this process or port; `None` where there is none. Also asked for
            /// [`TRACE_STATUS`], when trace flags are switched on. May be asked more than once for one event.
            fn enabled(&self, tag: &'static str, tracee: Option<u64>) -> Answer;
            /// An event.
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
            /// What is asked, of any group: its own pair is, unless a tracer has one way for all of them.
            fn ask(&self, group: Group, tag: &'static str, tracee: Option<u64>) -> Answer {
                match group {
                    Group::General => self.enabled(tag, tracee),
                    $(Group::$group => self.$enabled(tag, tracee),)*
                }
            }
            /// What is told, of any group; as [`Tracer::ask`].
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

/// A tracer, as a session's options have it.
#[derive(Clone)]
pub struct Module(pub Arc<dyn Tracer>);

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Module")
    }
}

/// Which time stamp was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timestamp {
    /// `(megasecs, secs, microsecs)`.
    Timestamp,
    /// The same, of the thread's CPU time.
    CpuTimestamp,
    /// Nanoseconds.
    Monotonic,
    /// `(nanoseconds, unique)`.
    StrictMonotonic,
}

impl Timestamp {
    /// The name that erl_tracer.md gives it.
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

/// An event, as a tracer is told of it. Its terms are made when they are asked for.
pub struct Event<'a> {
    /// The id of the session that it is for.
    pub session: u64,
    /// The names of the node that it happened in.
    pub(crate) names: &'a Names,
    /// Whether `timestamp` is CPU time.
    pub(crate) stamps_cpu_time: bool,
    /// As the trace point wrote it.
    pub record: &'a record::event::Event,
    pub(crate) kind: Kind,
}

impl Event<'_> {
    /// What happened.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What a message calls it.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        self.kind.tag()
    }

    /// The process or port that it is about; `None` of sequential tracing, where [`Event::label`] stands in its place.
    #[must_use]
    pub fn tracee(&self) -> Option<u64> {
        self.kind.shape().has(Element::Tracee).then_some(self.record.tracee)
    }

    /// The label, of sequential tracing.
    #[must_use]
    pub fn label(&self) -> Option<Term> {
        self.tracee().is_none().then(|| self.own(0)).flatten()
    }

    /// The fourth element of the trace message.
    #[must_use]
    pub fn term(&self) -> Term {
        self.own(usize::from(self.tracee().is_none())).unwrap_or_else(undefined)
    }

    /// The fifth element, where there is one.
    #[must_use]
    pub fn extra(&self) -> Option<Term> {
        self.own(1 + usize::from(self.tracee().is_none()))
    }

    /// What a match spec adds to the message.
    #[must_use]
    pub fn match_spec_result(&self) -> Option<Term> {
        (!self.record.extra.is_empty()).then(|| decoded(&self.record.extra))
    }

    /// The scheduler's number, if it was asked for.
    #[must_use]
    pub fn scheduler_id(&self) -> Option<u16> {
        parts::scheduler(self.record)
    }

    /// The kind of time stamp that was asked for: to take it is the tracer's.
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

    /// Of the elements that are the kind's own, the one in this place.
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
            // those around a kind's own elements, which a tracer asks for by name
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
