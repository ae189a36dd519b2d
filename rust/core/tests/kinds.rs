//! Changes of kinds by `function`, and the calls after them, against a slow model of the rules (trace.md, `function/4`; gold README 23,
//! 25, 26).

mod calls;

use calls::{Call, Nobody};
use inviso_core::host::{
    clock::Clock,
    control::{Op, Target},
    event::{on_call, on_exit, Exit},
    flags::Flags,
    node::{Node, Who},
    plan::{kinds, Mfa},
    session::{Options, Session},
    tracee::{Class, Kind},
};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

const KINDS: [u16; 7] =
    [kinds::COUNT, kinds::TIME, kinds::MEMORY, kinds::LATENCY, kinds::LOCAL, kinds::GLOBAL, kinds::META];

/// Two exported functions and one that is not.
const FUNCTIONS: [(usize, bool); 3] = [(11, true), (22, true), (33, false)];

/// The model's state of one kind on one function: whether it runs, and its number of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    running: bool,
    calls: u64,
}

/// The model's state of one session on one function, by kind.
type Function = BTreeMap<u16, Setting>;

fn is_counter(kind: u16) -> bool {
    [kinds::COUNT, kinds::TIME, kinds::MEMORY, kinds::LATENCY].contains(&kind)
}

/// Applies one kind of a change by the rules.
fn change(function: &mut Function, kind: u16, op: Op) {
    match op {
        Op::Off => {
            function.remove(&kind);
        }
        Op::Pause if is_counter(kind) => {
            if let Some(setting) = function.get_mut(&kind) {
                setting.running = false;
            }
        }
        Op::Restart if is_counter(kind) && !function.contains_key(&kind) => {}
        _ => {
            if kind == kinds::GLOBAL {
                function.clear();
            } else {
                function.remove(&kinds::GLOBAL);
            }
            function.insert(kind, Setting { running: true, calls: 0 });
        }
    }
}

/// Applies a call. Answers the number of its messages.
fn called(function: &mut Function, flags: Flags, from_outside: bool) -> u64 {
    let mut messages = 0;
    for (kind, setting) in function.iter_mut().filter(|(_, setting)| setting.running) {
        let flagged = flags.has(Flags::CALL);
        match *kind {
            kinds::COUNT | kinds::LATENCY => setting.calls += 1,
            kinds::TIME | kinds::MEMORY => setting.calls += u64::from(flagged),
            kinds::META => messages += 1,
            kinds::LOCAL => messages += u64::from(flagged && !flags.has(Flags::SILENT)),
            kinds::GLOBAL => messages += u64::from(flagged && !flags.has(Flags::SILENT) && from_outside),
            _ => unreachable!(),
        }
    }
    messages
}

#[derive(Clone, Debug)]
enum Step {
    Function { session: usize, functions: Vec<usize>, kinds: u16, op: Op },
    Call { function: usize, from_outside: bool },
    Flags { session: usize, how: bool, flags: Flags },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![3 => Just(Op::On), 1 => Just(Op::Off), 1 => Just(Op::Pause), 1 => Just(Op::Restart)];
    // `global` alone, or any others together: hosts refuse other combinations
    let kinds = prop_oneof![
        Just(kinds::GLOBAL),
        (1u16..64).prop_map(|bits| {
            let others = KINDS.iter().filter(|kind| **kind != kinds::GLOBAL);
            others.enumerate().filter(|(n, _)| bits & 1 << n != 0).fold(0, |all, (_, kind)| all | kind)
        })
    ];
    let functions = proptest::sample::subsequence(vec![0, 1, 2], 1..=3);
    let flags = prop_oneof![Just(Flags::CALL), Just(Flags::SILENT)];
    let step = prop_oneof![
        3 => (0..2usize, functions, kinds, op)
            .prop_map(|(session, functions, kinds, op)| Step::Function { session, functions, kinds, op }),
        4 => (0..3usize, any::<bool>()).prop_map(|(function, from_outside)| Step::Call { function, from_outside }),
        1 => (0..2usize, any::<bool>(), flags).prop_map(|(session, how, flags)| Step::Flags { session, how, flags }),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The node's state of one session and function.
fn seen(node: &Node, session: &Session, key: usize) -> Function {
    let mut function = Function::new();
    let Some((slot, entry)) = node.entry(session, key) else { return function };
    let cells = |measure, generation| {
        let (mut calls, wanted) = (0, inviso_core::host::cells::key(slot, measure));
        session.arena.each(|r| calls += if (r.key, r.generation) == (wanted, generation) { r.count } else { 0 });
        calls
    };
    for kind in KINDS.into_iter().filter(|kind| entry.has & kind != 0) {
        let calls = match kind {
            kinds::COUNT => node.count(entry.count),
            kinds::TIME => cells(inviso_core::host::cells::Measure::Time, entry.time),
            kinds::MEMORY => cells(inviso_core::host::cells::Measure::Memory, entry.memory),
            kinds::LATENCY => entry.latency.as_ref().unwrap().read().len(),
            _ => 0,
        };
        function.insert(kind, Setting { running: entry.run & kind != 0, calls });
    }
    assert_eq!(entry.run & !entry.has, 0, "what isn't set can't run");
    function
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_same_as_the_rules(steps in steps()) {
        let node = Node::new(Clock::new());
        let mut thread = node.thread(node.process(Kind::Thread, 0));
        let sessions = [(), ()].map(|()| node.session_create("", 0, Options::default()).unwrap());
        let mut model = [[(); 3], [(); 3]].map(|session| session.map(|()| Function::new()));
        let mut flags = [Flags::NONE; 2];
        let mut messages = [0u64; 2];
        for step in steps {
            match &step {
                Step::Function { session, functions, kinds, op } => {
                    let targets: Vec<Target> = functions.iter().map(|n| Target {
                        key: FUNCTIONS[*n].0,
                        name: Arc::new(Mfa { module: "m".into(), function: format!("f{n}").into(), arity: 0 }),
                        exported: FUNCTIONS[*n].1,
                        foreign: false,
                        is_gone: false,
                    }).collect();
                    let mut matched = 0;
                    for n in functions {
                        if *kinds == kinds::GLOBAL && !FUNCTIONS[*n].1 {
                            continue;
                        }
                        matched += 1;
                        for kind in KINDS.into_iter().filter(|kind| kinds & kind != 0) {
                            change(&mut model[*session][*n], kind, op.clone());
                        }
                    }
                    prop_assert_eq!(node.function(&sessions[*session], &targets, *kinds, op.clone(), &Nobody), Ok(matched));
                }
                Step::Call { function, from_outside } => {
                    let call = Call { at: 1, allocated: 0, is_global: *from_outside };
                    on_call(&node, &mut thread, FUNCTIONS[*function].0, &call);
                    on_exit(&node, &mut thread, FUNCTIONS[*function].0, Exit::Return, &call);
                    for n in 0..2 {
                        messages[n] += called(&mut model[n][*function], flags[n], *from_outside);
                    }
                }
                Step::Flags { session, how, flags: changed } => {
                    node.flags(&sessions[*session], Who::All(Class::Process), *how, *changed).unwrap();
                    let word = &mut flags[*session].0;
                    *word = if *how { *word | changed.0 } else { *word & !changed.0 };
                }
            }
            for (n, session) in sessions.iter().enumerate() {
                for (f, (key, _)) in FUNCTIONS.iter().enumerate() {
                    prop_assert_eq!(&seen(&node, session, *key), &model[n][f], "session {}, function {}, after {:?}", n, f, step);
                }
                let written: u64 = session.feeds().iter().map(|feed| feed.ring.head()).sum();
                prop_assert_eq!(written, messages[n], "messages of session {} after {:?}", n, step);
            }
        }
        for session in &sessions {
            prop_assert!(node.session_destroy(session, &Nobody));
        }
        prop_assert!(node.read(|snapshot| snapshot.is_empty()));
        node.end_thread(thread);
    }
}
