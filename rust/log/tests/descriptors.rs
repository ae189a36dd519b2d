//! Descriptors that the program has closed, and given to something of its own.
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

/// The descriptor of the file that this process has open in a folder.
fn open_in(folder: &Path) -> RawFd {
    let is_there =
        |number: &RawFd| fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|at| at.starts_with(folder));
    descriptors().find(is_there).unwrap()
}

/// The descriptor of the socket that has these ends.
fn socket(here: SocketAddr, there: Option<SocketAddr>) -> RawFd {
    let is_it = |number: &RawFd| {
        // SAFETY: it is asked for its addresses, and not closed; what is no socket says so.
        let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(*number) });
        socket.local_addr().is_ok_and(|address| address == here) && socket.peer_addr().ok() == there
    };
    descriptors().find(is_it).unwrap()
}

/// Has `number` be another descriptor of what `of` is one of, as after `close` and `open`.
fn give(number: RawFd, of: &impl AsRawFd) {
    // SAFETY: what has the number stands in for a program's file from now on; whoever had it must notice, which is the test.
    assert_eq!(unsafe { libc::dup2(of.as_raw_fd(), number) }, number);
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: a question about a number.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

fn close(number: RawFd) {
    // SAFETY: the number is this test's own.
    assert_eq!(unsafe { libc::close(number) }, 0);
}

type Make = fn(&Path) -> Box<dyn Sink>;

#[test]
fn a_file_in_a_logs_place_is_left_alone() {
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
        give(number, &File::create(&mine).unwrap());
        log.term(TERM).unwrap();
        assert!(log.flush().is_err());
        assert_eq!(log.lost(), 1);
        drop(log);
        assert!(is_open(number));
        close(number);
        assert_eq!(fs::metadata(mine).unwrap().len(), 0);
    }
}

/// A pair, of which the program puts one in a socket's place; the other one neither gets bytes nor sees the end.
struct Pair(UnixStream, RawFd);

impl Pair {
    fn in_place_of(number: RawFd) -> Pair {
        let (mine, other) = UnixStream::pair().unwrap();
        give(number, &mine);
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
fn a_socket_in_a_clients_place_is_left_alone() {
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
fn a_socket_in_the_place_of_a_client_that_stalls_is_left_alone() {
    let mut port = IpPort::local(0, 10).unwrap();
    let mut client = TcpStream::connect(port.address()).unwrap();
    // more than the system takes for a client that doesn't read
    let term = [&[131, 109, 1, 0, 0, 0][..], &vec![0; 1 << 24]].concat();
    port.term(&term).unwrap();
    client.read_exact(&mut [0]).unwrap(); // it is under way
    let pair = Pair::in_place_of(socket(port.address(), Some(client.local_addr().unwrap())));
    while port.waiting() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(port.lost(), 1);
    port.close().unwrap();
    drop(port);
    pair.check();
}

/// Those who connect to a listener of the program's are the program's.
#[test]
fn a_socket_in_the_listeners_place_is_left_alone() {
    let mut port = IpPort::local(0, 10).unwrap();
    let (number, mine) = (socket(port.address(), None), TcpListener::bind("127.0.0.1:0").unwrap());
    mine.set_nonblocking(true).unwrap();
    give(number, &mine);
    let client = TcpStream::connect(mine.local_addr().unwrap()).unwrap();
    port.term(TERM).unwrap();
    assert_eq!(port.close_within(Duration::from_secs(60)).unwrap(), 1);
    drop(port);
    assert_eq!(mine.accept().unwrap().1, client.local_addr().unwrap());
    assert!(is_open(number));
    close(number);
}
