//! From a session's rings to its tracer: the mailbox of a process, or of the session.
//!
//! Nothing is pushed. A reader of messages first pulls them out of the rings.
//!
//! # Roles
//! A thread that reads a mailbox pumps it. Traced threads write to the rings and never come here.
//!
//! # States
//! A record is in its ring, then in the mailbox.
//!
//! # Orderings
//! The mailbox's lock lets one thread pump at a time, so that messages arrive in the order of their times.
//!
//! # Checked by
//! `tests/python/test_trace_order.py`, `tests/python/test_trace_messages.py`.

use super::messages;
use crate::{
    convert::terms,
    door,
    instrument::message_view,
    state::{
        deliveries::BATCH,
        mailbox::{Delivery, Mailbox},
        objects::Arguments,
        origin::Sender,
        thread::ThreadState,
    },
};
use inviso_core::host::{
    drain::{self, Losses, Mark, Record, What},
    flags::Flags,
    tracee,
};
use inviso_term::record::Kind;
use pyo3::prelude::*;
use std::sync::Arc;

/// Something that comes into a mailbox.
enum MailboxItem {
    /// From the rings of the session of this outlet.
    Record(usize, Record),
    /// From a callback that may not run Python.
    Posted(Vec<u8>),
}

/// Brings into a mailbox its posted messages and the records that wait in the rings of these sessions, which all feed
/// it. The order is by time; records of the newer session come first at equal times. One call does one step, or all
/// that was written before the marks. Sessions that trace the mailbox's process for `receive` get an event for each
/// message.
///
/// A nested call (from a signal's handler) leaves the work to the outer one.
///
/// # Errors
/// The error of making the messages (no memory), or of a signal's handler between two steps.
pub fn pump_all(py: Python<'_>, mailbox: &Mailbox, deliveries: &[Arc<Delivery>], marks: &[Mark]) -> PyResult<()> {
    let mut stale = Vec::new(); // let go of when the lock is free again
    if deliveries.is_empty() && !mailbox.has_posted() {
        return Ok(());
    }
    loop {
        let (mut arrived, done, passed);
        {
            let Some(_one) = mailbox.pumping.enter(py) else { return Ok(()) };
            arrived = Vec::new();
            done = pump_step(py, mailbox, deliveries, &mut stale, &mut arrived);
            // read under the lock: what another thread has drained is in the mailbox by then, too
            passed = marks.iter().all(Mark::passed);
        }
        if !arrived.is_empty() {
            // outside the lock: a tracer module may get the event, and it runs code of the program
            emit(py, mailbox.owner, &arrived)?;
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
type ReceivedMessages = Vec<(Sender, Py<PyAny>)>;

/// Emits `receive` for messages that have arrived at the process `owner`.
fn emit(py: Python<'_>, owner: u64, arrived: &ReceivedMessages) -> PyResult<()> {
    let host = crate::state::start::host(py)?;
    let Some(to) = host.node.tracee(owner).filter(|to| host.node.asks_of(to, Flags::RECEIVE)) else { return Ok(()) };
    let each = |state: &mut ThreadState| {
        for (sender, message) in arrived {
            // SAFETY: held; the thread is attached.
            unsafe { message_view::arrived(host, &mut state.thread, &to, *sender, message.as_ptr()) };
        }
    };
    // SAFETY: the thread is attached.
    let _ending = unsafe { door::call(each) };
    Ok(())
}

/// The sender of a record's message. That is the tracee if the record says what a process does while it runs; the rest
/// has no sender.
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

/// One step, in the thread that holds the mailbox's lock. The caller announces the arrived messages.
fn pump_step(
    py: Python<'_>, mailbox: &Mailbox, deliveries: &[Arc<Delivery>], stale: &mut Vec<Arguments>,
    arrived: &mut ReceivedMessages,
) -> PyResult<()> {
    let posted = mailbox.take_posted(); // first: what was written before is found in the rings
    let sessions: Vec<_> = deliveries.iter().map(|delivery| &*delivery.session).collect();
    let step = deliveries.iter().map(|delivery| delivery.step).min().unwrap_or(BATCH);
    let mut all: Vec<(u64, MailboxItem)> = Vec::new();
    py.detach(|| {
        // no other thread brings these to the mailbox: all of these sessions feed it, and this thread holds its lock
        let drained = drain::drain_all(&sessions, step, Losses::Between, |at, record| {
            all.push((record.ticks, MailboxItem::Record(at, record.to_owned())));
        });
        let (now, later): (Vec<_>, Vec<_>) =
            posted.into_iter().partition(|posted| drained.until.is_none_or(|until| posted.ticks < until));
        mailbox.post_again(later);
        if !now.is_empty() {
            all.extend(now.into_iter().map(|posted| (posted.ticks, MailboxItem::Posted(posted.term))));
            all.sort_by_key(|(ticks, _)| *ticks);
        }
    });
    let host = crate::state::start::host(py)?;
    host.node.clock.follow();
    let mut failed = None;
    for (_, came) in &all {
        let mut make = || match came {
            MailboxItem::Record(at, record) => messages::message(py, &host.node, record, &deliveries[*at], stale),
            MailboxItem::Posted(term) => terms::object(py, term),
        };
        // a signal's handler may raise while the message is made; the message exists all the same
        let message = make().or_else(|error| {
            failed = Some(error);
            make()
        });
        match message {
            Ok(message) => {
                let sender = if let MailboxItem::Record(_, record) = came { sender(record) } else { Sender::Nobody };
                arrived.push((sender, message));
            }
            Err(error) => failed = Some(error),
        }
    }
    mailbox.put_quietly(arrived.iter().map(|(_, message)| message.clone_ref(py).into()));
    failed.map_or(Ok(()), Err)
}

impl Delivery {
    /// Brings in everything that was written before the call. Where the session traces tracers for `receive`, it first
    /// delivers the trace messages that those have still to get: their events are part of it.
    ///
    /// # Errors
    /// The error of making the messages.
    pub fn pump_to_mark(&self, py: Python<'_>) -> PyResult<()> {
        let host = crate::state::start::host(py)?;
        for mailbox in host.deliveries.mailboxes() {
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
