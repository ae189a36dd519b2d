//! A process's mailbox: messages are Python objects, taken by their process alone.

use pyo3::prelude::*;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, Weak},
    time::{Duration, Instant},
};

use crate::{
    entry::alone::Alone,
    host::outlet::{pump_all, Outlet},
    processes::relations,
};
use inviso_core::{drain::Mark, seq::Carried};
use inviso_cpython::interpreter::{again, calling::call};

/// How long a wait lasts before signals are looked at.
const SIGNALS: Duration = Duration::from_millis(50);
/// How long a wait lasts before rings are looked at, while sessions feed the mailbox.
const RINGS: Duration = Duration::from_millis(2);

/// A message in a mailbox, and the token that it carries.
pub struct Letter {
    /// The message.
    pub message: Py<PyAny>,
    /// What it carries.
    pub carried: Carried,
}

impl From<Py<PyAny>> for Letter {
    fn from(message: Py<PyAny>) -> Letter {
        Letter { message, carried: Carried::Nothing }
    }
}

/// A message from where none of Python's code may run: it is made when somebody looks.
pub struct Posted {
    /// When, as records of traces have it.
    pub ticks: u64,
    /// The message, in the external term format.
    pub term: Vec<u8>,
}

/// Messages in the order of their arrival.
#[derive(Default)]
pub struct Mailbox {
    /// The process whose it is; 0 for that of a session.
    pub owner: u64,
    queue: Mutex<VecDeque<Letter>>,
    /// What has been posted, oldest first. Added to under the queue's lock, so that who waits for that sees it.
    posted: Mutex<Vec<Posted>>,
    arrived: Condvar,
    /// Callables that are told once that something has arrived.
    waiters: Mutex<Vec<Py<PyAny>>>,
    /// Sessions whose messages come here.
    feeders: Mutex<Vec<Weak<Outlet>>>,
    /// Held by the one thread that empties their rings.
    pub pumping: Alone,
}

/// None of these mutexes is held while Python code can run.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Mailbox {
    /// That of a process.
    pub fn of(owner: u64) -> Mailbox {
        Mailbox { owner, ..Mailbox::default() }
    }

    /// Puts messages at the end that carry nothing.
    pub fn put(&self, py: Python<'_>, messages: impl IntoIterator<Item = Py<PyAny>>) {
        self.put_letters(py, messages.into_iter().map(Letter::from));
    }

    /// Puts letters at the end.
    pub fn put_letters(&self, py: Python<'_>, letters: impl IntoIterator<Item = Letter>) {
        if self.put_quietly(letters) {
            self.announce(py);
        }
    }

    /// Puts letters at the end; whether there were any: then [`Mailbox::announce`] has to follow.
    pub fn put_quietly(&self, letters: impl IntoIterator<Item = Letter>) -> bool {
        let mut queue = lock(&self.queue);
        let before = queue.len();
        queue.extend(letters);
        queue.len() > before
    }

    /// Has whoever waits look at what has arrived.
    pub fn announce(&self, py: Python<'_>) {
        self.arrived.notify_all();
        self.tell_waiters(py);
    }

    /// Tells the callables that wait that something has arrived.
    pub fn tell_waiters(&self, py: Python<'_>) {
        let waiters = std::mem::take(&mut *lock(&self.waiters));
        for waiter in waiters {
            if let Err(error) = call(waiter.bind(py), ()) {
                again::report(py, error);
            }
        }
    }

    /// Puts a message at the end without Python. Whether callables wait for one: then [`Mailbox::tell_waiters`] has to follow, where
    /// Python may run.
    pub fn post(&self, posted: Posted) -> bool {
        let queue = lock(&self.queue);
        lock(&self.posted).push(posted);
        drop(queue);
        self.arrived.notify_all();
        !lock(&self.waiters).is_empty()
    }

    /// Takes what has been posted.
    pub fn take_posted(&self) -> Vec<Posted> {
        std::mem::take(&mut *lock(&self.posted))
    }

    /// Gives back what was taken and comes behind what is still to be brought in.
    pub fn post_again(&self, later: impl IntoIterator<Item = Posted>) {
        lock(&self.posted).splice(..0, later);
    }

    /// Whether something has been posted.
    pub fn has_posted(&self) -> bool {
        !lock(&self.posted).is_empty()
    }

    /// Has whoever waits look again.
    pub fn wake(&self) {
        self.arrived.notify_all();
    }

    /// A session's messages come here from now on.
    pub fn feed(&self, outlet: Weak<Outlet>) {
        let mut feeders = lock(&self.feeders);
        feeders.retain(|f| f.strong_count() > 0);
        feeders.push(outlet);
    }

    /// Brings in what was posted, and what waited in the rings of the sessions that feed this mailbox when it was called; what is
    /// written meanwhile need not be in it, so that nobody waits for a fast producer.
    ///
    /// # Errors
    /// What making the messages raises (no memory), or a signal's handler.
    pub fn pump(&self, py: Python<'_>) -> PyResult<()> {
        self.bring_in(py, true).map(drop)
    }

    /// The same, or one step of it; whether any session feeds this mailbox.
    fn bring_in(&self, py: Python<'_>, whole: bool) -> PyResult<bool> {
        let feeders: Vec<_> = {
            let mut feeders = lock(&self.feeders);
            feeders.retain(|f| f.strong_count() > 0);
            feeders.iter().filter_map(Weak::upgrade).collect()
        };
        let marked = if whole { &feeders[..] } else { &[] };
        let marks: Vec<_> = marked.iter().map(|outlet| Mark::of(&outlet.session)).collect();
        pump_all(py, self, &feeders, &marks)?;
        Ok(!feeders.is_empty())
    }

    /// How many messages are there.
    pub fn len(&self) -> usize {
        lock(&self.queue).len()
    }

    /// What is there, oldest first, left there.
    pub fn peek(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        lock(&self.queue).iter().map(|letter| letter.message.clone_ref(py)).collect()
    }

    /// Takes everything that is there.
    pub fn take_all(&self) -> Vec<Py<PyAny>> {
        lock(&self.queue).drain(..).map(|letter| letter.message).collect()
    }

    /// The first message that `matches` takes (all, without it), removed. Only the mailbox's process takes messages.
    ///
    /// # Errors
    /// What `matches` raises.
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

    /// Waits for a message that `matches` takes; `None` when the time is over or `open` says that none will come.
    ///
    /// # Errors
    /// What `matches`, `open` or a signal handler raises.
    pub fn receive(
        &self, py: Python<'_>, matches: Option<&Bound<'_, PyAny>>, timeout: Option<Duration>,
        open: impl Fn() -> PyResult<bool>,
    ) -> PyResult<Option<Letter>> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut from = 0;
        loop {
            let was_open = open()?;
            // what is here came first, and a pump gives the GIL away
            if let Some(message) = self.take(py, matches, &mut from)? {
                return Ok(Some(message));
            }
            // without a choice the first is enough, and the others take less room where they are
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

    /// `waiter` waits no more.
    pub fn leave(&self, waiter: &Bound<'_, PyAny>) {
        let mut waiters = lock(&self.waiters);
        let gone = waiters.iter().position(|other| other.is(waiter)).map(|at| waiters.swap_remove(at));
        drop(waiters);
        drop(gone);
    }

    /// Calls `waiter` once, soon after something has arrived; at once if something is there beyond the first `seen`.
    ///
    /// # Errors
    /// What `waiter` raises.
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
