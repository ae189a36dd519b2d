//! Call trees against a model that has the chain of callers of every call: calls and bytes of each chain, in each process.

mod calls;

use calls::{Call, Nobody};
use inviso_core::host::{
    cells::{key, Measure},
    clock::Clock,
    control::{Op, Target},
    event::{on_call, on_exit, on_resume, Exit},
    flags::Flags,
    node::{Node, Who},
    plan::{kinds, Mfa},
    session::{Options, Session},
    thread::Thread,
    tracee::{Class, Kind, Tracee},
    tree::{key_of, place_of, Tree, ROOT},
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

const FUNCTIONS: usize = 4;

fn code(function: usize) -> usize {
    (function + 1) * 64
}

/// Calls and bytes of each chain of functions in a process.
type Measured = BTreeMap<(u64, Vec<usize>), (u64, u64)>;

struct World {
    node: Arc<Node>,
    session: Arc<Session>,
    thread: Thread,
    processes: Vec<Arc<Tracee>>,
    allocated: u64,
    /// The open calls, innermost last: function, activation, chain.
    stack: Vec<(usize, usize, Vec<usize>)>,
    /// Suspended calls.
    suspended: Vec<(usize, usize)>,
    next: usize,
    /// The charged process and chain.
    charged: Option<(u64, Vec<usize>)>,
    charges: Vec<Option<(u64, Vec<usize>)>>,
    measured: Measured,
}

fn target(function: usize) -> Target {
    let name = Arc::new(Mfa { module: "m".into(), function: format!("f{function}").into(), arity: 0 });
    Target { key: code(function), name, exported: true, foreign: false, is_gone: false }
}

impl World {
    fn new() -> World {
        let node = Node::new(Clock::new());
        let session = node.session_create("", 0, Options::default()).unwrap();
        session.tree.get_or_init(Tree::default);
        let own = node.process(Kind::Thread, 0);
        let processes = vec![own.clone(), node.process(Kind::Thread, 0)];
        let thread = node.thread(own);
        node.flags(&session, Who::All(Class::Process), true, Flags::CALL).unwrap();
        let targets: Vec<_> = (0..FUNCTIONS).map(target).collect();
        node.function(&session, &targets, kinds::MEMORY, Op::On, &Nobody).unwrap();
        World {
            node,
            session,
            thread,
            processes,
            allocated: 0,
            stack: Vec::new(),
            suspended: Vec::new(),
            next: 0,
            charged: None,
            charges: Vec::new(),
            measured: Measured::new(),
        }
    }

    fn call(&self, at: usize) -> Call {
        Call { at, allocated: self.allocated, is_global: false }
    }

    fn allocate(&mut self, bytes: u64) {
        self.allocated += bytes;
        if let Some(charged) = &self.charged {
            self.measured.entry(charged.clone()).or_default().1 += bytes;
        }
    }

    fn begin(&mut self, function: usize, at: usize, is_new: bool) {
        let call = self.call(at);
        let mut chain = self.stack.last().map_or_else(Vec::new, |(.., chain)| chain.clone());
        chain.push(function);
        let pid = self.thread.current().pid;
        if is_new {
            on_call(&self.node, &mut self.thread, code(function), &call);
            self.measured.entry((pid, chain.clone())).or_default().0 += 1;
        } else {
            on_resume(&self.node, &mut self.thread, code(function), &call);
        }
        self.charges.push(self.charged.replace((pid, chain.clone())));
        self.stack.push((function, at, chain));
    }

    fn end(&mut self, exit: Exit) {
        let Some((function, at, _)) = self.stack.pop() else { return };
        let call = self.call(at);
        on_exit(&self.node, &mut self.thread, code(function), exit, &call);
        self.charged = self.charges.pop().flatten();
        if exit == Exit::Yield {
            self.suspended.push((function, at));
        }
    }

    fn step(&mut self, what: u8, number: usize) {
        match what {
            0..=3 => {
                self.next += 1;
                self.begin(number % FUNCTIONS, self.next * 16, true);
            }
            4 | 5 => self.end([Exit::Return, Exit::Unwind][number % 2]),
            6 => self.end(Exit::Yield),
            7 if !self.suspended.is_empty() => {
                let (function, at) = self.suspended.swap_remove(number % self.suspended.len());
                self.begin(function, at, false);
            }
            8 => self.allocate(number as u64),
            _ => {}
        }
    }

    /// The measures of the session.
    fn read(&self) -> Measured {
        let slots: HashMap<u32, (usize, u32)> = (0..FUNCTIONS)
            .map(|function| {
                let (slot, entry) = self.node.entry(&self.session, code(function)).unwrap();
                (slot, (function, entry.memory))
            })
            .collect();
        let places = self.session.tree.get().unwrap().places();
        let mut measured = Measured::new();
        self.session.arena.each(|r| {
            let place = place_of(r.key);
            assert_eq!(r.key, key_of(place, Measure::Memory));
            let (mut at, mut chain) = (place, Vec::new());
            while at != ROOT {
                chain.push(slots[&places[at as usize].slot].0);
                at = places[at as usize].above;
            }
            chain.reverse();
            if r.generation == slots[&places[place as usize].slot].1 && (r.count, r.amount) != (0, 0) {
                assert!(measured.insert((r.pid, chain), (r.count, r.amount)).is_none(), "a chain has one cell");
            }
        });
        measured
    }

    fn compare(&self) {
        let mut model = self.measured.clone();
        model.retain(|_, each| *each != (0, 0));
        assert_eq!(self.read(), model);
        // by function alone
        for function in 0..FUNCTIONS {
            let (slot, entry) = self.node.entry(&self.session, code(function)).unwrap();
            let mut sum = (0, 0);
            self.session.each_function(|r| {
                if (r.key, r.generation) == (key(slot, Measure::Memory), entry.memory) {
                    sum = (sum.0 + r.count, sum.1 + r.amount);
                }
            });
            let of = model.iter().filter(|((_, chain), _)| chain.last() == Some(&function));
            assert_eq!(sum, of.fold((0, 0), |sum, (_, each)| (sum.0 + each.0, sum.1 + each.1)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Calls, returns, exceptions, and suspended calls that resume elsewhere, in one process and then in another. A restart sets all
    /// counts to zero.
    #[test]
    fn chains_are_measured_as_they_were(
        steps in proptest::collection::vec((0u8..9, 0usize..1000), 1..300), second in 0usize..300, restart in 0usize..600,
    ) {
        let mut world = World::new();
        for (n, (what, number)) in steps.into_iter().enumerate() {
            if n == second {
                while !world.stack.is_empty() {
                    world.end(Exit::Return);
                }
                let other = world.processes[1].clone();
                world.thread.become_process(other);
            }
            world.step(what, number);
            if n == restart {
                while !world.stack.is_empty() {
                    world.end(Exit::Return);
                }
                let targets: Vec<_> = (0..FUNCTIONS).map(target).collect();
                world.node.function(&world.session, &targets, kinds::MEMORY, Op::Restart, &Nobody).unwrap();
                world.measured.clear();
                world.compare();
            }
        }
        while !world.stack.is_empty() {
            world.end(Exit::Return);
        }
        world.compare();
    }
}

/// The number of a function that is no longer measured is not reused while a call tree may contain it.
#[test]
fn a_number_in_a_tree_is_not_given_to_another_function() {
    let mut world = World::new();
    world.begin(0, 16, true);
    world.end(Exit::Return);
    let slot = |world: &World, function| world.node.entry(&world.session, code(function)).map(|(slot, _)| slot);
    let first = slot(&world, 0);
    let World { node, session, .. } = &world;
    node.function(session, &[target(0)], kinds::MEMORY, Op::Off, &Nobody).unwrap();
    node.function(session, &[target(7)], kinds::MEMORY, Op::On, &Nobody).unwrap();
    node.function(session, &[target(0)], kinds::MEMORY, Op::On, &Nobody).unwrap();
    let held = [slot(&world, 7), slot(&world, 0)];
    assert!(first.is_some() && !held.contains(&first));
    // without a tree it is reused
    assert!(node.session_destroy(session, &Nobody));
    let plain = node.session_create("", 0, Options::default()).unwrap();
    let targets: Vec<_> = (0..FUNCTIONS + 2).map(target).collect();
    node.function(&plain, &targets, kinds::MEMORY, Op::On, &Nobody).unwrap();
    let slots: Vec<_> = (0..FUNCTIONS + 2).filter_map(|function| Some(node.entry(&plain, code(function))?.0)).collect();
    assert!(slots.iter().all(|slot| *slot <= FUNCTIONS as u32 + 2), "{slots:?}");
}
