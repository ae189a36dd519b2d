//! Tokens of sequential tracing: the serial algorithm, resets, and tokens that are set aside or lent.

use inviso_core::host::{
    clock::Clock,
    messages::About,
    node::Node,
    seq::{flags, label, Carried, Token, LABEL},
    thread::Thread,
    tracee,
};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use std::sync::Arc;

#[test]
fn a_label_is_the_same_in_whatever_order_it_came() {
    let int = Term::from;
    let pairs =
        |keys: [i64; 3]| Term::Map(keys.into_iter().map(|k| (int(k), Term::Set(vec![int(k), int(0)]))).collect());
    let odd = |a: Term, b: Term| Term::List(vec![Term::Set(vec![a, b])]);
    let one = |term: Term| label(term).unwrap();
    assert_eq!(one(pairs([1, 2, 3])), one(pairs([3, 1, 2])));
    assert_eq!(one(odd(int(0), int(8))), one(odd(int(8), int(0))));
    // equal in Erlang, but two members
    let (text, bytes) = (Term::str("a"), Term::Bytes((*b"a").into()));
    assert_eq!(one(odd(text.clone(), bytes.clone())), one(odd(bytes, text)));
    assert_ne!(one(int(1)), one(Term::Float(1.0)));
    assert!(label(Term::Bytes(vec![0; LABEL].into())).is_none());
}

#[test]
fn counters_and_tokens_go_with_a_reset_and_come_anew() {
    let node = Node::new(Clock::new());
    let process = node.process(tracee::Kind::Thread, 0);
    let mut thread = node.thread(process.clone());
    assert!(!node.seq_in_use() && node.seq_token(&process).is_none());
    node.seq_change(&process, |token| token.flags = flags::SEND);
    assert_eq!(node.seq_set_serial(&process, (3, 5)), (0, 0));
    let sent = node.seq_send(&mut thread, About::Current, 99, |_, _| Ok(()));
    assert!(matches!(&sent, Carried::Token(token, 0) if token.serial == (3, 6)), "{sent:?}");
    node.seq_reset();
    assert!(!node.seq_in_use() && node.seq_token(&process).is_none());
    node.seq_change(&process, |token| token.flags = flags::RECEIVE);
    assert_eq!(node.seq_token(&process).map(|token| token.serial), Some((0, 0)));
    node.seq_receive(&mut thread, About::Current, sent, |_, _| Ok(()));
    assert!(node.seq_token(&process).is_none(), "a token of before the reset is empty, and empties");
    let next = node.seq_send(&mut thread, About::Current, 99, |_, _| Ok(()));
    assert!(matches!(next, Carried::Empty));
}

#[test]
fn what_is_lent_is_given_back_and_a_reset_takes_both() {
    let node = Node::new(Clock::new());
    let (owner, other) = (node.process(tracee::Kind::Thread, 0), node.process(tracee::Kind::Thread, 0));
    assert!(!node.seq_may_have(&owner) && matches!(node.seq_copy(&owner), Carried::Empty));
    node.seq_change(&owner, |token| token.flags = flags::PRINT);
    node.seq_set_serial(&owner, (3, 5));
    node.seq_change(&other, |token| token.flags = flags::SEND);
    let had = node.seq_copy(&other);
    node.seq_lend(&other, node.seq_copy(&owner));
    assert_eq!(node.seq_token(&other).map(|token| (token.flags, token.serial)), Some((flags::PRINT, (3, 5))));
    node.seq_exchange(&other, had.clone());
    assert_eq!(node.seq_token(&other).map(|token| token.flags), Some(flags::SEND));
    node.seq_exchange(&other, Carried::Empty);
    assert!(node.seq_token(&other).is_none() && !node.seq_may_have(&other));
    let lent = node.seq_copy(&owner);
    node.seq_reset();
    node.seq_change(&node.process(tracee::Kind::Thread, 0), |_| ());
    node.seq_lend(&other, lent);
    node.seq_exchange(&owner, had);
    assert!(node.seq_token(&other).is_none() && node.seq_token(&owner).is_none());
}

#[test]
fn a_token_of_another_node_is_taken_by_the_algorithm_and_sent_on_as_one_s_own() {
    let node = Node::new(Clock::new());
    let process = node.process(tracee::Kind::Thread, 0);
    let mut thread = node.thread(process.clone());
    let away = Arc::new(Identifier::new(4, "shop@far", 7));
    let label = etf::encode(&Term::str("order")).into();
    let token = Token { flags: flags::SEND, label, serial: (3, 9), from: 0, away: Some(away.clone()) };
    let arrived = node.seq_arrived(token);
    node.seq_receive(&mut thread, About::Current, arrived, |_, _| Ok(()));
    let Some(taken) = node.seq_token(&process) else { panic!("no token") };
    let Term::Tuple(parts) = taken.term() else { panic!("{taken:?}") };
    assert_eq!(parts[2..], [Term::from(9), Term::Pid((*away).clone()), Term::from(3)]);
    let sent = node.seq_send(&mut thread, About::Current, 99, |_, _| Ok(()));
    let Carried::Token(sent, _) = sent else { panic!("{sent:?}") };
    assert_eq!((sent.serial, sent.from, sent.away), ((9, 10), process.pid, None));
}

/// As in OTP 29.
#[test]
fn a_counter_below_0_is_larger_than_all_that_come_also_when_it_has_been_counted_on() {
    let node = Node::new(Clock::new());
    let (process, other) = (node.process(tracee::Kind::Thread, 0), node.process(tracee::Kind::Thread, 0));
    let (mut thread, mut theirs) = (node.thread(process.clone()), node.thread(other.clone()));
    let next = |thread: &mut Thread| match node.seq_send(thread, About::Current, 99, |_, _| Ok(())) {
        Carried::Token(token, era) => (token.serial, Carried::Token(token, era)),
        other => panic!("{other:?}"),
    };
    node.seq_set_serial(&other, (0, 6));
    let (_, seven) = next(&mut theirs);
    node.seq_set_serial(&process, (2, -2));
    assert_eq!(next(&mut thread).0, (2, -1));
    let take = |thread: &mut Thread, carried: &Carried| {
        node.seq_receive(thread, About::Current, carried.clone(), |_, _| Ok(()));
    };
    take(&mut thread, &seven);
    let (zero, below) = next(&mut thread);
    assert_eq!(zero, (7, 0));
    take(&mut thread, &seven);
    assert_eq!(next(&mut thread).0, (7, 1));
    // a received one is larger than other counters
    node.seq_set_serial(&process, (0, -9));
    let (_, far_below) = next(&mut thread);
    take(&mut theirs, &below);
    assert_eq!(next(&mut theirs).0, (0, 8));
    take(&mut theirs, &far_below);
    assert_eq!(next(&mut theirs).0, (-8, -7));
    node.seq_set_serial(&process, (0, 3));
    take(&mut thread, &seven);
    assert_eq!(next(&mut thread).0, (7, 8));
}

#[test]
fn a_token_that_is_put_aside_comes_back_and_the_counters_go_on() {
    let node = Node::new(Clock::new());
    let process = node.process(tracee::Kind::Thread, 0);
    let mut thread = node.thread(process.clone());
    node.seq_change(&process, |token| token.flags = flags::SEND);
    let aside = node.seq_exchange(&process, Carried::Empty);
    assert!(node.seq_token(&process).is_none());
    node.seq_set_serial(&process, (0, 5));
    assert!(matches!(node.seq_exchange(&process, aside), Carried::Token(token, 0) if token.flags == 0));
    assert_eq!(node.seq_token(&process).map(|token| token.flags), Some(flags::SEND));
    let sent = node.seq_send(&mut thread, About::Current, 99, |_, _| Ok(()));
    assert!(matches!(sent, Carried::Token(token, 0) if token.serial == (0, 6)));
    let aside = node.seq_exchange(&process, Carried::Empty);
    node.seq_reset();
    node.seq_change(&process, |_| ());
    node.seq_exchange(&process, aside);
    assert!(node.seq_token(&process).is_none(), "a token of before the reset is empty");
}

#[test]
fn a_message_without_a_token_clears_and_a_timer_s_does_not() {
    let node = Node::new(Clock::new());
    let process = node.process(tracee::Kind::Thread, 0);
    let mut thread = node.thread(process.clone());
    node.seq_change(&process, |_| ());
    node.seq_receive(&mut thread, About::Current, Carried::Nothing, |_, _| Ok(()));
    assert!(node.seq_token(&process).is_some());
    node.seq_receive(&mut thread, About::Current, Carried::Empty, |_, _| Ok(()));
    assert!(node.seq_token(&process).is_none());
}
