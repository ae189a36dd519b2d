//! Writers whose system calls are interrupted by signals, as in a program with signal handlers.
#![cfg(target_os = "linux")]

mod numbered;

use inviso_log::{
    file::{FileLog, Options},
    frame::Record,
    ip::IpPort,
    reader::{Event, Reader},
    sink::Sink,
};
use numbered::message;
use std::{
    ffi::CString,
    fs::{self, File},
    io::Read,
    net::TcpStream,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    thread,
    time::Duration,
};

/// How often the handler ran.
static HANDLED: AtomicU32 = AtomicU32::new(0);
const SIGNAL: i32 = libc::SIGUSR1;

extern "C" fn handle(_: i32) {
    HANDLED.fetch_add(1, SeqCst);
}

/// Installs a handler that doesn't restart system calls.
fn install() {
    // SAFETY: all zeroes are a valid value of the structure, and the handler only counts.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(i32) as usize;
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut())
    };
    assert_eq!(done, 0);
}

/// Interrupts a waiting thread so often that at least one of its calls fails.
fn interrupt(thread: i64) {
    for _ in 0..50 {
        let before = HANDLED.load(SeqCst);
        // SAFETY: `tgkill` takes three numbers and checks them.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
        while HANDLED.load(SeqCst) == before {
            thread::yield_now();
        }
    }
}

/// The operating system's number of the calling thread.
fn this_thread() -> i64 {
    // SAFETY: `gettid` has no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// Bytes that wait in a pipe or socket.
fn waiting(of: &impl AsRawFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: the descriptor is open, and the call writes one int.
    let done = unsafe { libc::ioctl(of.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    assert_eq!(done, 0);
    bytes
}

/// Counts the messages, and checks their order.
fn count(mut from: Reader<impl Read>) -> u32 {
    let mut next = 0u32;
    while let Some(event) = from.read().unwrap() {
        match event {
            Event::Record { record: Record::Term(term), .. } => {
                assert_eq!(*term[6..].first_chunk().unwrap(), next.to_be_bytes());
                next += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    next
}

// One test, because a handler is global to the process.
#[test]
fn a_write_that_a_signal_interrupts_goes_on() {
    install();
    a_file();
    a_socket();
}

/// A pipe in place of the file, so that the writer has to wait.
fn a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the string lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let (sender, receiver) = std::sync::mpsc::channel();
    let at = path.clone();
    let writer = thread::spawn(move || {
        sender.send(this_thread()).unwrap();
        let mut log = FileLog::create(&at, Options::default()).unwrap();
        (0..3).for_each(|n| log.term(&message(n, 1 << 20)).unwrap());
        log.close().unwrap();
        (log.lost(), log.bytes())
    });
    let thread = receiver.recv().unwrap();
    let pipe = File::open(&path).unwrap();
    // SAFETY: the descriptor is open.
    let room = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ) };
    while waiting(&pipe) < room {
        thread::yield_now();
    }
    interrupt(thread);
    assert_eq!(count(Reader::new(pipe)), 3);
    assert_eq!(writer.join().unwrap(), (0, 3 * (5 + 6 + (1 << 20))));
}

fn a_socket() {
    let mut port = IpPort::local(0, 10).unwrap();
    let client = TcpStream::connect(port.address()).unwrap();
    (0..2).for_each(|n| port.term(&message(n, 16 << 20)).unwrap());
    assert_eq!((&client).read(&mut [0]).unwrap(), 1);
    let is_sender =
        |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "inviso-ip");
    let sender = fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap).find(is_sender).unwrap();
    let sender = sender.file_name().to_str().unwrap().parse().unwrap();
    // until the system accepts no more and the sender waits
    let mut seen = -1;
    while std::mem::replace(&mut seen, waiting(&client)) != seen {
        interrupt(sender);
    }
    let reader = thread::spawn(move || count(Reader::new((&[0][..]).chain(client))));
    assert_eq!(port.close_within(Duration::from_secs(60)).unwrap(), 0);
    assert_eq!((reader.join().unwrap(), port.lost()), (2, 0));
}
