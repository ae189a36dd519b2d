//! The messages of records, in the shapes of trace.md.

use inviso_core::{
    drain,
    host::{
        clock::Clock,
        message::{Messages, NoMessage},
        node::Node,
        record::header::stamp,
        session::Stamps,
        tracee,
    },
    kinds, Class, Event, Flags, Mfa, Op, Options, Program, What, Who,
};
use inviso_term::{
    etf,
    record::Kind,
    term::{Identifier, Term},
};
use std::sync::Arc;

const PID: u64 = 5 << 2;
const PORT: u64 = 9 << 2 | tracee::Kind::Port as u64;

fn event(kind: Kind, what: u64, payload: &[u8]) -> Event<&[u8]> {
    Event {
        kind: kind as u8,
        stamps: stamp::NONE,
        scheduler: 3,
        tracee: PID,
        what,
        carried: 0,
        unique: 0,
        numbered: 0,
        payload,
        extra: &[],
    }
}

fn node() -> Arc<Node> {
    let node = Node::new(Clock::starting_at(1_000));
    let name = |function: &str| Mfa { module: "m".into(), function: function.into(), arity: 2 };
    assert_eq!(node.names.number(&Arc::new(name("f"))), 0);
    assert_eq!(node.names.number(&Arc::new(name(&"é".repeat(300)))), 1);
    node
}

fn message(node: &Node, event: &Event<&[u8]>) -> Result<String, NoMessage> {
    let mut out = vec![1];
    Messages::new("a@b", 7).put(node, 0, event, &mut out)?;
    assert_eq!(out[..2], [1, etf::VERSION]);
    Ok(etf::Decoder::new(&out[1..], etf::Limits::default()).unwrap().term().unwrap().to_string())
}

fn pid(id: u64) -> Term {
    Term::Pid(Identifier::new(id, "a@b", 7))
}

#[test]
fn every_kind_has_its_shape() {
    let node = node();
    let (list, value) = (etf::encode(&Term::List(vec![Term::from(1)])), etf::encode(&Term::atom("v")));
    let (p, q) = (pid(PID).to_string(), pid(PID + 4).to_string());
    let port = Term::Port(Identifier::new(9, "a@b", 7)).to_string();
    let both = [value.clone(), value.clone(), (value.len() as u32).to_ne_bytes().to_vec()].concat();
    let pair = etf::encode(&Term::Tuple(vec![Term::atom("long_gc"), Term::from(2)]));
    for (kind, what, payload, shape) in [
        (Kind::Call, 0, &list, format!("{{trace,{p},call,{{m,f,[1]}}}}")),
        (Kind::Call, 0, &vec![], format!("{{trace,{p},call,{{m,f,2}}}}")),
        (Kind::CallArity, 0, &vec![], format!("{{trace,{p},call,{{m,f,2}}}}")),
        (Kind::ReturnTo, 0, &vec![], format!("{{trace,{p},return_to,{{m,f,2}}}}")),
        (Kind::ReturnTo, 0, &value, format!("{{trace,{p},return_to,v}}")),
        (Kind::ReturnFrom, 0, &value, format!("{{trace,{p},return_from,{{m,f,2}},v}}")),
        (Kind::ExceptionFrom, 0, &value, format!("{{trace,{p},exception_from,{{m,f,2}},v}}")),
        (Kind::Send, PID + 4, &value, format!("{{trace,{p},send,v,{q}}}")),
        (Kind::Send, PORT, &value, format!("{{trace,{p},send,v,{port}}}")),
        (Kind::Send, 0, &both, format!("{{trace,{p},send,v,v}}")),
        (Kind::Receive, 0, &value, format!("{{trace,{p},'receive',v}}")),
        (Kind::Spawn, PID + 4, &value, format!("{{trace,{p},spawn,{q},v}}")),
        (Kind::Exit, 0, &value, format!("{{trace,{p},exit,v}}")),
        (Kind::Link, PORT, &vec![], format!("{{trace,{p},link,{port}}}")),
        (Kind::In, 0, &value, format!("{{trace,{p},in,v}}")),
        (Kind::GcMinorStart, 0, &list, format!("{{trace,{p},gc_minor_start,[1]}}")),
        (Kind::Monitor, 0, &pair, format!("{{monitor,{p},long_gc,2}}")),
        (Kind::Seq, 0, &pair, "{seq_trace,long_gc,2}".into()),
        (Kind::Drop, 5, &vec![], "{drop,5}".into()),
    ] {
        let said = message(&node, &event(kind, what, payload)).unwrap();
        assert_eq!(said.replace('\'', ""), shape.replace('\'', ""), "{kind:?}");
    }
}

#[test]
fn stamps_schedulers_and_extra_terms_stand_at_the_end() {
    let node = node();
    let extra = etf::encode(&Term::atom("more"));
    let with = |stamps| Event { stamps, extra: &extra[..], ..event(Kind::CallArity, 0, &[]) };
    let ends = |stamps, end: &str| {
        let said = message(&node, &Event { carried: 1_795_298_222_660_391_000, unique: 8, ..with(stamps) }).unwrap();
        assert!(said.ends_with(end), "{said}");
        assert_eq!(said.starts_with("{trace_ts,"), stamps & stamp::MASK != 0);
    };
    ends(stamp::EXTRA, ",more}");
    ends(stamp::EXTRA | stamp::SCHEDULER, ",more,3}");
    ends(stamp::TIMESTAMP | stamp::CARRIED, ",more,{1795,298222,660391}}");
    ends(stamp::STRICT | stamp::CARRIED, ",more,{1795298222660391000,8}}");
    ends(stamp::MONOTONIC | stamp::CARRIED | stamp::SCHEDULER, ",more,3,1795298222660391000}");
}

#[test]
fn what_is_no_message_adds_nothing() {
    let node = node();
    let unknown = Event { kind: 200, ..event(Kind::Call, 0, &[]) };
    let broken = etf::encode(&Term::from(1));
    for event in [unknown, event(Kind::Call, 77, &[]), event(Kind::Delivered, 0, &[]), event(Kind::Seq, 0, &broken)] {
        let mut out = vec![9];
        assert_eq!(Messages::new("a@b", 7).put(&node, 0, &event, &mut out), Err(NoMessage));
        assert_eq!(out, [9]);
    }
}

#[test]
fn names_are_cut_and_the_node_may_be_renamed() {
    let node = node();
    assert!(message(&node, &event(Kind::CallArity, 1, &[])).unwrap().contains(&"é".repeat(255)));
    let mut messages = Messages::new("nonode@nohost", 0);
    let mut out = Vec::new();
    messages.put(&node, 0, &event(Kind::Link, PID, &[]), &mut out).unwrap();
    let own = Term::Pid(Identifier::own(PID));
    assert_eq!(
        etf::decode(&out).unwrap(),
        Term::Tuple(vec![Term::atom("trace"), own.clone(), Term::atom("link"), own])
    );
    messages.identify("c@d", 1);
    out.clear();
    messages.put(&node, 0, &event(Kind::Link, PID, &[]), &mut out).unwrap();
    let there = Term::Pid(Identifier::new(PID, "c@d", 1));
    let link = Term::atom("link");
    assert_eq!(etf::decode(&out).unwrap(), Term::Tuple(vec![Term::atom("trace"), there.clone(), link, there]));
}

/// Each timestamp, with and without the scheduler's number, from ticks and from the system.
#[test]
fn a_scheduler_stands_beside_each_stamp() {
    let stamps = [
        (Flags::NONE, stamp::NONE),
        (Flags::TIMESTAMP, stamp::TIMESTAMP),
        (Flags::MONOTONIC_TIMESTAMP, stamp::MONOTONIC),
        (Flags::STRICT_MONOTONIC_TIMESTAMP, stamp::STRICT),
    ];
    for clock in [Stamps::Ticks, Stamps::System] {
        for (flag, expected) in stamps {
            for (scheduler, mark) in [(Flags::NONE, 0), (Flags::SCHEDULER_ID, stamp::SCHEDULER)] {
                let program = Program::new();
                let point = program.point("m", "f", 0);
                let session = program.session("", Options { clock, ..Options::default() }).unwrap();
                program.function(&session, &[&point], kinds::LOCAL, Op::On).unwrap();
                let flags = Flags::CALL | flag | scheduler;
                program.flags(&session, Who::All(Class::Process), true, flags).unwrap();
                drop(point.enter(|_| Ok(())));
                let mut seen = vec![];
                drain(&session, 9, |record| match record.what {
                    What::Event(event) => seen.push((event.stamps & (stamp::MASK | stamp::SCHEDULER), event.scheduler)),
                    What::Lost(count) => panic!("{count} lost"),
                })
                .unwrap();
                assert_eq!(seen, [(expected | mark, 1)]);
            }
        }
    }
}
