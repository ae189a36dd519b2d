//! A process's mailbox. Messages are Python objects; only their process takes them.
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

use crate::{
    host::delivery::{pump_all, Delivery},
    processes::relations,
    state::{lock, reentrant_lock::ReentrantLock},
};
use pyo3::prelude::*;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, Weak},
    time::{Duration, Instant},
};

use inviso_core::{drain::Mark, seq::Carried};
use inviso_cpython::interpreter::{again, calling::call};

/// How long a wait lasts before signals are checked.
const SIGNALS: Duration = Duration::from_millis(50);
/// How long a wait lasts before rings are read, while sessions feed the mailbox.
const RINGS: Duration = Duration::from_millis(2);

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
    queue: Mutex<VecDeque<Letter>>,
    /// Posted messages, oldest first. They are added under the queue's lock, so that a waiting thread sees them.
    posted: Mutex<Vec<Posted>>,
    arrived: Condvar,
    /// Callables to be called once after something has arrived.
    waiters: Mutex<Vec<Py<PyAny>>>,
    /// Sessions whose messages come here.
    feeders: Mutex<Vec<Weak<Delivery>>>,
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
        self.tell_waiters(py);
    }

    /// Calls the waiters: something has arrived.
    pub fn tell_waiters(&self, py: Python<'_>) {
        let waiters = std::mem::take(&mut *lock(&self.waiters));
        for waiter in waiters {
            if let Err(error) = call(waiter.bind(py), ()) {
                again::report(py, error);
            }
        }
    }

    /// Appends a message without Python. Returns whether callables wait for one. If so, [`Mailbox::tell_waiters`] has
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

    /// Brings in the posted messages, and the records that waited in the rings of the feeding sessions at the call. It
    /// may leave out what is written meanwhile, so that a fast producer can't hold it.
    ///
    /// # Errors
    /// The error of making the messages (no memory), or of a signal's handler.
    pub fn pump(&self, py: Python<'_>) -> PyResult<()> {
        self.bring_in(py, true).map(drop)
    }

    /// The same, or one step of it; returns whether any session feeds this mailbox.
    fn bring_in(&self, py: Python<'_>, whole: bool) -> PyResult<bool> {
        let feeders: Vec<_> = {
            let mut feeders = lock(&self.feeders);
            feeders.retain(|f| f.strong_count() > 0);
            feeders.iter().filter_map(Weak::upgrade).collect()
        };
        let marked = if whole { &feeders[..] } else { &[] };
        let marks: Vec<_> = marked.iter().map(|delivery| Mark::of(&delivery.session)).collect();
        pump_all(py, self, &feeders, &marks)?;
        Ok(!feeders.is_empty())
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

    /// Waits for a message that `matches` accepts; `None` when the time is over or `open` says that there will be no
    /// more.
    ///
    /// # Errors
    /// The error of `matches`, `open` or a signal handler.
    pub fn receive(
        &self, py: Python<'_>, matches: Option<&Bound<'_, PyAny>>, timeout: Option<Duration>,
        open: impl Fn() -> PyResult<bool>,
    ) -> PyResult<Option<Letter>> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut from = 0;
        loop {
            let was_open = open()?;
            // a message in the queue came first, and a pump releases the GIL
            if let Some(message) = self.take(py, matches, &mut from)? {
                return Ok(Some(message));
            }
            // without `matches` the first message is enough, and the others take less space in the rings
            let fed = self.bring_in(py, matches.is_some())?;
            if let Some(message) = self.take(py, matches, &mut from)? {
                return Ok(Some(message));
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if !was_open || left == Some(Duration::ZERO) {
                return Ok(None);
            }
            let slice = if fed { RINGS } else { SIGNALS }.min(left.unwrap_or(SIGNALS));
            py.detach(|| {
                let queue = lock(&self.queue);
                if queue.len() <= from && !self.has_posted() {
                    drop(self.arrived.wait_timeout(queue, slice));
                }
            });
            py.check_signals()?;
            relations::settle(); // nothing else may run in the main thread meanwhile
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
