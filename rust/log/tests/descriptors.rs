//! Descriptors that the program has closed and reused for a file of its own.
#![cfg(target_os = "linux")]

use inviso_log::{
    file::{FileLog, Form, Options},
    ip::IpPort,
    names::Names,
    sink::Sink,
    wrap::{Limit, WrapLog},
};
use std::{
    fs::{self, File},
    io::{ErrorKind, Read},
    mem::ManuallyDrop,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        fd::{AsRawFd, FromRawFd, RawFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant},
};

const TERM: &[u8] = &[131, 97, 7];

fn descriptors() -> impl Iterator<Item = RawFd> {
    fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
}

/// The descriptor of this process's open file in a folder.
fn open_in(folder: &Path) -> RawFd {
    let is_there =
        |number: &RawFd| fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|at| at.starts_with(folder));
    descriptors().find(is_there).unwrap()
}

/// The descriptor of the socket with these two addresses.
fn socket(here: SocketAddr, there: Option<SocketAddr>) -> RawFd {
    let is_it = |number: &RawFd| {
        // SAFETY: `ManuallyDrop` keeps the descriptor open. The socket only reads its addresses; another kind of file answers an
        // error.
        let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(*number) });
        socket.local_addr().is_ok_and(|address| address == here) && socket.peer_addr().ok() == there
    };
    descriptors().find(is_it).unwrap()
}

/// Makes `number` another descriptor of the file behind `of`, as a program's `close` and `open` do.
fn reuse(number: RawFd, of: &impl AsRawFd) {
    // SAFETY: the number becomes the descriptor of a program's file. The former owner has to notice that: it is the subject of
    // the test.
    assert_eq!(unsafe { libc::dup2(of.as_raw_fd(), number) }, number);
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: `F_GETFD` changes nothing.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

fn close(number: RawFd) {
    // SAFETY: the descriptor belongs to this test.
    assert_eq!(unsafe { libc::close(number) }, 0);
}

type Make = fn(&Path) -> Box<dyn Sink>;

#[test]
fn a_file_with_a_logs_descriptor_is_left_alone() {
    let made: [Make; 3] = [
        |at| Box::new(FileLog::create(&at.join("t"), Options::default()).unwrap()),
        |at| Box::new(FileLog::create(&at.join("t"), Options { form: Form::Blocks, ..Options::default() }).unwrap()),
        |at| {
            let names = Names::new(&at.join("w"), ".l").unwrap();
            Box::new(WrapLog::create(names, Limit::Bytes(1 << 20), 3, Instant::now()).unwrap())
        },
    ];
    for make in made {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        fs::create_dir(&logs).unwrap();
        let mut log = make(&logs);
        log.term(TERM).unwrap();
        log.flush().unwrap();
        let (number, mine) = (open_in(&logs), folder.path().join("mine"));
        reuse(number, &File::create(&mine).unwrap());
        log.term(TERM).unwrap();
        assert!(log.flush().is_err());
        assert_eq!(log.lost(), 1);
        drop(log);
        assert!(is_open(number));
        close(number);
        assert_eq!(fs::metadata(mine).unwrap().len(), 0);
    }
}

/// A pair of sockets. The program puts one in a socket's place. The other one must neither get bytes nor see an end.
struct Pair(UnixStream, RawFd);

impl Pair {
    fn in_place_of(number: RawFd) -> Pair {
        let (mine, other) = UnixStream::pair().unwrap();
        reuse(number, &mine);
        other.set_nonblocking(true).unwrap();
        Pair(other, number)
    }

    fn check(mut self) {
        let read = self.0.read(&mut [0]);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(is_open(self.1));
        close(self.1);
    }
}

#[test]
fn a_socket_with_a_clients_descriptor_is_left_alone() {
    let mut port = IpPort::local(0, 10).unwrap();
    let mut client = TcpStream::connect(port.address()).unwrap();
    port.term(TERM).unwrap();
    client.read_exact(&mut [0; 8]).unwrap(); // the client is known
    let pair = Pair::in_place_of(socket(port.address(), Some(client.local_addr().unwrap())));
    for _ in 0..20 {
        port.term(TERM).unwrap();
    }
    port.close().unwrap();
    drop(port);
    pair.check();
}

#[test]
fn a_socket_with_a_stalled_clients_descriptor_is_left_alone() {
    let mut port = IpPort::local(0, 10).unwrap();
    let mut client = TcpStream::connect(port.address()).unwrap();
    // more than the system accepts for a client that doesn't read
    let term = [&[131, 109, 1, 0, 0, 0][..], &vec![0; 1 << 24]].concat();
    port.term(&term).unwrap();
    client.read_exact(&mut [0]).unwrap(); // a write is in progress
    let pair = Pair::in_place_of(socket(port.address(), Some(client.local_addr().unwrap())));
    while port.waiting() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(port.lost(), 1);
    port.close().unwrap();
    drop(port);
    pair.check();
}

/// Connections to a listener of the program belong to the program.
#[test]
fn a_socket_with_the_listeners_descriptor_is_left_alone() {
    let mut port = IpPort::local(0, 10).unwrap();
    let (number, mine) = (socket(port.address(), None), TcpListener::bind("127.0.0.1:0").unwrap());
    mine.set_nonblocking(true).unwrap();
    reuse(number, &mine);
    let client = TcpStream::connect(mine.local_addr().unwrap()).unwrap();
    port.term(TERM).unwrap();
    assert_eq!(port.close_within(Duration::from_secs(60)).unwrap(), 1);
    drop(port);
    assert_eq!(mine.accept().unwrap().1, client.local_addr().unwrap());
    assert!(is_open(number));
    close(number);
}
