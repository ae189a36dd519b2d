//! A TCP port that sends messages to one client, and that client.
//!
//! # Roles
//!
//! The *producer* owns the [`IpPort`] and adds messages to a queue. The *sender* is a thread of the port: it waits for a client,
//! sends it the queue, and waits for the next client when that one has gone. The lock of the queue is held only to move records
//! or to look for a client. Nobody sends or waits for a client under it.
//!
//! Messages come in bursts and may fill the queue before the sender has seen it. So a producer at a full queue waits for the
//! sender before it drops messages: [`PATIENCE`] in all until the queue is empty again.
//!
//! # States
//!
//! | `Sending` | the sender |
//! | --- | --- |
//! | `Running` | is a thread |
//! | `Paused` | is kept by the producer, with its client and batch |
//! | `Over` | has ended; the port is closed |
//!
//! # Orderings
//!
//! None of its own: everything shared is under the lock of [`Shared`]. `changed` wakes the sender, `sent` wakes the producer.
//!
//! # Checked by
//!
//! `tests/ip.rs`, `tests/signals.rs`.

use crate::{
    own::Own,
    queue::{Batch, Queue},
    reader::Reader,
    sink::{closed, Sink},
};
use std::{
    io::{self, ErrorKind, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The default length of the queue in messages, as in Erlang.
pub const QUEUE: usize = 200;

/// How long the producer waits for space, in all, between two times that the queue is empty.
const PATIENCE: Duration = Duration::from_millis(200);

/// How often the sender looks for a new client, a client that has gone, or the end.
const LOOK: Duration = Duration::from_millis(50);

/// The name of the thread.
const THREAD: &str = "inviso-ip";

/// Bytes in one call to send.
const BATCH: usize = 64 << 10;

/// A port that serves one client at a time.
///
/// Messages that the system doesn't accept for the client wait in the queue, `queue` messages at most. Later ones are counted in
/// one drop record after the queue. So a slow or late client gets the oldest messages, then a drop record, then the messages from
/// when there was space again. The producer doesn't wait for a missing client, and waits a fifth of a second at most for one that
/// doesn't read.
///
/// Another client is served only after the first has gone. Messages in the queue that were not sent to the first client count as
/// lost. Messages that the system had accepted for it do not. The connection is not encrypted, and any client may connect: listen
/// on other interfaces than loopback only where that does no harm.
///
/// ```
/// use inviso_log::{frame::Record, ip::{self, IpPort}, reader::Event, sink::Sink};
/// use std::time::Duration;
/// # fn main() -> std::io::Result<()> {
/// let mut port = IpPort::local(0, 2)?;
/// for n in 0..5 {
///     port.term(&[131, 97, n])?;
/// }
/// let mut client = ip::connect(port.address())?;
/// for message in [&[131, 97, 0], &[131, 97, 1]] {
///     assert!(matches!(client.read()?, Some(Event::Record { record: Record::Term(term), .. }) if term == message));
/// }
/// assert!(matches!(client.read()?, Some(Event::Record { record: Record::Dropped(3), .. })));
/// assert_eq!(port.close_within(Duration::from_secs(5))?, 0);
/// assert_eq!(client.read()?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct IpPort {
    shared: Arc<Shared>,
    address: SocketAddr,
    sending: Sending,
}

/// The state of the sender.
#[derive(Debug)]
enum Sending {
    /// The thread. It returns the sender, if it was given one.
    Running(JoinHandle<Option<Box<Sender>>>),
    Paused(Box<Sender>),
    Over,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a record was added or the end is near.
    changed: Condvar,
    /// Notified when there may be space in the queue, or no client.
    sent: Condvar,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    /// Whether there was no client at the sender's last look, and the present queue was there then.
    no_client: bool,
    /// How long the producer may still wait.
    patience: Duration,
    /// The deadline for the client to take the rest.
    closing: Option<Instant>,
    /// Whether the sender has to pause.
    pausing: bool,
    /// Bytes that the system accepted.
    bytes: u64,
}

impl IpPort {
    /// Listens on loopback; port 0 is any free port.
    ///
    /// # Errors
    /// The error of the system.
    pub fn local(port: u16, queue: usize) -> io::Result<IpPort> {
        IpPort::listen((Ipv4Addr::LOCALHOST, port).into(), queue)
    }

    /// Listens on an address.
    ///
    /// # Errors
    /// The error of the system.
    pub fn listen(address: SocketAddr, queue: usize) -> io::Result<IpPort> {
        let listener = Own::new(TcpListener::bind(address)?)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let queue = Queue::new(queue);
        let state = State { queue, no_client: false, patience: PATIENCE, closing: None, pausing: false, bytes: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), sent: Condvar::new() });
        let sender = Sender { shared: Arc::clone(&shared), listener, client: None, batch: Batch::default(), sent: 0 };
        let mut port = IpPort { shared, address, sending: Sending::Paused(Box::new(sender)) };
        port.resume()?;
        Ok(port)
    }

    /// The address where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many messages wait for the client or are being sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.terms()
    }

    /// Gives the client this long to take the rest and joins the thread. Answers how many messages the client didn't get: the
    /// rest, and earlier losses that no drop record counts. A second call answers 0.
    ///
    /// # Errors
    /// The sender has panicked.
    pub fn close_within(&mut self, time: Duration) -> io::Result<u64> {
        self.resume()?;
        let Sending::Running(sender) = std::mem::replace(&mut self.sending, Sending::Over) else { return Ok(0) };
        self.shared.lock().closing = Some(end_of(time));
        self.shared.changed.notify_all();
        sender.join().map_err(|_| panicked())?;
        let mut state = self.shared.lock();
        state.queue.give_up();
        Ok(state.queue.messages())
    }

    fn add(&self, waits: bool, add: impl FnOnce(&mut Queue) -> io::Result<()>) -> io::Result<()> {
        let mut state = match self.sending {
            Sending::Over => return Err(closed()),
            Sending::Running(_) if waits => self.with_room(),
            _ => self.shared.lock(),
        };
        let was_empty = state.queue.is_empty();
        let added = add(&mut state.queue);
        state.no_client &= !was_empty;
        drop(state);
        if was_empty {
            self.shared.changed.notify_one();
        }
        added
    }

    /// The locked state, after a wait for space in the queue if there is none.
    fn with_room(&self) -> MutexGuard<'_, State> {
        let mut state = self.shared.lock();
        while state.queue.is_full() && !state.no_client && !state.patience.is_zero() {
            let (began, patience) = (Instant::now(), state.patience);
            state = self.shared.sent.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
            state.patience = state.patience.saturating_sub(began.elapsed());
        }
        state
    }
}

impl Sink for IpPort {
    fn term(&mut self, term: &[u8]) -> io::Result<()> {
        self.add(true, |queue| queue.term(term))
    }

    fn dropped(&mut self, n: u64) -> io::Result<()> {
        self.add(false, |queue| {
            queue.dropped(n);
            Ok(())
        })
    }

    /// The sender sends at once, so this doesn't wait for the client.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Gives a present client one second ([`IpPort::close_within`]).
    fn close(&mut self) -> io::Result<()> {
        self.close_within(Duration::from_secs(1)).map(drop)
    }

    /// The client's connection and its place in the queue are kept.
    fn pause(&mut self) {
        match std::mem::replace(&mut self.sending, Sending::Over) {
            Sending::Running(sender) => {
                self.shared.lock().pausing = true;
                self.shared.changed.notify_all();
                if let Ok(Some(sender)) = sender.join() {
                    self.sending = Sending::Paused(sender);
                }
            }
            other => self.sending = other,
        }
    }

    fn resume(&mut self) -> io::Result<()> {
        let sender = match std::mem::replace(&mut self.sending, Sending::Over) {
            Sending::Paused(sender) => sender,
            other => {
                self.sending = other;
                return Ok(());
            }
        };
        self.shared.lock().pausing = false;
        // a thread that can't start drops its closure. So it gets the sender only after it has started
        let (to_thread, from_port) = std::sync::mpsc::sync_channel::<Box<Sender>>(1);
        let thread = thread::Builder::new().name(THREAD.into());
        match thread.spawn(move || from_port.recv().ok().map(|sender| Box::new(sender.run()))) {
            Ok(thread) => {
                let _ = to_thread.send(sender);
                self.sending = Sending::Running(thread);
                Ok(())
            }
            Err(e) => {
                self.sending = Sending::Paused(sender);
                Err(e)
            }
        }
    }

    fn abandon(&mut self) {
        if let Sending::Running(sender) = std::mem::replace(&mut self.sending, Sending::Over) {
            std::mem::forget(sender);
        }
    }

    fn bytes(&self) -> u64 {
        self.shared.lock().bytes
    }

    fn lost(&self) -> u64 {
        self.shared.lock().queue.lost()
    }
}

impl Drop for IpPort {
    fn drop(&mut self) {
        let _ = self.close_within(Duration::ZERO);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client has come (true) or gone.
    fn set_client(&self, has_client: bool) {
        let mut state = self.lock();
        state.queue.set_client(has_client);
        state.no_client = false;
        drop(state);
        self.sent.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The state of the sender's thread.
#[derive(Debug)]
struct Sender {
    shared: Arc<Shared>,
    listener: Own<TcpListener>,
    client: Option<Own<TcpStream>>,
    batch: Batch,
    /// Bytes of the batch that were sent.
    sent: usize,
}

/// How serving a client ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// Everything was sent, or the client has gone.
    Done,
    /// The sender has to pause first.
    Later,
}

impl Sender {
    /// Running until the port is closed or the sender has to pause.
    fn run(mut self) -> Sender {
        loop {
            let state = self.shared.lock();
            if state.pausing || state.is_over() {
                drop(state);
                return self;
            }
            drop(state);
            if let Some(client) = self.client.take() {
                self.shared.set_client(true);
                if self.serve(&client).unwrap_or(Served::Done) == Served::Later {
                    self.client = Some(client);
                } else {
                    self.shared.set_client(false);
                }
                continue;
            }
            // also during the end: a client that connected before gets the queue
            let mut state = self.shared.lock();
            if let Ok((client, _)) = self.listener.check().and_then(|()| self.listener.accept()) {
                drop(state);
                self.client = prepare(client).ok();
                continue;
            }
            // under the lock: a record that is added later wakes the sender
            state.no_client = true;
            self.shared.sent.notify_all();
            if state.closing.is_some() {
                drop(state);
                return self;
            }
            if !state.pausing {
                drop(self.shared.wait(state));
            }
        }
    }

    fn serve(&mut self, client: &Own<TcpStream>) -> io::Result<Served> {
        let shared = Arc::clone(&self.shared);
        loop {
            if self.sent == self.batch.bytes.len() {
                let state = shared.lock();
                if state.pausing {
                    return Ok(Served::Later);
                }
                if state.queue.is_empty() {
                    if state.closing.is_some() {
                        return Ok(Served::Done);
                    }
                    drop(shared.wait(state));
                } else {
                    drop(state);
                }
                // messages to a client that has gone are lost
                if is_gone(client)? {
                    return Ok(Served::Done);
                }
                shared.lock().queue.move_to(BATCH, &mut self.batch);
                self.sent = 0;
            }
            let gone = match self.send(client) {
                Some(gone) => gone,
                None => return Ok(Served::Later),
            };
            let mut state = shared.lock();
            state.queue.sent(&self.batch, self.sent);
            state.bytes += self.sent as u64;
            if state.queue.terms() == 0 {
                state.patience = PATIENCE;
            }
            drop(state);
            shared.sent.notify_all();
            self.batch.bytes.clear();
            self.sent = 0;
            if gone {
                return Ok(Served::Done);
            }
        }
    }

    /// Sends the rest of the batch. Answers whether the client has gone; `None` if the sender has to pause first.
    fn send(&mut self, client: &Own<TcpStream>) -> Option<bool> {
        while let Some(rest @ [_, ..]) = self.batch.bytes.get(self.sent..) {
            match client.check().and_then(|()| (&**client).write(rest)) {
                Ok(0) => return Some(true),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_timeout(&e) => {
                    let state = self.shared.lock();
                    if state.is_over() {
                        return Some(true);
                    }
                    if state.pausing {
                        return None;
                    }
                }
                Err(_) => return Some(true),
            }
        }
        Some(false)
    }
}

impl State {
    /// Whether the deadline of the end has passed.
    fn is_over(&self) -> bool {
        self.closing.is_some_and(|end| end <= Instant::now())
    }
}

/// The end of a time that begins now. A time that overflows the clock is cut to a long one.
fn end_of(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + Duration::from_secs(1 << 30))
}

fn prepare(client: TcpStream) -> io::Result<Own<TcpStream>> {
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    client.set_write_timeout(Some(LOOK))?;
    Own::new(client)
}

#[cold]
fn panicked() -> io::Error {
    io::Error::other("the sender has panicked")
}

/// Whether a client has closed its end. Its bytes are ignored.
fn is_gone(client: &Own<TcpStream>) -> io::Result<bool> {
    client.check()?;
    client.set_nonblocking(true)?;
    let peeked = client.peek(&mut [0]);
    client.set_nonblocking(false)?;
    Ok(match peeked {
        Ok(n) => n == 0,
        Err(e) => !is_timeout(&e) && e.kind() != ErrorKind::Interrupted,
    })
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Connects to an IP port, of this crate or of an Erlang node. The reader ends when the port is closed.
///
/// # Errors
/// The error of the system.
pub fn connect(address: impl ToSocketAddrs) -> io::Result<Reader<TcpStream>> {
    TcpStream::connect(address).map(Reader::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_overflows_is_cut_to_a_long_one() {
        let years = Instant::now() + Duration::from_secs(1 << 29);
        assert!(end_of(Duration::MAX) > years);
        assert!(end_of(Duration::from_secs(1 << 28)) < years && end_of(Duration::ZERO) <= Instant::now());
    }
}
