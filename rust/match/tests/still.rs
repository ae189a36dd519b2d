//! A program that doesn't match allocates no memory. An allocator counts that, in a process of its own.

use inviso_match::{
    test::{Bench, TermHost},
    Context, Outcome, Program,
};
use inviso_term::term::Term;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller promises that `layout` has a size above 0.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// As [`GlobalAlloc::dealloc`].
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `ptr` was allocated here with this `layout`. So it is of the system's allocator.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a run allocates, and whether it matches.
fn run(spec: &Term, arguments: &[Term]) -> (usize, bool) {
    let program = Program::compile(spec, Context::Call).expect("well formed");
    let bench = Bench::default();
    let mut host = TermHost::new(&bench, arguments);
    let before = COUNT.get();
    let is_match = matches!(program.run(&mut host), Outcome::Match { .. });
    (COUNT.get() - before, is_match)
}

fn str(text: &str) -> Term {
    Term::str(text)
}

fn list<const N: usize>(parts: [Term; N]) -> Term {
    Term::List(parts.into())
}

fn tuple<const N: usize>(parts: [Term; N]) -> Term {
    Term::Tuple(parts.into())
}

fn guarded(guard: Term) -> Term {
    list([tuple([list([str("$1"), str("$2")]), list([guard]), list([tuple([str("message"), str("$_")])])])])
}

#[test]
fn a_program_that_does_not_match_allocates_nothing() {
    let map = Term::Map(vec![(str("k"), list([Term::from(1)])), (Term::atom("l"), Term::Float(2.5))]);
    let arguments = [tuple([Term::from(5), str("text"), list([Term::from(1), Term::from(2)])]), map.clone()];
    let call2 = |name, a: &Term, b: &Term| tuple([str(name), a.clone(), b.clone()]);
    let call1 = |name, a: &Term| tuple([str(name), a.clone()]);
    let (one, two) = (&str("$1"), &str("$2"));
    let first = &call2("element", &Term::from(1), one);
    let third = &call2("element", &Term::from(3), one);
    let guards = [
        call2(">", first, &Term::from(10)),
        call2(">", &call2("+", first, &Term::from(1)), &Term::from(10)),
        call2("==", &call2("element", &Term::from(2), one), &str("other")),
        call2("=:=", one, two),
        call2("=:=", &call2("map_get", &str("k"), two), &list([Term::from(2)])),
        call2(">", two, &Term::Map(vec![(str("k"), list([Term::from(1)])), (str("a"), Term::from(1))])),
        call2("=:=", &call1("hd", &call1("tl", third)), &Term::from(7)),
        call2("=:=", &tuple([tuple([first.clone(), third.clone()])]), &call2("element", &Term::from(2), one)),
        call2("=:=", &list([first.clone(), third.clone()]), &str("$_")),
        call2("=:=", &Term::Map(vec![(str("x"), first.clone())]), two),
        call2("==", &tuple([str("self")]), first),
        call2("==", &tuple([str("node")]), first),
        tuple([
            str("=="),
            tuple([str("binary_part"), call2("element", &Term::from(2), one), Term::from(1), Term::from(2)]),
            str("tx"),
        ]),
        tuple([str("orelse"), call1("is_atom", one), call1("is_float", first), call2("<", first, &Term::from(0))]),
        tuple([str("and"), call1("is_tuple", one), tuple([str("not"), call1("is_map", two)])]),
        call1("hd", one),
        call2("=:=", &call1("length", &str("$_")), &Term::from(3)),
        call2("==", &call2("div", first, &Term::from(0)), &Term::from(0)),
    ];
    for guard in &guards {
        assert_eq!(run(&guarded(guard.clone()), &arguments), (0, false), "{guard:?}");
    }

    let heads = [
        list([str("$1"), str("$1")]),
        list([tuple([str("$1"), str("$2"), list([str("$1"), str("_")])]), str("_")]),
        list([tuple([str("_"), str("_"), Term::ImproperList(vec![Term::from(2)], Box::new(str("$3")))]), str("_")]),
        list([str("_"), Term::Map(vec![(str("k"), list([str("_"), str("_")]))])]),
        list([str("_")]),
        list([Term::from(1), str("_")]),
        list([str("_"), Term::atom("x")]),
    ];
    for head in heads {
        let spec = list([tuple([head.clone(), list([]), list([])])]);
        assert_eq!(run(&spec, &arguments), (0, false), "{head:?}");
    }

    // with more registers than most programs have
    let many = guards.iter().cycle().take(12).cloned().collect::<Vec<_>>();
    let spec = guarded(tuple([
        str("orelse"),
        Term::atom("false"),
        Term::Tuple([vec![str("or")], many[..6].to_vec()].concat()),
    ]));
    assert_eq!(run(&spec, &arguments), (0, false));
}

#[test]
fn the_allocator_counts() {
    let arguments = [Term::from(1), Term::from(2)];
    let (count, is_match) = run(&guarded(Term::atom("true")), &arguments);
    assert!(is_match && count > 0);
    let accept = list([tuple([str("_"), list([]), list([tuple([str("return_trace")])])])]);
    assert_eq!(run(&accept, &arguments), (0, true));
}
