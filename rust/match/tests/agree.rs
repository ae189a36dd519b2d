//! Compiled programs, compared with the reference over generated specifications and subjects.
//!
//! `INVISO_MATCH_CASES` is the number of cases; by default a few thousand.

mod generated;

use generated::{any_term, spec, subject};
use inviso_match::{
    reference,
    test::{test_at, Bench, Mode},
    Context, Program,
};
use inviso_term::term::{Identifier, Term};
use proptest::prelude::*;

fn cases() -> u32 {
    std::env::var("INVISO_MATCH_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000)
}

fn bench() -> Bench {
    let me = Term::Pid(Identifier::new(3, "nonode@nohost", 0));
    Bench { me: me.clone(), names: vec![("known_name".into(), me)], ..Bench::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_agree_with_the_reference((spec, subjects) in (spec(false), prop::collection::vec(subject(false), 1..5))) {
        for subject in &subjects {
            let got = test_at(&bench(), subject, &spec, Mode::Trace);
            let same = got == reference::test_at(&bench(), subject, &spec, Mode::Trace);
            prop_assert!(same, "{:?}\n{:?}", got, reference::test_at(&bench(), subject, &spec, Mode::Trace));
        }
    }

    #[test]
    fn table_programs_agree_with_the_reference((spec, subjects) in (spec(true), prop::collection::vec(subject(true), 1..5))) {
        for subject in &subjects {
            let got = test_at(&bench(), subject, &spec, Mode::Table);
            let same = got == reference::test_at(&bench(), subject, &spec, Mode::Table);
            prop_assert!(same, "{:?}\n{:?}", got, reference::test_at(&bench(), subject, &spec, Mode::Table));
        }
    }

    #[test]
    fn any_term_is_a_specification_or_refused(spec in any_term(), subject in any_term()) {
        for context in [Context::Call, Context::Send, Context::Receive, Context::Table] {
            if let Err(problems) = Program::compile(&spec, context) {
                prop_assert!(!problems.is_empty());
                prop_assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
            }
        }
        for mode in [Mode::Trace, Mode::Table] {
            prop_assert_eq!(
                test_at(&bench(), &subject, &spec, mode),
                reference::test_at(&bench(), &subject, &spec, mode)
            );
        }
    }
}

/// Most generated specifications are well formed, and they match and fail often enough.
#[test]
fn generated_specifications_are_useful() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    for (table, mode) in [(false, Mode::Trace), (true, Mode::Table)] {
        let (mut formed, mut matched, mut exits, n) = (0, 0, 0, 600);
        for _ in 0..n {
            let spec = spec(table).new_tree(&mut runner).unwrap().current();
            let subject = subject(table).new_tree(&mut runner).unwrap().current();
            if let Ok(tested) = test_at(&bench(), &subject, &spec, mode) {
                formed += 1;
                matched += usize::from(tested.result != Term::atom("false"));
                exits += usize::from(format!("{:?}", tested.result).contains("EXIT"));
            }
        }
        assert!(formed * 10 > n * 8, "{formed} of {n} well formed");
        assert!(matched * 10 > n * 2, "{matched} of {n} matched");
        assert!(exits > 5, "{exits} exits");
    }
}
