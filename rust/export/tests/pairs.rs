//! Pairs of messages, compared with a model that keeps all sendings in a list.

use inviso_export::{
    event::{Event, Seq, Trace, What},
    pairs::Pairs,
};
use inviso_term::{
    etf,
    record::numbered::{self, MessageKind, Number},
    term::{Identifier, Term},
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Send {
        to: u64,
        value: i64,
        numbered: bool,
    },
    /// By number: that of this pending message; received in the sending process or in another one.
    Numbered(usize, bool),
    /// By contents.
    Alike {
        at: u64,
        value: i64,
    },
    Token {
        send: bool,
        serial: i64,
    },
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u64, 0..3i64, any::<bool>()).prop_map(|(to, value, numbered)| Step::Send { to, value, numbered }),
        2 => (0..20usize, any::<bool>()).prop_map(|(n, abroad)| Step::Numbered(n, abroad)),
        2 => (0..4u64, 0..3i64).prop_map(|(at, value)| Step::Alike { at, value }),
        1 => (any::<bool>(), 0..4i64).prop_map(|(send, serial)| Step::Token { send, serial }),
        1 => Just(Step::Forget),
    ]
}

/// A pid: 0 and 1 are queues.
fn pid(n: u64) -> Term {
    Term::Pid(Identifier::own(if n < 2 { n << 2 | 2 } else { n << 2 }))
}

/// Two operating system processes with the same numbers.
const CREATIONS: [u32; 2] = [1000, 2000];

/// A pid of a process with this creation.
fn of_process(creation: u32, node: &str) -> Term {
    Term::Pid(Identifier::new(12, node, creation))
}

fn with_trace<R>(
    tag: &str, who: Term, value: i64, to: Option<u64>, number: Option<Number>, with: impl FnOnce(&Trace<'_>) -> R,
) -> R {
    let head = vec![Term::atom("trace"), who, Term::atom(tag), Term::from(value)];
    let mut bytes = etf::encode_versioned(&Term::Tuple(head.into_iter().chain(to.map(pid)).collect()));
    if let Some(number) = number {
        numbered::put(&mut bytes, number);
    }
    let Some(Event { what: What::Trace(trace), .. }) = Event::parse(&bytes) else { panic!() };
    with(&trace)
}

fn with_seq<R>(serial: i64, with: impl FnOnce(&Seq<'_>) -> R) -> R {
    let serial = Term::Tuple(vec![Term::from(0), Term::from(serial)]);
    let info = Term::Tuple(vec![Term::atom("send"), serial, pid(2), pid(3), Term::from(0)]);
    let bytes = etf::encode_versioned(&Term::Tuple(vec![Term::atom("seq_trace"), Term::from(1), info]));
    let Some(Event { what: What::Seq(seq), .. }) = Event::parse(&bytes) else { panic!() };
    with(&seq)
}

/// A pending message of the model.
#[derive(Clone, Debug)]
struct Sent {
    place: u64,
    /// With the sender's creation.
    number: Option<(u64, u32)>,
    to: Option<u64>,
    value: i64,
    serial: Option<i64>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn the_model_finds_the_same(steps in prop::collection::vec(step(), 1..80)) {
        const MOST: usize = 12;
        let (mut pairs, mut model) = (Pairs::new(MOST, false), Vec::<Sent>::new());
        let mut next = 0_u64;
        let take = |model: &mut Vec<Sent>, is: &dyn Fn(&Sent) -> bool| {
            let at = model.iter().position(is)?;
            Some(model.remove(at).place)
        };
        for step in steps {
            match step {
                Step::Send { to, value, numbered } => {
                    let number = numbered.then_some((next / 2 + 1000, CREATIONS[next as usize % 2]));
                    let who = number.map_or(pid(3), |(_, creation)| of_process(creation, "nonode@nohost"));
                    let named = number.map(|(number, _)| Number { number, sender: 0, kind: MessageKind::Item });
                    let place = with_trace("send", who, value, Some(to), named, |trace| pairs.sent(trace, next));
                    prop_assert_eq!(place, Some(next));
                    model.push(Sent { place: next, number, to: Some(to), value, serial: None });
                    next += 1;
                }
                Step::Token { send: true, serial } => {
                    let place = with_seq(serial, |seq| pairs.sent_with(seq, next));
                    prop_assert_eq!(place, Some(next));
                    // a second sending with the same serial replaces the first
                    model.iter_mut().filter(|sent| sent.serial == Some(serial)).for_each(|sent| sent.serial = Some(-1));
                    model.push(Sent { place: next, number: None, to: None, value: 0, serial: Some(serial) });
                    next += 1;
                }
                Step::Token { send: false, serial } => {
                    let found = with_seq(serial, |seq| pairs.with(seq));
                    prop_assert_eq!(found.map(|(place, _)| place), take(&mut model, &|sent| sent.serial == Some(serial)));
                }
                Step::Numbered(n, abroad) => {
                    let Some(of) = model.iter().filter_map(|sent| sent.number).nth(n) else { continue };
                    let (number, creation) = of;
                    // after a merge the node has another name
                    let (who, sender) = if abroad { (3000, creation) } else { (creation, 0) };
                    let number = Some(Number { number, sender, kind: MessageKind::Item });
                    let found = with_trace("receive", of_process(who, "merged@here"), 9, None, number, |trace| pairs.numbered(trace));
                    prop_assert_eq!(found.map(|(place, _)| place), take(&mut model, &|sent| sent.number == Some(of)));
                }
                Step::Alike { at, value } => {
                    let found = with_trace("receive", pid(at), value, None, None, |trace| {
                        pairs.alike(trace.tracee, trace.value.unwrap())
                    });
                    let direct = take(&mut model, &|sent| sent.to.is_some_and(|to| to == at && to > 1) && sent.value == value);
                    let any = direct.or_else(|| take(&mut model, &|sent| sent.to.is_some_and(|to| to < 2) && sent.value == value));
                    prop_assert_eq!(found.map(|(place, _)| place), any);
                }
                Step::Forget => {
                    while let Some((place, known)) = pairs.forget(false) {
                        prop_assert_eq!(place, known);
                        prop_assert_eq!(model.remove(0).place, place);
                    }
                }
            }
        }
        let mut rest = Vec::new();
        while let Some((place, _)) = pairs.forget(true) {
            rest.push(place);
        }
        prop_assert_eq!(rest, model.into_iter().map(|sent| sent.place).collect::<Vec<_>>());
    }
}
