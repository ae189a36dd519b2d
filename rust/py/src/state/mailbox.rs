//! A process's mailbox, and the sessions that feed it. Messages are Python objects; only their process takes them.
//!
//! # Roles
//! Any attached thread puts messages. A thread that may not run Python posts them. The mailbox's process takes them.
//! One thread at a time pumps: it brings in posted messages and the records of rings.
//!
//! # States
//! A message is posted, or in the rings, then in the queue, then taken.
//!
//! # Orderings
//! The mutexes order everything. Posting holds the queue's lock as well, so that a waiting thread, which holds it,
//! misses nothing.
//!
//! # Checked by
//! `tests/python/test_trace_messages.py`, `tests/python/test_trace_order.py`.

use super::{lock, objects::Objects, reentrant_lock::ReentrantLock, tracer_module::Installed};
use inviso_core::host::{seq::Carried, session::Session};
use inviso_cpython::interpreter::{again, calling::call};
use inviso_port::ports::LogPort;
use pyo3::prelude::*;
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, Weak},
};

/// A message in a mailbox, and the token that it carries.
pub struct Letter {
    /// The message.
    pub message: Py<PyAny>,
    /// The token.
    pub carried: Carried,
}

impl From<Py<PyAny>> for Letter {
    fn from(message: Py<PyAny>) -> Letter {
        Letter { message, carried: Carried::Nothing }
    }
}

/// A message from a callback that may not run Python. The object is made when a reader looks.
pub struct Posted {
    /// Its time, as in records of traces.
    pub ticks: u64,
    /// The message, in the external term format.
    pub term: Vec<u8>,
}

/// Messages in the order of their arrival.
#[derive(Default)]
pub struct Mailbox {
    /// The process that owns it; 0 for the mailbox of a session.
    pub owner: u64,
    pub queue: Mutex<VecDeque<Letter>>,
    /// Posted messages, oldest first. They are added under the queue's lock, so that a waiting thread sees them.
    pub posted: Mutex<Vec<Posted>>,
    pub arrived: Condvar,
    /// Callables to be called once after something has arrived.
    pub waiters: Mutex<Vec<Py<PyAny>>>,
    /// Sessions whose messages come here.
    pub feeders: Mutex<Vec<Weak<Delivery>>>,
    /// Locked by the one thread that empties their rings.
    pub pumping: ReentrantLock,
}

impl Mailbox {
    /// The mailbox of a process.
    pub fn of(owner: u64) -> Mailbox {
        Mailbox { owner, ..Mailbox::default() }
    }

    /// Appends messages that carry no token.
    pub fn put(&self, py: Python<'_>, messages: impl IntoIterator<Item = Py<PyAny>>) {
        self.put_letters(py, messages.into_iter().map(Letter::from));
    }

    /// Appends letters.
    pub fn put_letters(&self, py: Python<'_>, letters: impl IntoIterator<Item = Letter>) {
        if self.put_quietly(letters) {
            self.announce(py);
        }
    }

    /// Appends letters; returns whether there were any. If so, [`Mailbox::announce`] has to follow.
    pub fn put_quietly(&self, letters: impl IntoIterator<Item = Letter>) -> bool {
        let mut queue = lock(&self.queue);
        let before = queue.len();
        queue.extend(letters);
        queue.len() > before
    }

    /// Wakes the waiting thread and calls the waiters.
    pub fn announce(&self, py: Python<'_>) {
        self.arrived.notify_all();
        self.notify_waiters(py);
    }

    /// Calls the waiters: something has arrived.
    pub fn notify_waiters(&self, py: Python<'_>) {
        let waiters = std::mem::take(&mut *lock(&self.waiters));
        for waiter in waiters {
            if let Err(error) = call(waiter.bind(py), ()) {
                again::report(py, error);
            }
        }
    }

    /// Appends a message without Python. Returns whether callables wait for one. If so, [`Mailbox::notify_waiters`] has
    /// to follow, where Python may run.
    pub fn post(&self, posted: Posted) -> bool {
        let queue = lock(&self.queue);
        lock(&self.posted).push(posted);
        drop(queue);
        self.arrived.notify_all();
        !lock(&self.waiters).is_empty()
    }

    /// Takes the posted messages.
    pub fn take_posted(&self) -> Vec<Posted> {
        std::mem::take(&mut *lock(&self.posted))
    }

    /// Gives back posted messages that come after records which are still to be brought in.
    pub fn post_again(&self, later: impl IntoIterator<Item = Posted>) {
        lock(&self.posted).splice(..0, later);
    }

    /// Whether there are posted messages.
    pub fn has_posted(&self) -> bool {
        !lock(&self.posted).is_empty()
    }

    /// Wakes the waiting thread.
    pub fn wake(&self) {
        self.arrived.notify_all();
    }

    /// From now on a session's messages come here.
    pub fn feed(&self, delivery: Weak<Delivery>) {
        let mut feeders = lock(&self.feeders);
        feeders.retain(|f| f.strong_count() > 0);
        feeders.push(delivery);
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        lock(&self.queue).len()
    }

    /// The messages, oldest first, without taking them.
    pub fn peek(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        lock(&self.queue).iter().map(|letter| letter.message.clone_ref(py)).collect()
    }

    /// Takes all messages.
    pub fn take_all(&self) -> Vec<Py<PyAny>> {
        lock(&self.queue).drain(..).map(|letter| letter.message).collect()
    }

    /// Takes the first message that `matches` accepts (any, without it). Only the mailbox's process takes messages.
    ///
    /// # Errors
    /// The error of `matches`.
    pub fn take(
        &self, py: Python<'_>, matches: Option<&Bound<'_, PyAny>>, from: &mut usize,
    ) -> PyResult<Option<Letter>> {
        let Some(matches) = matches else { return Ok(lock(&self.queue).pop_front()) };
        loop {
            let message = match lock(&self.queue).get(*from) {
                Some(letter) => letter.message.clone_ref(py),
                None => return Ok(None),
            };
            if call(matches, (&message,))?.is_truthy()? {
                return Ok(lock(&self.queue).remove(*from));
            }
            *from += 1;
        }
    }

    /// Removes a waiter.
    pub fn leave(&self, waiter: &Bound<'_, PyAny>) {
        let mut waiters = lock(&self.waiters);
        let gone = waiters.iter().position(|other| other.is(waiter)).map(|at| waiters.swap_remove(at));
        drop(waiters);
        drop(gone);
    }

    /// Calls `waiter` once, soon after something has arrived; at once if there are more than `seen` messages already.
    ///
    /// # Errors
    /// The error of `waiter`.
    pub fn when_arrived(&self, waiter: Bound<'_, PyAny>, seen: usize) -> PyResult<()> {
        let at_once = {
            let queue = lock(&self.queue);
            let there = queue.len() > seen || self.has_posted();
            if !there {
                lock(&self.waiters).push(waiter.clone().unbind());
            }
            there
        };
        if at_once {
            call(&waiter, ())?;
        }
        Ok(())
    }
}

/// The destination of one session's messages.
pub struct Delivery {
    /// The session.
    pub session: Arc<Session>,
    /// The mailbox that gets them.
    pub mailbox: Arc<Mailbox>,
    /// Objects that wait for the tracer beside the rings.
    pub objects: Objects,
    /// The tracer module, if the session has one.
    pub tracer: Option<Arc<Installed>>,
    /// The trace port that gets the messages in place of the mailbox.
    pub port: Option<Arc<LogPort>>,
    /// The most records that one step takes out of the rings.
    pub step: usize,
}
