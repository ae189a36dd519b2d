//! A record as a consumer reads it: the fields of its header, and its payload split into the parts that the header announces.
#![forbid(unsafe_code)]

use super::header::stamp;
use inviso_term::record::{
    numbered::{MessageKind, Number},
    Kind,
};

/// A record on its way to a tracer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<B = Vec<u8>> {
    /// The time, in ticks.
    pub ticks: u64,
    /// The event or the loss.
    pub what: What<B>,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What<B = Vec<u8>> {
    /// An event.
    Event(Event<B>),
    /// This many records were lost here.
    Lost(u64),
}

/// An event as the trace point wrote it. Its terms are owned, or borrowed during the hand-over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<B = Vec<u8>> {
    /// See [`inviso_term::record::Kind`].
    pub kind: u8,
    /// See [`stamp`].
    pub stamps: u8,
    /// The scheduler that wrote it.
    pub scheduler: u16,
    /// The process of the event.
    pub tracee: u64,
    /// The number of a name, or another process: the kind decides.
    pub what: u64,
    /// The timestamp's nanoseconds if the record contains them ([`stamp::CARRIED`]), else 0.
    pub carried: u64,
    /// The number that makes a strict timestamp unique; 0 for other timestamps.
    pub unique: u64,
    /// The part of a message's number that the record contains ([`stamp::NUMBERED`]), else 0.
    pub numbered: u64,
    /// Terms, in the external term format.
    pub payload: B,
    /// The term that a match spec adds to the message; empty without one.
    pub extra: B,
}

impl Record {
    /// The same record with borrowed terms.
    #[must_use]
    pub fn borrowed(&self) -> Record<&[u8]> {
        let what = match &self.what {
            What::Lost(count) => What::Lost(*count),
            What::Event(event) => {
                What::Event(Event { payload: event.payload.as_slice(), extra: event.extra.as_slice(), ..event.head() })
            }
        };
        Record { ticks: self.ticks, what }
    }
}

impl<B> Event<B> {
    /// The number of the sent or received message ([`message_number`]), from its record's ticks. `None` for other events, and if it is
    /// not known which message was received.
    #[inline]
    #[must_use]
    pub fn message(&self, ticks: u64) -> Option<Number> {
        match Kind::from_u8(self.kind)? {
            Kind::Send | Kind::SendToNonExisting => {
                let number = match self.numbered {
                    0 => message_number(self.scheduler, ticks),
                    reserved => reserved,
                };
                let kind = MessageKind::ALL[usize::from((self.stamps & stamp::KIND) >> stamp::KIND_SHIFT)];
                Some(Number { number, sender: 0, kind })
            }
            Kind::Receive if self.what != 0 => {
                Some(Number { number: self.what, sender: self.numbered as u32, kind: MessageKind::Item })
            }
            _ => None,
        }
    }

    /// The event without its terms.
    fn head<C: Default>(&self) -> Event<C> {
        Event {
            kind: self.kind,
            stamps: self.stamps,
            scheduler: self.scheduler,
            tracee: self.tracee,
            what: self.what,
            carried: self.carried,
            unique: self.unique,
            numbered: self.numbered,
            payload: C::default(),
            extra: C::default(),
        }
    }
}

impl Record<&[u8]> {
    /// The same record with owned terms.
    #[must_use]
    pub fn to_owned(&self) -> Record {
        let what = match &self.what {
            What::Lost(count) => What::Lost(*count),
            What::Event(event) => What::Event(event.to_owned()),
        };
        Record { ticks: self.ticks, what }
    }
}

impl Event<&[u8]> {
    pub(crate) fn to_owned(&self) -> Event {
        Event { payload: self.payload.to_vec(), extra: self.extra.to_vec(), ..self.head() }
    }
}

/// The number before the payload, if `is_there`, and the rest.
fn number(payload: &[u8], is_there: bool) -> (Option<u64>, &[u8]) {
    match payload.split_first_chunk() {
        Some((first, rest)) if is_there => (Some(u64::from_ne_bytes(*first)), rest),
        _ => (None, payload),
    }
}

/// The payload, and the term after it, if `is_there`.
fn extra(payload: &[u8], is_there: bool) -> (&[u8], &[u8]) {
    match payload.split_last_chunk() {
        Some((rest, length)) if is_there => {
            rest.split_at(rest.len().saturating_sub(u32::from_ne_bytes(*length) as usize))
        }
        _ => (payload, &[]),
    }
}

/// Decodes a record.
pub(crate) fn event(header: [u64; 4], payload: &[u8]) -> Event<&[u8]> {
    let stamps = (header[0] >> 40) as u8;
    let (carried, payload) = number(payload, stamps & stamp::CARRIED != 0);
    let (unique, payload) = number(payload, stamps & stamp::MASK == stamp::STRICT);
    let (numbered, payload) = number(payload, stamps & stamp::NUMBERED != 0);
    let (payload, extra) = extra(payload, stamps & stamp::EXTRA != 0);
    Event {
        kind: (header[0] >> 32) as u8,
        stamps,
        scheduler: (header[0] >> 48) as u16,
        tracee: header[2],
        what: header[3],
        carried: carried.unwrap_or_default(),
        unique: unique.unwrap_or_default(),
        numbered: numbered.unwrap_or_default(),
        payload,
        extra,
    }
}

/// The number of a message: the scheduler that wrote the record of its sending, and the ticks of that record. So the record of a
/// sending needs no field for it. The record of the receipt has it as `what`. Two messages with one number are 2^48 ticks apart: 15
/// hours at 5 GHz.
#[inline(always)]
#[must_use]
pub const fn message_number(scheduler: u16, ticks: u64) -> u64 {
    (scheduler as u64) << 48 | ticks & ((1 << 48) - 1)
}

/// The message and the term of its receiver, which follows it in the payload. For records of [`Kind::Send`] whose `what` is 0.
#[must_use]
pub fn with_receiver(payload: &[u8]) -> (&[u8], &[u8]) {
    match payload.split_last_chunk() {
        Some((rest, length)) => rest.split_at(rest.len().saturating_sub(u32::from_ne_bytes(*length) as usize)),
        None => (payload, &[]),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for mask in 0..64u8 {
            let is = |bit| mask & bit != 0;
            let (carried, strict) = (is(stamp::CARRIED), mask & stamp::MASK == stamp::STRICT);
            let mut payload = Vec::new();
            let numbered = is(stamp::NUMBERED);
            for number in [carried.then_some(77u64), strict.then_some(88), numbered.then_some(99)].into_iter().flatten()
            {
                payload.extend_from_slice(&number.to_ne_bytes());
            }
            payload.extend_from_slice(b"terms of more than eight bytes");
            if is(stamp::EXTRA) {
                assert_eq!(stamp::with_extra(&mut payload, b"more"), stamp::EXTRA);
            }
            let first = (32 + payload.len() as u64) | 9 << 32 | u64::from(mask) << 40 | 300 << 48;
            let read = Record { ticks: 5, what: What::Event(event([first, 5, 6, 7], &payload)) };
            let expected = Event {
                kind: 9,
                stamps: mask,
                scheduler: 300,
                tracee: 6,
                what: 7,
                carried: if carried { 77 } else { 0 },
                unique: if strict { 88 } else { 0 },
                numbered: if numbered { 99 } else { 0 },
                payload: &b"terms of more than eight bytes"[..],
                extra: if is(stamp::EXTRA) { b"more" } else { &[][..] },
            };
            assert_eq!(read.what, What::Event(expected));
            assert_eq!(read.to_owned().borrowed(), read);
        }
        let lost = Record { ticks: 5, what: What::Lost(3) };
        assert_eq!(lost.to_owned().borrowed(), lost);
    }
}
