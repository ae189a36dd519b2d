//! Match specifications: the compiler over any term, and programs against the slow interpreter.

use inviso_match::{
    reference,
    test::{test_at, Bench, Mode},
    Context, Program,
};
use inviso_term::{etf, term::Term};

/// Compiles the specification in the bytes, for every kind of program.
pub fn match_compile(bytes: &[u8]) {
    let Ok(spec) = etf::decode(bytes) else { return };
    for context in [Context::Call, Context::Send, Context::Receive, Context::Table] {
        match Program::compile(&spec, context) {
            Ok(program) => {
                assert_eq!(format!("{:?}", program.spec()), format!("{spec:?}"));
                let _ = program.uses();
            }
            Err(problems) => {
                assert!(!problems.is_empty());
                assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
            }
        }
    }
}

/// A specification and its subjects, one after the other in the bytes.
pub fn match_run(bytes: &[u8]) {
    // terms that are nested more deeply than programs compare are left to a test
    let limits = etf::Limits { depth: 50, ..etf::Limits::default() };
    let Ok(mut decoder) = etf::Decoder::new(bytes, limits) else { return };
    let Ok(spec) = decoder.term() else { return };
    let bench = Bench { me: Term::Tuple(vec![Term::from(1), Term::atom("me")]), ..Bench::default() };
    for _ in 0..4 {
        let Ok(subject) = decoder.term() else { return };
        for mode in [Mode::Trace, Mode::Table] {
            let (got, wanted) =
                (test_at(&bench, &subject, &spec, mode), reference::test_at(&bench, &subject, &spec, mode));
            assert!(got == wanted, "{got:?} {wanted:?} {spec:?} {subject:?}");
        }
    }
}
