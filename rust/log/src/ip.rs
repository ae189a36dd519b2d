//! A TCP port that one client reads messages from, and that client.
//!
//! # Roles
//!
//! The *producer* owns the [`IpPort`] and adds messages to a queue. The *sender* is a thread of the port's own: it waits for a
//! client, sends it what is in the queue, and waits for the next client when that one has gone. The lock of the queue is
//! held only while records are moved; nothing is sent or waited for under it.

use crate::{
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

/// Messages that wait for a client at most, as in Erlang.
pub const QUEUE: usize = 50;

/// How long the sender waits until it looks for something else: a client, whether that has gone, the end.
const LOOK: Duration = Duration::from_millis(50);

/// Bytes that are sent at a time.
const BATCH: usize = 64 << 10;

/// A port that serves one client at a time.
///
/// Messages wait for the client, `queue` of them at most; those that come after are counted, in one drop record behind the ones
/// that wait. So a client that is too slow, or late, gets the oldest messages, then a drop record, then what came when there
/// was room again. The producer never waits for it.
///
/// Another client is not served before the first has gone; what that one hadn't been sent when it went is counted as lost; what
/// the system had taken for it is not. What is sent
/// is not encrypted and whoever connects may read it: listen on other interfaces than loopback only where that is no harm.
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
    sender: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something was added, or the end is near.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    /// Until when the client may take what is left.
    closing: Option<Instant>,
}

impl IpPort {
    /// Listens on loopback; port 0 is any that is free.
    ///
    /// # Errors
    /// What the system says.
    pub fn local(port: u16, queue: usize) -> io::Result<IpPort> {
        IpPort::listen((Ipv4Addr::LOCALHOST, port).into(), queue)
    }

    /// Listens on an address.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen(address: SocketAddr, queue: usize) -> io::Result<IpPort> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = State { queue: Queue::new(queue), closing: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let sender = Sender { shared: Arc::clone(&shared), batch: Batch::default() };
        let thread = thread::Builder::new().name("inviso-ip".into());
        let sender = Some(thread.spawn(move || sender.run(&listener))?);
        Ok(IpPort { shared, address, sender })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many messages wait for the client, or are being sent to it.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.terms()
    }

    /// Gives the client so long to take what is left, joins the thread, and says how many messages the client didn't get: they
    /// and what was lost before that no drop record told of. A second time it says 0.
    ///
    /// # Errors
    /// The sender has panicked.
    pub fn close_within(&mut self, time: Duration) -> io::Result<u64> {
        let Some(sender) = self.sender.take() else { return Ok(0) };
        // a time without an end is a long one
        let long = || Instant::now() + Duration::from_secs(1 << 30);
        self.shared.lock().closing = Some(Instant::now().checked_add(time).unwrap_or_else(long));
        self.shared.changed.notify_all();
        sender.join().map_err(|_| io::Error::other("the sender has panicked"))?;
        Ok(self.shared.lock().queue.messages())
    }

    fn add(&self, add: impl FnOnce(&mut Queue) -> io::Result<()>) -> io::Result<()> {
        if self.sender.is_none() {
            return Err(closed());
        }
        let mut state = self.shared.lock();
        let was_empty = state.queue.is_empty();
        let added = add(&mut state.queue);
        drop(state);
        if was_empty {
            self.shared.changed.notify_one();
        }
        added
    }
}

impl Sink for IpPort {
    fn term(&mut self, term: &[u8]) -> io::Result<()> {
        self.add(|queue| queue.term(term))
    }

    fn dropped(&mut self, n: u64) -> io::Result<()> {
        self.add(|queue| {
            queue.dropped(n);
            Ok(())
        })
    }

    /// Everything goes at once as it is; this doesn't wait for the client.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Gives a client that is there a second ([`IpPort::close_within`]).
    fn close(&mut self) -> io::Result<()> {
        self.close_within(Duration::from_secs(1)).map(drop)
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

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The thread of a port.
struct Sender {
    shared: Arc<Shared>,
    batch: Batch,
}

/// Whether a client is still there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    Here,
    Gone,
}

impl Sender {
    fn run(mut self, listener: &TcpListener) {
        loop {
            if self.is_over() {
                return;
            }
            // also while it closes: who connected before that gets what there is
            if let Ok((client, _)) = listener.accept() {
                let _ = self.serve(client);
                continue;
            }
            let state = self.shared.lock();
            if state.closing.is_some() {
                return;
            }
            drop(self.shared.wait(state));
        }
    }

    /// Whether the time to close in has passed.
    fn is_over(&self) -> bool {
        self.shared.lock().closing.is_some_and(|end| end <= Instant::now())
    }

    fn serve(&mut self, mut client: TcpStream) -> io::Result<()> {
        client.set_nonblocking(false)?;
        client.set_nodelay(true)?;
        client.set_write_timeout(Some(LOOK))?;
        let shared = Arc::clone(&self.shared);
        loop {
            let state = shared.lock();
            if state.queue.is_empty() {
                if state.closing.is_some() {
                    return Ok(());
                }
                drop(shared.wait(state));
            } else {
                drop(state);
            }
            // what is sent to one that has gone is lost
            if there(&client)? == Client::Gone {
                return Ok(());
            }
            shared.lock().queue.take(BATCH, &mut self.batch);
            let (sent, client) = self.send(&mut client);
            shared.lock().queue.sent(&self.batch, sent);
            if client == Client::Gone {
                return Ok(());
            }
        }
    }

    /// Sends the batch; how much of it was sent, and whether the client is still there.
    fn send(&self, client: &mut TcpStream) -> (usize, Client) {
        let mut sent = 0;
        while let Some(rest @ [_, ..]) = self.batch.bytes.get(sent..) {
            match client.write(rest) {
                Ok(0) => return (sent, Client::Gone),
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_timeout(&e) => {
                    if self.is_over() {
                        return (sent, Client::Gone);
                    }
                }
                Err(_) => return (sent, Client::Gone),
            }
        }
        (sent, Client::Here)
    }
}

/// Whether a client has closed its end. What it says is not for us.
fn there(client: &TcpStream) -> io::Result<Client> {
    client.set_nonblocking(true)?;
    let peeked = client.peek(&mut [0]);
    client.set_nonblocking(false)?;
    Ok(match peeked {
        Ok(0) => Client::Gone,
        Err(e) if !is_timeout(&e) && e.kind() != ErrorKind::Interrupted => Client::Gone,
        _ => Client::Here,
    })
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A client of an IP port, of this system or of a real node. It ends when the port is closed.
///
/// # Errors
/// What the system says.
pub fn connect(address: impl ToSocketAddrs) -> io::Result<Reader<TcpStream>> {
    TcpStream::connect(address).map(Reader::new)
}
