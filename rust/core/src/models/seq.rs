//! Sequential tracing: no token from before a reset is accepted after it, and a token that is set while tokens go out of use stays.

use super::explore;
use crate::{
    clock::Clock,
    record::identity::Kind,
    state::{node::Node, token::Carried},
    sync::{thread, Arc, Mutex},
    trace::about::About,
};

/// One process sends a message with a token, another receives it, and a third thread resets. Then the receiver sends. After the reset
/// and the receipt, no process has a token from before.
#[test]
fn a_reset_reaches_what_is_under_way() {
    const OUTCOMES: [&str; 2] = ["sent before the reset", "sent after the reset"];
    explore(3, 30, &OUTCOMES, |seen| {
        let node = Node::new(Clock::new());
        let (sender, taker) = (node.process(Kind::Thread, 0), node.process(Kind::Thread, 0));
        let mut first = node.thread(sender.clone());
        let mut second = node.thread(taker.clone());
        node.seq_change(&sender, |_| ());
        let letter = Arc::new(Mutex::new(None));
        let sending = thread::spawn({
            let (node, letter) = (node.clone(), letter.clone());
            move || {
                let carried = node.seq_send(&mut first, About::Current, 9, |_, _| Ok(()));
                *letter.lock().unwrap() = Some(carried);
                node.end_thread(first);
            }
        });
        let taking = thread::spawn({
            let (node, letter) = (node.clone(), letter.clone());
            move || {
                let carried = letter.lock().unwrap().take();
                if let Some(carried) = carried {
                    node.seq_receive(&mut second, About::Current, carried, |_, _| Ok(()));
                }
                second
            }
        });
        node.seq_reset();
        sending.join().unwrap();
        let mut second = taking.join().unwrap();
        let left = letter.lock().unwrap().take();
        seen.note(OUTCOMES[0], matches!(left, Some(Carried::Token(..))));
        seen.note(OUTCOMES[1], matches!(left, Some(Carried::Empty)));
        // another process begins a sequence: tokens are in use again
        let other = node.process(Kind::Thread, 0);
        node.seq_change(&other, |_| ());
        if let Some(carried) = left {
            node.seq_receive(&mut second, About::Current, carried, |_, _| Ok(()));
        }
        assert!(node.seq_token(&taker).is_none(), "a token has come past the reset to its receiver");
        assert!(node.seq_token(&sender).is_none(), "a token has come past the reset in its sender");
        let next = node.seq_send(&mut second, About::Current, 9, |_, _| Ok(()));
        assert!(matches!(next, Carried::Empty), "a token of before the reset was sent after it");
        node.end_thread(second);
    });
}

/// The last token is gone. One thread takes tokens out of use while another sets one.
#[test]
fn a_token_that_comes_as_they_go_out_of_use_is_in_use() {
    const OUTCOMES: [&str; 2] = ["out of use first", "a token first"];
    explore(2, 4, &OUTCOMES, |seen| {
        let node = Node::new(Clock::new());
        let (had, has) = (node.process(Kind::Thread, 0), node.process(Kind::Thread, 0));
        node.seq_change(&had, |_| ());
        node.seq_clear(&had);
        let setting = thread::spawn({
            let (node, has) = (node.clone(), has.clone());
            move || node.seq_change(&has, |_| ())
        });
        let ended = node.seq_end();
        setting.join().unwrap();
        seen.note(OUTCOMES[0], ended);
        seen.note(OUTCOMES[1], !ended);
        assert!(node.seq_in_use() && node.seq_token(&has).is_some(), "a token is there, and none is in use");
        node.seq_clear(&has);
        assert!(node.seq_end() && !node.seq_in_use(), "the last has gone");
    });
}

/// A message is dropped during a reset, and then a token is set.
#[test]
fn a_token_of_before_a_reset_takes_none_of_after_it_away() {
    const OUTCOMES: [&str; 2] = ["let go of before the reset", "let go of after the reset"];
    explore(2, 4, &OUTCOMES, |seen| {
        let node = Node::new(Clock::new());
        let (sender, has) = (node.process(Kind::Thread, 0), node.process(Kind::Thread, 0));
        node.seq_change(&sender, |_| ());
        let letter = node.seq_copy(&sender);
        node.seq_clear(&sender);
        let losing = thread::spawn({
            let node = node.clone();
            move || {
                drop(letter);
                node.seq_end()
            }
        });
        node.seq_reset();
        node.seq_change(&has, |_| ());
        let ended = losing.join().unwrap();
        seen.note(OUTCOMES[0], ended);
        seen.note(OUTCOMES[1], !ended);
        assert!(!node.seq_end() && node.seq_token(&has).is_some(), "a token of after the reset is not counted");
    });
}
