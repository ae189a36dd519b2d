//! The ring against a list of all records that were pushed.

use std::{ops::ControlFlow, time::Duration};

use inviso_core::host::ring::{Overflow, Pushed, RecordRef, Ring};

/// The fate of a record, as far as the pushes tell it.
struct Sent {
    payload: Vec<u8>,
    stored: bool,
}

/// Pushes, drains and a close, as the bytes say: the first chooses the policy; in each pair after it the first byte
/// chooses the action, and the second the amount.
pub fn ring(bytes: &[u8]) {
    let [policy, steps @ ..] = bytes else { return };
    let overflow = match policy % 3 {
        0 => Overflow::Drop,
        1 => Overflow::Overwrite,
        _ => Overflow::Block { limit: Duration::ZERO },
    };
    let (mut producer, ring) = Ring::split(0, overflow);
    let mut sent: Vec<Sent> = Vec::new();
    let (mut position, mut lost, mut closed) = (0, 0, false);

    for step in steps.chunks_exact(2).chain([&[255, 255][..]]) {
        let amount = usize::from(step[1]);
        match step[0] {
            0..=159 => {
                // up to 5100 bytes, so that some fit no page
                let payload = vec![sent.len() as u8; amount * 20];
                let header = [u64::MAX, sent.len() as u64, u64::from(step[0]), !0];
                let pushed = producer.push(header, &payload);
                if closed {
                    assert!(!matches!(pushed, Pushed::Stored), "stored after the close");
                    continue;
                }
                let fits = payload.len() <= ring.max_payload();
                assert!(fits || pushed == Pushed::Lost);
                assert!(!fits || overflow != Overflow::Overwrite || pushed == Pushed::Stored);
                sent.push(Sent { payload, stored: pushed == Pushed::Stored });
            }
            160..=161 => {
                ring.close();
                closed = true;
            }
            _ => {
                let max = if step[0] > 240 { usize::MAX } else { amount };
                let mut taken = 0;
                let drained = ring.drain(max, |record| {
                    taken += 1;
                    match record {
                        RecordRef::Event { header, payload } => {
                            assert_eq!(header[1], position, "in order");
                            let was = &sent[position as usize];
                            assert!(was.stored && was.payload == payload);
                            position += 1;
                        }
                        RecordRef::Drop { count } => {
                            let range = position as usize..(position + count) as usize;
                            assert!(count > 0);
                            assert!(overflow == Overflow::Overwrite || sent[range].iter().all(|was| !was.stored));
                            (position, lost) = (position + count, lost + count);
                        }
                    }
                    ControlFlow::Continue(())
                });
                assert!(taken <= max);
                if drained.is_ok_and(|drained| drained.empty) {
                    assert_eq!(position, sent.len() as u64, "empty, but not all was told");
                    assert_eq!(lost, ring.lost());
                }
            }
        }
        assert_eq!((ring.head(), ring.tail()), (sent.len() as u64, position));
    }
    assert_eq!(position, sent.len() as u64, "read + lost = produced");
}
