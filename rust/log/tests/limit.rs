//! A file that may not grow further.
#![cfg(target_os = "linux")]

use inviso_log::{
    file::{FileLog, Options},
    frame::{self, Next, Record},
    sink::Sink,
};

/// How large a file of this process may become.
fn limit(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure lives for the call, and SIGXFSZ is ignored, so that a write answers with an error.
    let done = unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    };
    assert_eq!(done, 0);
}

#[test]
fn whole_records_of_a_write_that_fails_stay_and_the_others_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut log = FileLog::create(&path, Options::default()).unwrap();
    for n in 0..10 {
        log.term(&[131, 97, n]).unwrap();
    }
    log.dropped(3).unwrap();
    log.term(&[131, 97, 10]).unwrap();
    // the fourth record is cut off
    limit(3 * 8 + 5);
    assert_eq!(log.flush().unwrap_err().raw_os_error(), Some(libc::EFBIG));
    limit(libc::RLIM_INFINITY);
    log.term(&[131, 97, 11]).unwrap();
    log.flush().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (mut rest, mut seen) = (&bytes[..], Vec::new());
    while let Next::Record(record, n) = frame::next(rest) {
        seen.push(match record {
            Record::Term(term) => (u32::from(term[2]), 0),
            Record::Dropped(n) => (0, n),
        });
        rest = &rest[n..];
    }
    assert_eq!((rest, seen), (&b""[..], vec![(0, 0), (1, 0), (2, 0), (0, 7 + 3 + 1), (11, 0)]));
}
