//! From a session's rings to its tracer: a process's mailbox, or the session's own.
//!
//! Nothing is pushed: whoever takes messages pulls them out of the rings first.

use super::Host;
use crate::{
    api::{
        messages,
        tracer::{Installed, Made},
    },
    convert::terms,
    entry::door,
    instrument::{
        objects::{Arguments, Objects},
        passing::{self, Sender},
    },
    thread::{here::Here, mailbox::Mailbox},
};
use inviso_core::{
    drain::{self, Losses, Mark, Record, What},
    flags::Flags,
    node::Node,
    session::Session,
    tracee,
};
use inviso_port::ports::LogPort;
use inviso_term::record::Kind;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};

/// Where one session's messages go.
pub struct Outlet {
    /// The session.
    pub session: Arc<Session>,
    /// The mailbox that gets them.
    pub mailbox: Arc<Mailbox>,
    /// Objects that wait for the tracer beside the rings.
    pub objects: Objects,
    /// The tracer module, of a session that has one.
    pub tracer: Option<Arc<Installed>>,
    /// The trace port that gets them instead.
    pub port: Option<Arc<LogPort>>,
    /// Records that one step takes out of the rings at most.
    pub step: usize,
}

/// All outlets by session.
#[derive(Default)]
pub struct Outlets(Mutex<FxHashMap<u64, Arc<Outlet>>>);

impl Outlets {
    /// Opens a session's outlet into `mailbox`, which takes so many records at a time.
    pub fn open(&self, session: Arc<Session>, mailbox: Arc<Mailbox>, step: Option<usize>) -> Arc<Outlet> {
        let (objects, step) = (Objects::default(), step.unwrap_or(BATCH));
        let outlet = self.keep(Outlet { session, mailbox, objects, tracer: None, port: None, step });
        outlet.mailbox.feed(Arc::downgrade(&outlet));
        outlet
    }

    /// Opens the outlet of a session with a tracer module.
    pub fn open_to(&self, session: Arc<Session>, made: Made) -> Arc<Outlet> {
        let tracer = Some(made.installed(&session));
        self.keep(Outlet {
            session,
            mailbox: Arc::default(),
            objects: Objects::default(),
            tracer,
            port: None,
            step: BATCH,
        })
    }

    /// Opens a session's outlet into a trace port, which may be closed.
    pub fn open_port(&self, node: &Node, session: Arc<Session>, port: &Arc<LogPort>) -> Arc<Outlet> {
        if !port.attach(session.clone()) {
            node.lose_tracer(&session);
        }
        let (mailbox, objects) = Default::default();
        self.keep(Outlet { session, mailbox, objects, tracer: None, port: Some(port.clone()), step: BATCH })
    }

    fn keep(&self, outlet: Outlet) -> Arc<Outlet> {
        let outlet = Arc::new(outlet);
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        all.insert(outlet.session.id, outlet.clone());
        outlet
    }

    /// A session has ended: whoever holds the outlet may still read it to its end.
    pub fn close(&self, session: u64) -> Option<Arc<Outlet>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).remove(&session)
    }

    /// The mailboxes of processes that sessions feed.
    pub fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        let all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let mut found: Vec<_> =
            all.values().map(|outlet| &outlet.mailbox).filter(|mailbox| mailbox.owner != 0).cloned().collect();
        found.sort_by_key(|mailbox| mailbox.owner);
        found.dedup_by_key(|mailbox| mailbox.owner);
        found
    }

    /// A session's outlet.
    pub fn of(&self, session: u64) -> Option<Arc<Outlet>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).get(&session).cloned()
    }
}

/// Records that one step takes at most, unless a session asks for fewer.
const BATCH: usize = 1 << 16;

/// What comes into a mailbox.
enum Came {
    /// From the rings of the session of this outlet.
    Record(usize, Record),
    /// From a callback that may not run Python.
    Posted(Vec<u8>),
}

/// Brings what was posted to a mailbox, and what waits in the rings of these sessions, which all feed it, into it: in the order of
/// time, and of the newer session first where the time is the same. One step of it, or all that was written before the marks.
/// Sessions that trace the mailbox's process for `receive` are told of each.
///
/// Who comes again in the midst of it, by a signal's handler, leaves it to the outer call.
///
/// # Errors
/// What making the messages raises (no memory), or a signal's handler between two steps.
pub fn pump_all(py: Python<'_>, mailbox: &Mailbox, outlets: &[Arc<Outlet>], marks: &[Mark]) -> PyResult<()> {
    let mut stale = Vec::new(); // let go of when the lock is free again
    if outlets.is_empty() && !mailbox.has_posted() {
        return Ok(());
    }
    loop {
        let (mut arrived, done, passed);
        {
            let Some(_one) = mailbox.pumping.enter(py) else { return Ok(()) };
            arrived = Vec::new();
            done = pump_step(py, mailbox, outlets, &mut stale, &mut arrived);
            // asked under the lock: what another thread has drained is in the mailbox by then, too
            passed = marks.iter().all(Mark::passed);
        }
        if !arrived.is_empty() {
            // not under the lock: a tracer module may be told, which runs code of the program's
            tell(py, mailbox.owner, &arrived)?;
            mailbox.announce(py);
        }
        done?;
        if passed {
            return Ok(());
        }
        py.detach(std::thread::yield_now); // a dump of the session's may be under way
        py.check_signals()?;
    }
}

/// Messages that came to a mailbox, and who sent them.
type Arrived = Vec<(Sender, Py<PyAny>)>;

/// Tells of messages that have arrived at the process `owner`.
fn tell(py: Python<'_>, owner: u64, arrived: &Arrived) -> PyResult<()> {
    let host = super::host(py)?;
    let Some(to) = host.node.tracee(owner).filter(|to| host.node.asks_of(to, Flags::RECEIVE)) else { return Ok(()) };
    let each = |here: &mut Here| {
        for (sender, message) in arrived {
            // SAFETY: held; attached.
            unsafe { passing::arrived(host, &mut here.thread, &to, *sender, message.as_ptr()) };
        }
    };
    // SAFETY: attached.
    let _ending = unsafe { door::call(each) };
    Ok(())
}

/// Who sends the message of a record: the tracee, if it is one of what a process does while it runs; nobody says the rest of it.
fn sender(record: &Record) -> Sender {
    let What::Event(event) = &record.what else { return Sender::Nobody };
    match Kind::from_u8(event.kind) {
        Some(Kind::Monitor) => Sender::System,
        Some(
            Kind::Spawn
            | Kind::Spawned
            | Kind::Exit
            | Kind::Receive
            | Kind::Register
            | Kind::Unregister
            | Kind::Link
            | Kind::Unlink
            | Kind::GettingLinked
            | Kind::GettingUnlinked
            | Kind::Seq,
        )
        | None => Sender::Nobody,
        _ if tracee::Kind::of(event.tracee) == tracee::Kind::Port => Sender::Nobody,
        _ => Sender::Process(event.tracee),
    }
}

/// One step, by who holds the mailbox's lock; what has come is to be announced.
fn pump_step(
    py: Python<'_>, mailbox: &Mailbox, outlets: &[Arc<Outlet>], stale: &mut Vec<Arguments>, arrived: &mut Arrived,
) -> PyResult<()> {
    let posted = mailbox.take_posted(); // first: what was written before is found in the rings
    let sessions: Vec<_> = outlets.iter().map(|outlet| &*outlet.session).collect();
    let step = outlets.iter().map(|outlet| outlet.step).min().unwrap_or(BATCH);
    let mut all: Vec<(u64, Came)> = Vec::new();
    py.detach(|| {
        // nobody else brings these to the mailbox: all of them feed it, and we hold its lock
        let drained = drain::drain_all(&sessions, step, Losses::Between, |at, record| {
            all.push((record.ticks, Came::Record(at, record.to_owned())));
        });
        let (now, later): (Vec<_>, Vec<_>) =
            posted.into_iter().partition(|posted| drained.until.is_none_or(|until| posted.ticks < until));
        mailbox.post_again(later);
        if !now.is_empty() {
            all.extend(now.into_iter().map(|posted| (posted.ticks, Came::Posted(posted.term))));
            all.sort_by_key(|(ticks, _)| *ticks);
        }
    });
    let host = super::host(py)?;
    host.node.clock.follow();
    let mut failed = None;
    for (_, came) in &all {
        let mut make = || match came {
            Came::Record(at, record) => messages::message(py, &host.node, record, &outlets[*at], stale),
            Came::Posted(term) => terms::object(py, term),
        };
        // a signal's handler may raise in the midst of it: the message is no less there
        let message = make().or_else(|error| {
            failed = Some(error);
            make()
        });
        match message {
            Ok(message) => {
                let sender = if let Came::Record(_, record) = came { sender(record) } else { Sender::Nobody };
                arrived.push((sender, message));
            }
            Err(error) => failed = Some(error),
        }
    }
    mailbox.put_quietly(arrived.iter().map(|(_, message)| message.clone_ref(py).into()));
    failed.map_or(Ok(()), Err)
}

impl Outlet {
    /// Brings in everything that was written before the call, and first what the session is to be told of: trace messages that have
    /// still to come to tracers that it traces for `receive`.
    ///
    /// # Errors
    /// What making the messages raises.
    pub fn pump_to_mark(&self, py: Python<'_>) -> PyResult<()> {
        let host = super::host(py)?;
        for mailbox in host.outlets.mailboxes() {
            let traced = host.node.tracee(mailbox.owner);
            if traced.is_some_and(|tracer| tracer.flags(self.session.index).has(Flags::RECEIVE)) {
                mailbox.pump(py)?;
            }
        }
        if let Some(port) = &self.port {
            let mark = Mark::of(&self.session);
            py.detach(|| port.write_to(&mark));
            return Ok(());
        }
        self.mailbox.pump(py)
    }
}

impl Host {
    /// The mailbox of a process.
    pub fn mailbox(&self, tracee: &inviso_core::tracee::Tracee) -> Arc<Mailbox> {
        crate::processes::process::process(tracee).mailbox.clone()
    }
}
