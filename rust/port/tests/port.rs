//! A Rust program without Python writes a trace port's log and reads it back.

use inviso_core::{kinds, Class, Flags, Op, Options, Program, Who};
use inviso_log::{
    file::{self, FileLog},
    frame::Record,
    reader::{Event, Reader},
};
use inviso_port::ports::{Kind, LogPort};
use std::time::Duration;

#[test]
fn calls_of_a_rust_program_go_to_a_file() {
    let path = std::env::temp_dir().join(format!("inviso-port-{}.log", std::process::id()));
    let program = Program::new();
    let order = program.point("shop", "order", 1);
    let sink = FileLog::create(&path, file::Options::default()).unwrap();
    let patience = Duration::from_secs(5);
    let port = LogPort::open(program.node().clone(), Kind::File, Some(path.clone()), None, patience, Box::new(sink));
    let session = program.session("to a file", Options::default()).unwrap();
    assert!(port.attach(session.clone()));
    program.function(&session, &[&order], kinds::LOCAL, Op::On).unwrap();
    program.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
    for n in 0..3 {
        let _call = order.enter(|out| out.int(n));
    }
    port.detach(&session);
    assert!(!port.is_open(), "the last session closes it");
    assert_eq!((port.counts().written, port.counts().dropped), (3, 0));

    let mut reader = Reader::open(&path).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = reader.read().unwrap() {
        match event {
            Event::Record { record: record @ Record::Term(_), .. } => seen.push(record.message().unwrap().to_string()),
            other => panic!("{other:?}"),
        }
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(seen.len(), 3);
    for (n, message) in seen.iter().enumerate() {
        assert!(message.ends_with(&format!(",call,{{shop,order,[{n}]}}}}")), "{message}");
    }
}
