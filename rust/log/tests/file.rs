//! Files and the system: permissions, writes and failed writes.
#![cfg(unix)]

use inviso_log::{
    damage::What,
    file::{FileLog, Form, Options},
    frame::Record,
    names::Names,
    reader::{Event, Reader},
    sink::Sink,
    wrap::{Limit, WrapLog},
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Instant};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_owner_may_read_a_log_also_if_the_file_existed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    drop(FileLog::create(&path, Options::default()).unwrap());
    assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, vec![]));

    let names = Names::new(&folder.path().join("set"), ".log").unwrap();
    let mut log = WrapLog::create(names.clone(), Limit::Bytes(1), 3, Instant::now()).unwrap();
    (0..5).for_each(|_| log.term(&[106]).unwrap());
    assert!(names.present().unwrap().iter().all(|number| mode(&names.path(*number)) == 0o600));
}

#[test]
fn records_wait_until_there_are_enough_or_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut log = FileLog::create(&path, Options { room: 20, ..Options::default() }).unwrap();
    let length = || fs::metadata(&path).unwrap().len();
    log.term(&[131, 106]).unwrap();
    log.term(&[131, 106]).unwrap();
    assert_eq!(length(), 0);
    log.term(&[131, 97, 1]).unwrap();
    assert_eq!(length(), 14, "a record that doesn't fit waits, the waiting ones are written");
    log.term(&[&[131][..], &[0; 100]].concat()).unwrap();
    assert_eq!(length(), 22);
    log.flush().unwrap();
    assert_eq!(length(), 128);
    log.flush().unwrap();
    log.dropped(0).unwrap();
    log.close().unwrap();
    log.close().unwrap();
    assert_eq!((length(), log.bytes(), log.lost(), log.unreported()), (128, 128, 0, 0));
    assert!(log.term(&[106]).is_err() && log.dropped(1).is_err() && log.flush().is_err());
}

fn terms(path: &Path) -> Vec<u8> {
    let mut reader = Reader::open(path).unwrap();
    let mut terms = Vec::new();
    while let Some(event) = reader.read().unwrap() {
        let Event::Record { record: Record::Term(&[131, 97, n]), .. } = event else { panic!("{event:?}") };
        terms.push(n);
    }
    terms
}

/// As with logrotate's copytruncate: later records are at the beginning.
#[test]
fn an_emptied_file_continues_at_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let names = Names::new(&folder.path().join("set"), ".log").unwrap();
    let path = folder.path().join("trace");
    let file = |form| FileLog::create(&path, Options { form, ..Options::default() }).unwrap();
    let set = WrapLog::create(names.clone(), Limit::Bytes(1 << 20), 3, Instant::now()).unwrap();
    let logs: [(Box<dyn Sink>, _); 3] = [
        (Box::new(set), names.path(0)),
        (Box::new(file(Form::Blocks)), path.clone()),
        (Box::new(file(Form::Erlang)), path.clone()),
    ];
    for (mut log, path) in logs {
        (0..100).for_each(|n| log.term(&[131, 97, n]).unwrap());
        log.flush().unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        (100..150).for_each(|n| log.term(&[131, 97, n]).unwrap());
        log.flush().unwrap();
        (150..200).for_each(|n| log.term(&[131, 97, n]).unwrap());
        log.close().unwrap();
        assert_eq!(terms(&path), (100..200).collect::<Vec<_>>());
    }
}

#[test]
fn records_of_two_writers_of_a_file_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    for form in [Form::Erlang, Form::Blocks] {
        let open = || FileLog::create(&path, Options { form, ..Options::default() }).unwrap();
        let mut logs = [open(), open()];
        for n in 0..200 {
            let log = &mut logs[usize::from(n % 2)];
            log.term(&[131, 97, n]).unwrap();
            log.flush().unwrap();
        }
        drop(logs);
        assert_eq!(terms(&path), (0..200).collect::<Vec<_>>());
    }
}

/// Messages that can't be written are counted, and reported as soon as writing works.
#[test]
fn a_full_disk_costs_messages_and_no_records() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    for form in [Form::Erlang, Form::Blocks] {
        let Ok(mut log) = FileLog::create(full, Options { form, room: 20, ..Options::default() }) else {
            assert_eq!(form, Form::Blocks, "its first bytes can't be written");
            continue;
        };
        log.term(&[131, 106]).unwrap();
        log.dropped(5).unwrap();
        let counts = |log: &FileLog| (log.bytes(), log.lost(), log.unreported());
        assert_eq!(counts(&log), (0, 0, 0));
        assert!(log.flush().is_err());
        assert_eq!(counts(&log), (0, 1, 6));
        assert!(log.flush().is_err(), "the drop record can't be written either");
        assert!(log.close().is_err());
        assert_eq!(counts(&log), (0, 1, 6), "also when it is closed");
    }

    // in a wrap set the next file can be on another device: here a link that is gone when the set comes round
    let folder = tempfile::tempdir().unwrap();
    let names = Names::new(&folder.path().join("set"), ".log").unwrap();
    let mut log = WrapLog::create(names.clone(), Limit::Bytes(14), 3, Instant::now()).unwrap();
    std::os::unix::fs::symlink(full, names.path(1)).unwrap();
    let results: Vec<bool> = (0..8).map(|_| log.term(&[131, 106]).is_ok()).collect();
    assert_eq!(results, [true, true, true, false, true, true, true, true]);
    log.close().unwrap();
    let mut reader = Reader::open(&names.path(2)).unwrap();
    assert!(matches!(reader.read().unwrap(), Some(Event::Record { record: Record::Dropped(2), .. })));
}

#[test]
fn an_unknown_form_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, b"\xb1inviso\x02").unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert!(matches!(reader.read().unwrap(), Some(Event::Damage(damage)) if damage.what == What::Op(0xb1)));
    assert_eq!(reader.read().unwrap(), None);
}
