//! The parts of a record's message: each [`Element`] of the table of shapes with its data from the record.
//!
//! All renderers of messages use these parts: the external term format ([`crate::delivery::message`]), terms ([`crate::state::tracer`])
//! and the host's objects. Only this file knows where a record has the data of an element.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::{
    clock::Clock,
    record::{
        event::{with_receiver, Event},
        header::stamp,
        seq_event,
    },
};
use inviso_term::record::Element;
use std::borrow::Cow;

/// One element of a message, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// `trace_ts` if the message has a timestamp, else `trace`.
    Trace(bool),
    /// The tag of the record's kind.
    Tag,
    /// A process or port.
    Identity(u64),
    /// `{Module, Function, Arity}` of the name with this number.
    Function(u64),
    /// `{Module, Function, Arguments}`: the number of the name and the bytes of the list.
    Call(u64, &'a [u8]),
    /// A term's bytes.
    Term(&'a [u8]),
    /// A term's bytes. In a session that takes objects, the bytes may stand for an object of the program.
    Value(&'a [u8]),
    /// Two elements: the elements of this pair.
    Pair(Cow<'a, [u8]>),
    /// An integer.
    Number(u64),
    /// The timestamp, see [`time`].
    Stamp,
}

/// The part for an element of a record's message. `None` if the message has no such element.
#[inline]
#[must_use]
pub fn part<B: AsRef<[u8]>>(element: Element, event: &Event<B>) -> Option<Part<'_>> {
    let (payload, extra) = (event.payload.as_ref(), event.extra.as_ref());
    Some(match element {
        Element::Trace => Part::Trace(is_stamped(event)),
        Element::Tag => Part::Tag,
        Element::Tracee => Part::Identity(event.tracee),
        Element::Call if !payload.is_empty() => Part::Call(event.what, payload),
        Element::Caller if !payload.is_empty() => Part::Term(payload),
        // without arguments: the interpreter did not show them
        Element::Call | Element::Function | Element::Caller => Part::Function(event.what),
        Element::Message if event.what == 0 => Part::Value(with_receiver(payload).0),
        Element::Message | Element::Value => Part::Value(payload),
        Element::Receiver if event.what == 0 => Part::Term(with_receiver(payload).1),
        Element::Receiver | Element::Peer => Part::Identity(event.what),
        Element::Start | Element::Place | Element::Term => Part::Term(payload),
        Element::Pair => Part::Pair(seq_event::pair(event)),
        Element::Count => Part::Number(event.what),
        Element::Extra => return (!extra.is_empty()).then_some(Part::Term(extra)),
        Element::Scheduler => return scheduler(event).map(|number| Part::Number(number.into())),
        Element::Stamp => return is_stamped(event).then_some(Part::Stamp),
    })
}

/// The scheduler's number, if a flag requests it.
pub(crate) fn scheduler<B>(event: &Event<B>) -> Option<u16> {
    (event.stamps & stamp::SCHEDULER != 0).then_some(event.scheduler)
}

fn is_stamped<B>(event: &Event<B>) -> bool {
    event.stamps & stamp::MASK != stamp::NONE
}

/// The timestamp of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Nanoseconds of the monotonic clock.
    Monotonic(u64),
    /// Nanoseconds of the monotonic clock, and a number that makes the timestamp unique.
    Strict(u64, u64),
    /// The time of day: megaseconds, seconds, microseconds.
    Wall(u64, u64, u64),
}

/// The timestamp that a record's flags request.
#[inline]
#[must_use]
pub fn time<B>(clock: &Clock, ticks: u64, event: &Event<B>) -> Time {
    let carried = (event.stamps & stamp::CARRIED != 0).then_some(event.carried);
    let monotonic = || carried.unwrap_or_else(|| clock.monotonic(ticks));
    match event.stamps & stamp::MASK {
        stamp::TIMESTAMP => {
            let micros = carried.unwrap_or_else(|| clock.wall(ticks)) / 1000;
            Time::Wall(micros / 1_000_000_000_000, micros / 1_000_000 % 1_000_000, micros % 1_000_000)
        }
        stamp::STRICT => Time::Strict(monotonic(), event.unique),
        _ => Time::Monotonic(monotonic()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        delivery::message::Messages,
        state::{node::Node, plan::Mfa, session::Options, tracee, tracer},
    };
    use inviso_export::event::{Event as Read, What};
    use inviso_term::{
        etf,
        record::{numbered, Kind, TRACE, TRACE_TS},
        term::Term,
    };
    use std::sync::Arc;

    const PID: u64 = 5 << 2;
    const PORT: u64 = 9 << 2 | tracee::Kind::Port as u64;

    fn function(last: Term) -> Term {
        Term::Tuple(vec![Term::atom("m"), Term::atom("f"), last])
    }

    fn event<B>(kind: Kind, what: u64, stamps: u8, payload: B, extra: B) -> Event<B> {
        let numbered = if stamps & stamp::NUMBERED == 0 { 0 } else { 9 };
        Event {
            kind: kind as u8,
            stamps,
            scheduler: 3,
            tracee: PID,
            what,
            carried: 70,
            unique: 8,
            numbered,
            payload,
            extra,
        }
    }

    /// Possible values of `what` and payloads of a kind.
    fn contents(kind: Kind) -> Vec<(u64, Vec<u8>)> {
        let (list, name) = (Term::List(vec![Term::from(1)]), etf::encode(&Term::atom("shop")));
        let value = etf::encode(&Term::str("v"));
        let own = kind.shape().own;
        let payloads = match own {
            [Element::Call] => vec![vec![], etf::encode(&list)],
            [Element::Caller] => vec![vec![], value.clone(), etf::encode(&function(Term::from(2)))],
            [Element::Place] => vec![value.clone(), etf::encode(&function(Term::from(2)))],
            [Element::Pair] => vec![etf::encode(&Term::Tuple(vec![Term::atom("first"), Term::from(2)]))],
            [.., Element::Start] => vec![value.clone(), etf::encode(&function(list))],
            [Element::Function | Element::Peer] => vec![vec![]],
            _ => vec![value.clone()],
        };
        let is_other = |element: &Element| matches!(element, Element::Peer | Element::Receiver);
        let others = if own.iter().any(is_other) { vec![PID + 4, PORT] } else { vec![0] };
        let pairs = payloads.iter().flat_map(|payload| others.iter().map(|other| (*other, payload.clone())));
        let named = [&value[..], &name, &(name.len() as u32).to_ne_bytes()].concat();
        pairs.chain(own.contains(&Element::Receiver).then_some((0, named))).collect()
    }

    /// All elements that an export has read of a message about a tracee, without the first three.
    fn read_back(message: &[u8]) -> Vec<Term> {
        let Some(Read { what: What::Trace(trace), stamp }) = Read::parse(message) else { panic!("no trace message") };
        let term = |bytes: Option<&[u8]>| bytes.map(|bytes| etf::decode(bytes).unwrap());
        let name = trace.name.map(|name| {
            assert_eq!((name.module, name.function), (&b"m"[..], &b"f"[..]));
            function(term(trace.arguments).unwrap_or_else(|| Term::from(i64::from(name.arity))))
        });
        let (value, other) = (term(trace.value), term(trace.other));
        let first = trace.kind.unwrap().shape().own[0];
        let own = if first == Element::Peer { [other, name, value] } else { [name, value, other] };
        let stamp = stamp.map(|stamp| match stamp.unique {
            Some(unique) => Term::Tuple(vec![Term::from(stamp.at), Term::from(unique)]),
            None => Term::from(stamp.at),
        });
        let rest = [term(trace.extra), trace.scheduler.map(Term::from), stamp];
        own.into_iter().chain(rest).flatten().collect()
    }

    #[test]
    fn the_format_terms_and_exports_agree_about_each_kind() {
        let node = Node::new(Clock::starting_at(1_000));
        let name = Mfa { module: "m".into(), function: "f".into(), arity: 2 };
        assert_eq!(node.names.number(&Arc::new(name)), 0);
        let session = node.session_create("shapes", 0, Options::default()).unwrap();
        let mut messages = Messages::new("nonode@nohost", 0);
        let (more, mut seen) = (etf::encode(&Term::atom("more")), 0);
        let ends: [(u8, &[u8]); 5] = [
            (stamp::NONE, &[]),
            (stamp::NONE, &more),
            (stamp::NUMBERED, &more),
            (stamp::MONOTONIC | stamp::CARRIED, &[]),
            (stamp::STRICT | stamp::CARRIED | stamp::SCHEDULER, &more),
        ];
        // a drop record is reported as a number, never as an event
        for kind in Kind::ALL.into_iter().filter(|kind| !kind.tag().is_empty() && *kind != Kind::Drop) {
            let shape = kind.shape();
            let contents = contents(kind).into_iter();
            for ((what, payload), (stamps, extra)) in
                contents.flat_map(|content| ends.map(|end| (content.clone(), end)))
            {
                let mut bytes = Vec::new();
                messages.put(&node, 0, &event(kind, what, stamps, &payload[..], extra), &mut bytes).unwrap();
                let mut decoder = etf::Decoder::new(&bytes, etf::Limits::default()).unwrap();
                let Ok(Term::Tuple(encoded)) = decoder.term() else { panic!("{kind:?}") };

                let record = event(kind, what, stamps, payload, extra.to_vec());
                assert_eq!(numbered::of(decoder.rest()), record.message(0), "{kind:?}");
                let event = tracer::Event {
                    session: session.id,
                    names: &node.names,
                    stamps_cpu_time: false,
                    record: &record,
                    kind,
                };
                let about = event.tracee().map(tracer::identity).or_else(|| event.label());
                let scheduler = event.scheduler_id().map(|number| Term::from(i64::from(number)));
                let stamp = match time(&node.clock, 0, &record) {
                    _ if stamps & stamp::MASK == stamp::NONE => None,
                    Time::Strict(ns, unique) => Some(Term::Tuple(vec![Term::Int(ns.into()), Term::Int(unique.into())])),
                    Time::Monotonic(ns) => Some(Term::Int(ns.into())),
                    Time::Wall(..) => panic!("no flag requests it"),
                };
                let word = Term::atom(if stamp.is_some() { TRACE_TS } else { TRACE });
                let tag = Some(Term::atom(event.tag()));
                let head = if shape.has(Element::Trace) { [Some(word), about, tag] } else { [tag, about, None] };
                let ends = [
                    event.match_spec_result().filter(|_| shape.has(Element::Extra)),
                    scheduler.filter(|_| shape.has(Element::Scheduler)),
                    stamp.filter(|_| shape.has(Element::Stamp)),
                ];
                let parts = head.into_iter().chain([Some(event.term()), event.extra()]).chain(ends);
                assert_eq!(parts.flatten().collect::<Vec<_>>(), encoded, "{kind:?}");

                match Read::parse(&bytes).unwrap().what {
                    What::Trace(_) => assert_eq!(read_back(&bytes), encoded[3..], "{kind:?}"),
                    read => assert!(!shape.has(Element::Trace) && !matches!(read, What::Term(_)), "{kind:?}"),
                }
                seen += 1;
            }
        }
        assert!(seen > 5 * 30, "{seen}");
    }
}
