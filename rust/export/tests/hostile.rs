//! Lines, counts and names of any bytes. They are formatted or refused; nothing panics.

use inviso_export::{counts::Counts, erlang, lines::Lines};
use inviso_log::{frame::Record, nodes::Nodes, ti::Aliases};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use proptest::prelude::*;

/// Messages with changed or cut bytes, or any bytes.
fn payloads() -> impl Strategy<Value = Vec<u8>> {
    let pid = || Term::Pid(Identifier::new(4 | 1 << 33, "nonode@nohost", 7));
    let function = |last: Term| Term::Tuple(vec![Term::atom("m"), Term::atom("f"), last]);
    let all = [
        vec![Term::atom("trace"), pid(), Term::atom("call"), function(Term::List(vec![Term::from(1), Term::str("a")]))],
        vec![Term::atom("trace_ts"), pid(), Term::atom("send"), Term::Float(1.5), pid(), Term::from(1 << 40)],
        vec![Term::atom("trace_ts"), pid(), Term::atom("exception_from"), function(Term::from(1)), function(pid())],
        vec![pid(), Term::atom("db"), Term::atom("alias"), function(Term::from(7))],
        vec![Term::atom("seq_trace"), Term::from(1), Term::Tuple(vec![Term::atom("send"), pid(), pid(), pid(), pid()])],
        vec![Term::Set(vec![Term::from(1)]), Term::Opaque("t".into(), 9, None), Term::Cut("x".into())],
    ];
    let messages: Vec<_> = all.into_iter().map(|parts| etf::encode_versioned(&Term::Tuple(parts))).collect();
    let changed =
        (prop::sample::select(messages), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4));
    prop_oneof![
        9 => (changed, any::<prop::sample::Index>(), any::<bool>()).prop_map(|((mut bytes, changes), cut, is_cut)| {
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(if is_cut { cut.index(bytes.len()) } else { bytes.len() });
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn lines_counts_and_nodes(payload in payloads()) {
        let mut text = String::new();
        Lines::new(true, |_| None).message(&payload, Some("a@h"), &mut (), &mut text);
        prop_assert!(!text.is_empty());
        erlang::message(&payload, &mut |_| 0, &mut text);

        let is_term = Record::Term(&payload).check().is_ok();
        let mut counts = Counts::default();
        prop_assert_eq!(counts.message(&payload).is_ok(), is_term);
        prop_assert_eq!(counts.messages, u64::from(is_term));

        let mut nodes = Nodes::new(["a@h", "b@h"]);
        nodes.learn(0, &payload);
        let mut named = Vec::new();
        nodes.put(0, &payload, &mut named);
        if is_term && payload.first() == Some(&etf::VERSION) {
            prop_assert!(Record::Term(&named).check().is_ok());
        }
    }

    #[test]
    fn files_of_names(entries in prop::collection::vec(payloads(), 0..5), tail in prop::collection::vec(any::<u8>(), 0..6)) {
        let entry = |term: &Vec<u8>| [&[0][..], &(term.len() as u32).to_be_bytes(), term].concat();
        let bytes = [entries.iter().flat_map(entry).collect(), tail.clone()].concat();
        let mut aliases = Aliases::default();
        aliases.read(&bytes);
        let nodes = Nodes::new(["a@h"]);
        let written = aliases.named(&nodes, 0);
        let mut again = Aliases::default();
        written.iter().for_each(|(_, entry)| again.read(entry));
        prop_assert_eq!(&again.damage, &[]);
        prop_assert!(aliases.damage.len() <= entries.len() + 1 + usize::from(!tail.is_empty()));
    }
}
