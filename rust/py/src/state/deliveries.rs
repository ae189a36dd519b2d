//! Where each session's messages are delivered.
//!
//! # Roles
//! Sessions open and close outlets. A thread that reads a mailbox pumps it. Traced threads write to the rings and never
//! come here.
//!
//! # States
//! A session has one outlet from its beginning to its end. A reader may hold it longer and reads the rest.
//!
//! # Orderings
//! A mutex guards the map.
//!
//! # Checked by
//! `tests/python/test_trace_order.py`, `tests/python/test_trace_messages.py`.

use super::{
    lock,
    mailbox::{Delivery, Mailbox},
    objects::Objects,
    tracer_module::NewSession,
};
use inviso_core::host::{node::Node, session::Session};
use inviso_port::ports::LogPort;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};

/// All outlets by session.
#[derive(Default)]
pub struct Deliveries(Mutex<FxHashMap<u64, Arc<Delivery>>>);

impl Deliveries {
    /// Opens a session's outlet into `mailbox`. One step takes at most `step` records.
    pub fn open(&self, session: Arc<Session>, mailbox: Arc<Mailbox>, step: Option<usize>) -> Arc<Delivery> {
        let (objects, step) = (Objects::default(), step.unwrap_or(BATCH));
        let delivery = self.keep(Delivery { session, mailbox, objects, tracer: None, port: None, step });
        delivery.mailbox.feed(Arc::downgrade(&delivery));
        delivery
    }

    /// Opens the outlet of a session with a tracer module.
    pub fn open_to(&self, session: Arc<Session>, made: NewSession) -> Arc<Delivery> {
        let tracer = Some(made.installed(&session));
        self.keep(Delivery {
            session,
            mailbox: Arc::default(),
            objects: Objects::default(),
            tracer,
            port: None,
            step: BATCH,
        })
    }

    /// Opens a session's outlet into a trace port, which may be closed already.
    pub fn open_port(&self, node: &Node, session: Arc<Session>, port: &Arc<LogPort>) -> Arc<Delivery> {
        if !port.attach(session.clone()) {
            node.lose_tracer(&session);
        }
        let (mailbox, objects) = Default::default();
        self.keep(Delivery { session, mailbox, objects, tracer: None, port: Some(port.clone()), step: BATCH })
    }

    fn keep(&self, delivery: Delivery) -> Arc<Delivery> {
        let delivery = Arc::new(delivery);
        let mut all = lock(&self.0);
        all.insert(delivery.session.id, delivery.clone());
        delivery
    }

    /// Closes the outlet of a session that has ended. A holder of the outlet may still read the rest.
    pub fn close(&self, session: u64) -> Option<Arc<Delivery>> {
        lock(&self.0).remove(&session)
    }

    /// The mailboxes of processes that sessions feed.
    pub fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        let all = lock(&self.0);
        let mut found: Vec<_> =
            all.values().map(|delivery| &delivery.mailbox).filter(|mailbox| mailbox.owner != 0).cloned().collect();
        found.sort_by_key(|mailbox| mailbox.owner);
        found.dedup_by_key(|mailbox| mailbox.owner);
        found
    }

    /// A session's outlet.
    pub fn of(&self, session: u64) -> Option<Arc<Delivery>> {
        lock(&self.0).get(&session).cloned()
    }
}

/// The most records that one step takes, unless a session asks for fewer.
pub const BATCH: usize = 1 << 16;
