//! An IP port with slow, late, missing or many clients.

mod numbered;

use inviso_log::{
    frame::Record,
    ip::{self, IpPort},
    reader::{Event, Reader},
    sink::Sink,
};
use numbered::message;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

const LONG: Duration = Duration::from_secs(60);

/// Reads everything. Answers how many messages came and how many are reported lost. Checks their order.
fn count(mut client: Reader<impl Read>) -> (u64, u64) {
    let (mut came, mut lost, mut next) = (0, 0, 0);
    while let Some(event) = client.read().unwrap() {
        match event {
            Event::Record { record: Record::Term(term), .. } => {
                let n = u64::from(u32::from_be_bytes(*term[6..].first_chunk().unwrap()));
                assert_eq!(n, next);
                (came, next) = (came + 1, n + 1);
            }
            Event::Record { record: Record::Dropped(n), .. } => {
                (lost, next) = (lost + u64::from(n), next + u64::from(n));
            }
            Event::Damage(damage) => panic!("{damage}"),
        }
    }
    (came, lost)
}

#[test]
fn what_a_slow_client_misses_is_counted_at_its_place() {
    let mut port = IpPort::local(0, 50).unwrap();
    let client = TcpStream::connect(port.address()).unwrap();
    let (all, began) = (20_000, Instant::now());
    for n in 0..all {
        port.term(&message(n, 1000)).unwrap();
    }
    // 20 MB that no client has read
    assert!(began.elapsed() < Duration::from_secs(20));
    let reader = thread::spawn(move || count(Reader::new(client)));
    // a message after there was space again
    assert_eq!(port.close_within(LONG).unwrap(), 0);
    let (came, lost) = reader.join().unwrap();
    assert_eq!(came + lost, u64::from(all));
    assert!(came >= 50 && lost > 0, "{came} came, {lost} lost");
}

#[test]
fn a_burst_reaches_a_client_that_reads() {
    for queue in [0, 1, 50] {
        let mut port = IpPort::local(0, queue).unwrap();
        let client = TcpStream::connect(port.address()).unwrap();
        let reader = thread::spawn(move || count(Reader::new(client)));
        let all = 5000;
        for n in 0..all {
            port.term(&message(n, 100)).unwrap();
        }
        assert_eq!(port.close_within(LONG).unwrap(), 0);
        assert_eq!((reader.join().unwrap(), port.lost()), ((u64::from(all), 0), 0));
    }
}

#[test]
fn a_client_that_never_reads_is_waited_for_once() {
    let mut port = IpPort::local(0, 5).unwrap();
    let client = TcpStream::connect(port.address()).unwrap();
    let began = Instant::now();
    // more than the system accepts, then many. A wait for each would take 200 s
    (0..20).for_each(|n| port.term(&message(n, 1 << 20)).unwrap());
    (20..1020).for_each(|n| port.term(&message(n, 1)).unwrap());
    assert!(began.elapsed() < Duration::from_secs(100));
    assert!(port.waiting() <= 5 && port.lost() > 0);
    drop(client);
}

#[test]
fn live_messages_follow_the_drop_record() {
    let mut port = IpPort::local(0, 5).unwrap();
    for n in 0..9 {
        port.term(&message(n, 9)).unwrap();
    }
    let mut client = ip::connect(port.address()).unwrap();
    for _ in 0..5 {
        assert!(matches!(client.read().unwrap(), Some(Event::Record { record: Record::Term(_), .. })));
    }
    assert!(matches!(client.read().unwrap(), Some(Event::Record { record: Record::Dropped(4), .. })));
    for n in 9..14 {
        while port.waiting() > 0 {
            thread::yield_now();
        }
        port.term(&message(n, 9)).unwrap();
        let term = message(n, 9);
        assert!(
            matches!(client.read().unwrap(), Some(Event::Record { record: Record::Term(live), .. }) if live == term)
        );
    }
    port.close().unwrap();
    assert_eq!(client.read().unwrap(), None);
}

#[test]
fn the_next_client_gets_a_count_of_what_the_last_one_missed() {
    let mut port = IpPort::local(0, 3).unwrap();
    // more than the system accepts for a client that doesn't read
    for n in 0..5 {
        port.term(&message(n, 16 << 20)).unwrap();
    }
    let mut first = TcpStream::connect(port.address()).unwrap();
    first.read_exact(&mut [0; 1000]).unwrap();
    first.shutdown(Shutdown::Both).unwrap();
    drop(first);
    let second = TcpStream::connect(port.address()).unwrap();
    let reader = thread::spawn(move || count(Reader::new(second)));
    assert_eq!(port.close_within(LONG).unwrap(), 0);
    assert_eq!(reader.join().unwrap(), (2, 3));
}

#[test]
fn an_idle_client_that_goes_makes_room_for_the_next() {
    let mut port = IpPort::local(0, 10).unwrap();
    for n in 0..3 {
        let mut client = ip::connect(port.address()).unwrap();
        port.term(&message(n, 9)).unwrap();
        assert!(client.read().unwrap().is_some());
    }
    port.close().unwrap();
}

#[test]
fn a_port_without_a_client_ends_at_once_and_counts_the_rest() {
    let mut port = IpPort::local(0, 2).unwrap();
    (0..5).for_each(|n| port.term(&message(n, 9)).unwrap());
    port.dropped(3).unwrap();
    assert_eq!(port.close_within(LONG).unwrap(), 8);
    assert_eq!(port.close_within(LONG).unwrap(), 0);
    assert!(port.term(&[106]).is_err());
    assert!(TcpStream::connect(port.address()).is_err());
}

#[test]
fn a_client_that_never_reads_does_not_keep_the_port_from_ending() {
    let mut port = IpPort::local(0, 10).unwrap();
    let client = TcpStream::connect(port.address()).unwrap();
    (0..10).for_each(|n| port.term(&message(n, 4 << 20)).unwrap());
    let began = Instant::now();
    assert!(port.close_within(Duration::from_millis(100)).unwrap() > 0);
    assert!(began.elapsed() < Duration::from_secs(20));
    drop(client);
}

/// The stream may be split anywhere.
#[test]
fn a_client_takes_records_in_pieces() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for byte in [&[0, 0, 0, 0, 3, 131, 97, 7][..], &[1, 0, 0, 0, 9], &[0, 0]].concat() {
            stream.write_all(&[byte]).unwrap();
        }
    });
    let mut client = ip::connect(address).unwrap();
    assert!(matches!(client.read().unwrap(), Some(Event::Record { at: 0, record: Record::Term([131, 97, 7]) })));
    assert!(matches!(client.read().unwrap(), Some(Event::Record { at: 8, record: Record::Dropped(9) })));
    assert!(matches!(client.read().unwrap(), Some(Event::Damage(_))));
    server.join().unwrap();
}

#[test]
fn a_port_that_pauses_loses_nothing() {
    let mut port = IpPort::local(0, 100_000).unwrap();
    let client = TcpStream::connect(port.address()).unwrap();
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100)); // the first pauses cut records
        count(Reader::new(client))
    });
    let all = 20_000;
    for n in 0..all {
        if n % 1000 == 999 {
            port.pause();
        }
        port.term(&message(n, 1000)).unwrap();
        port.resume().unwrap();
    }
    assert_eq!(port.close_within(LONG).unwrap(), 0);
    assert_eq!(reader.join().unwrap(), (u64::from(all), 0));
    assert_eq!((port.lost(), port.bytes()), (0, u64::from(all) * (5 + 6 + 1000)));
}

#[test]
fn a_port_that_is_abandoned_during_a_pause_is_closed_at_once() {
    let mut port = IpPort::local(0, 10).unwrap();
    let mut client = TcpStream::connect(port.address()).unwrap();
    let mut first = [0; 8];
    port.term(&[131, 97, 7]).unwrap();
    client.read_exact(&mut first).unwrap();
    port.pause();
    port.term(&[131, 97, 8]).unwrap();
    port.abandon();
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert!(port.term(&[131, 97, 9]).is_err());
}

/// As in a fork while the client stalls.
#[test]
fn a_port_that_pauses_within_a_batch_continues_there() {
    let mut port = IpPort::local(0, 10).unwrap();
    let client = TcpStream::connect(port.address()).unwrap();
    // each is more than the system accepts for a client that doesn't read
    (0..2).for_each(|n| port.term(&message(n, 16 << 20)).unwrap());
    assert_eq!((&client).read(&mut [0]).unwrap(), 1); // the batch is in progress and can't end
    for _ in 0..3 {
        port.pause();
        assert_eq!((port.waiting(), port.lost(), port.bytes()), (2, 0, 0));
        port.resume().unwrap();
    }
    port.pause();
    port.term(&message(2, 9)).unwrap();
    port.resume().unwrap();
    let reader = thread::spawn(move || count(Reader::new((&[0][..]).chain(client))));
    assert_eq!(port.close_within(LONG).unwrap(), 0);
    assert_eq!((reader.join().unwrap(), port.lost()), ((3, 0), 0));
}
