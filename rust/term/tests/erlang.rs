//! Erlang's encodings are read, and terms are written as Erlang would write them.

use inviso_term::{
    etf::{self, DecodeError, Encoder, Full, Node},
    term::{Identifier, Record, Term},
};
use num_bigint::BigInt;

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn ints(n: impl IntoIterator<Item = i64>) -> Vec<Term> {
    n.into_iter().map(Term::from).collect()
}

fn pid(id: u64) -> Term {
    Term::Pid(Identifier::new(id, "nonode@nohost", 0))
}

/// Read and written.
#[track_caller]
fn same(digits: &str, term: Term) {
    assert_eq!(etf::decode(&hex(digits)), Ok(term.clone()));
    assert_eq!(etf::encode(&term), hex(digits));
}

/// Read, and written in another encoding.
#[track_caller]
fn read(digits: &str, term: Term) {
    let back = etf::decode(&hex(digits)).unwrap();
    assert_eq!(format!("{back:?}"), format!("{term:?}"));
    assert_eq!(etf::decode(&etf::encode(&term)), Ok(back));
}

#[track_caller]
fn refused(digits: &str, error: DecodeError) {
    assert_eq!(etf::decode(&hex(digits)), Err(error));
}

/// The 31 characters of a float in the old encoding.
fn old_float(text: &[u8]) -> String {
    let digits: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("63 {digits:0<62}")
}

#[test]
fn numbers() {
    same("61 00", Term::from(0));
    same("61 ff", Term::from(255));
    same("62 00000100", Term::from(256));
    same("62 ffffffff", Term::from(-1));
    same("62 7fffffff", Term::from(i64::from(i32::MAX)));
    same("62 80000000", Term::from(i64::from(i32::MIN)));
    same("6e 04 00 00000080", Term::from(1 << 31));
    same("6e 04 01 01000080", Term::from(i64::from(i32::MIN) - 1));
    same("6e 08 01 0000000000000080", Term::from(i64::MIN));
    same("6e 08 00 ffffffffffffffff", Term::Int(u64::MAX.into()));
    same(&format!("6e ff 00 {} 01", "00".repeat(254)), Term::Int(BigInt::from(1) << 2032));
    same(&format!("6f 00000100 01 {} 01", "00".repeat(255)), Term::Int(BigInt::from(-1) << 2040));
    same("46 3ff8000000000000", Term::Float(1.5));
    same("46 8000000000000000", Term::Float(-0.0));
    read(&old_float(b"1.50000000000000000000e+00"), Term::Float(1.5));
    read(&old_float(b"-2.25"), Term::Float(-2.25));
    read("6e 01 00 05", Term::from(5));
    read("6e 00 01", Term::from(0));
    read("6f 00000002 01 0500", Term::from(-5));
    for none in [&b"nan"[..], b"inf", b"1e999", b"", b"1,5"] {
        refused(&old_float(none), DecodeError::Malformed("float"));
    }
}

#[test]
fn atoms_and_binaries() {
    same("77 00", Term::atom(""));
    same("77 02 6f6b", Term::atom("ok"));
    same("77 02 c3a4", Term::atom("ä"));
    same(&format!("76 01fe {}", "c3a4".repeat(255)), Term::atom(&"ä".repeat(255)));
    read("64 0001 e4", Term::atom("ä"));
    read("73 02 c3a4", Term::atom("Ã¤"));
    same("6d 00000003 61c3a4", Term::str("aä"));
    read("6d 00000002 ff61", Term::Bytes([0xff, 0x61].into()));
    same("4d 00000001 08 61", Term::Bytes([0x61].into()));
    same("6c 00000000 6d 00000000", Term::Bytes([].into()));
    same("6d 00000000", Term::str(""));
    same("4d 00000001 03 a0", Term::BitString([0xa0].into(), 3));
    refused("77 01 e4", DecodeError::Malformed("atom"));
    refused(&format!("76 0100 {}", "61".repeat(256)), DecodeError::Malformed("atom"));
    for bits in ["4d 00000001 00 61", "4d 00000001 09 61", "4d 00000000 00", "4d 00000000 08"] {
        refused(bits, DecodeError::Malformed("bit string"));
    }
    assert_eq!(etf::decode(&etf::encode(&Term::atom(&"x".repeat(300)))), Ok(Term::atom(&"x".repeat(255))));
}

#[test]
fn compound_terms() {
    same("68 00", Term::Tuple(vec![]));
    same("68 02 77026f6b 6101", Term::Tuple(vec![Term::atom("ok"), Term::from(1)]));
    same(&format!("69 00000100 {}", "6101".repeat(256)), Term::Tuple(ints([1; 256])));
    same("6a", Term::List(vec![]));
    same("6c 00000002 6101 6102 6a", Term::List(ints([1, 2])));
    same("6c 00000001 6101 6102", Term::ImproperList(ints([1]), Box::new(Term::from(2))));
    same("74 00000001 6101 6102", Term::Map(vec![(Term::from(1), Term::from(2))]));
    read("6b 0002 0102", Term::List(ints([1, 2])));
    read("6c 00000001 6101 6c 00000001 6102 6a", Term::List(ints([1, 2])));
    read("6c 00000001 6101 6b 0001 02", Term::List(ints([1, 2])));
    read("6c 00000000 6a", Term::List(vec![]));
    refused("6c 00000001 6101", DecodeError::Short);
    refused("6101 6102", DecodeError::Trailing);
    refused("", DecodeError::Short);
    refused("00", DecodeError::Tag(0));
}

#[test]
fn identifiers() {
    let here = "77 0d 6e6f6e6f6465406e6f686f7374";
    let of = |id, node, creation| Identifier::new(id, node, creation);
    same(&format!("58 {here} 00000053 00000001 00000000"), pid(1 << 32 | 0x53));
    same(&format!("78 {here} 0000000000000005 00000007"), Term::Port(of(5, "nonode@nohost", 7)));
    same("5a 0003 770161 00000007 00000005 00000000 00000000", Term::Ref(of(5, "a", 7)));
    let three = Identifier { rest: 0x3_fffd, ..of(0xc000_0000_000c_0005, "a", 7) };
    same("5a 0003 770161 00000007 00000005 00000003 ffff7000", Term::Ref(three));
    same("5a 0005 770161 00000007 ffffffff 00000001 00000000 00000000 00000002", {
        Term::Ref(Identifier { rest: 2 << 50 | 0x3fff << 82, ..of(0x7_ffff, "a", 7) })
    });
    read("67 770161 00000001 00000002 03", Term::Pid(of(2 << 32 | 1, "a", 3)));
    read("66 770161 00000001 03", Term::Port(of(1, "a", 3)));
    read("59 770161 00000001 00000003", Term::Port(of(1, "a", 3)));
    read("65 770161 00000001 03", Term::Ref(of(1, "a", 3)));
    read("72 0001 770161 03 00000001", Term::Ref(of(1, "a", 3)));
    refused("5a 0006 770161 00000007", DecodeError::Malformed("reference"));
    refused("58 6101", DecodeError::Tag(97));
}

#[test]
fn this_nodes_identifiers_have_a_placeholder_for_its_name() {
    let mut buffer = [0; 64];
    let mut both = |short: fn(&mut Encoder<'_>) -> Result<(), Full>,
                    long: fn(&mut Encoder<'_>, Node<'_>) -> Result<(), Full>| {
        let mut out = Encoder::new(&mut buffer);
        short(&mut out).unwrap();
        let written = out.written().to_vec();
        out.truncate(0);
        long(&mut out, Node { name: "nonode@nohost", id: 0x1_2345_6789_abcd, rest: 0, creation: 0 }).unwrap();
        assert_eq!(out.written(), written);
    };
    both(|out| out.pid(0x1_2345_6789_abcd), |out, of| out.pid_of(of));
    both(|out| out.port(0x1_2345_6789_abcd), |out, of| out.port_of(of));
    both(|out| out.reference(0x1_2345_6789_abcd), |out, of| out.reference_of(of));
}

/// `fun(X) -> X + Free end` of a module `m`, with one free variable, and the size that it claims.
fn fun(size: u32) -> String {
    format!(
        "70 {size:08x} 01 000102030405060708090a0b0c0d0e0f 00000003 00000001 77016d 6103 6204a1b2c3
         58 770d6e6f6e6f6465406e6f686f7374 00000053 00000000 00000000 6c 00000001 77016b 6a"
    )
}

/// Numbers of few bits have no more in old encodings.
#[test]
fn old_identifiers_have_their_bounds() {
    for (before, after) in [
        ("67 770178 ffffffff ffffffff", ""),
        ("66 770178 ffffffff", ""),
        ("65 770178 0003ffff", ""),
        ("72 0002 770178", "0003ffff ffffffff"),
    ] {
        assert!(etf::decode(&hex(&format!("{before} 03 {after}"))).is_ok());
        for creation in ["04", "ff"] {
            refused(&format!("{before} {creation} {after}"), DecodeError::Malformed("creation"));
        }
    }
    refused("65 770178 00040000 00", DecodeError::Malformed("reference"));
    refused("72 0002 770178 00 00040000 00000000", DecodeError::Malformed("reference"));
    refused("72 0000 770178 00", DecodeError::Malformed("reference"));
    assert!(etf::decode(&hex("5a 0000 770178 00000000")).is_ok());
    assert!(etf::decode(&hex("5a 0001 770178 ffffffff ffffffff")).is_ok());
}

/// As OTP 29 writes and shows them.
#[test]
fn native_records() {
    let record = |name: &str, exported, fields: &[(&str, Term)]| {
        let fields = fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        Term::Record(Box::new(Record { module: "rr".into(), name: name.into(), exported, fields }))
    };
    let two = [("a", Term::from(2)), ("b", Term::from(3))];
    let nested = [("a", Term::from(2)), ("b", Term::Tuple(vec![Term::atom("x")]))];
    for (digits, term, shown) in [
        ("43 00000002 00 77027272 770170 770161 770162 6102 6103", record("p", false, &two), "#rr:p{a = 2,b = 3}"),
        (
            "43 00000002 01 77027272 770170 770161 770162 6102 6801 770178",
            record("p", true, &nested),
            "#rr:p{a = 2,b = {x}}",
        ),
        ("43 00000000 00 77027272 770171", record("q", false, &[]), "#rr:q{}"),
    ] {
        assert_eq!(term.to_string(), shown);
        same(digits, term);
    }
    read("43 00000001 01 73027272 64000171 7600016b 6101", record("q", true, &[("k", Term::from(1))]));
    let head = "77027272 770170";
    refused(&format!("43 00000000 02 {head}"), DecodeError::Malformed("record"));
    refused(&format!("43 00000002 00 {head} 770161 770161 6101 6102"), DecodeError::Malformed("record"));
    refused(&format!("43 00000001 00 {head} 6101 6101"), DecodeError::Tag(97));
    refused(&format!("43 00000001 00 {head} 770161"), DecodeError::Short);
}

#[test]
fn funs() {
    same("71 77016d 770166 6102", Term::Fun("m".into(), "f".into(), 2));
    // a node writes the arity as a small integer, and reads any encoding of one
    let known = Term::Fun("m".into(), "f".into(), 2);
    read("71 77016d 770166 62 00000002", known.clone());
    read("71 77016d 770166 6e 01 00 02", known);
    read("71 77016d 770166 6f 00000001 00 02", Term::Fun("m".into(), "f".into(), 2));
    same("71 77016d 770166 62 00000100", Term::Fun("m".into(), "f".into(), 256));
    same("71 77016d 770166 6e 08 00 ffffffffffffff07", Term::Fun("m".into(), "f".into(), etf::SMALL as u64));
    for wrong in ["62 ffffffff", "6e 01 01 02"] {
        refused(&format!("71 77016d 770166 {wrong}"), DecodeError::Malformed("fun"));
    }
    refused("71 77016d 770166 6e 08 00 0000000000000008", DecodeError::Malformed("integer"));
    refused("71 77016d 770166 770161", DecodeError::Tag(0x77));

    let size = hex(&fun(0)).len() as u32 - 1;
    let old = "75 00000001 67 770161 00000001 00000002 03 77016d 6103 6105 6109";
    for (digits, arity, numbers) in [(&*fun(size), Some(1), (3, 0x04a1_b2c3)), (old, None, (3, 5))] {
        let term = etf::decode(&hex(digits)).unwrap();
        let Term::Closure(closure) = &term else { panic!("{term:?}") };
        assert_eq!((closure.module(), closure.arity(), closure.numbers()), ("m", arity, numbers));
        assert_eq!(etf::encode(&term), hex(digits));
        // with other bytes around it
        let tuple = Term::Tuple(vec![term.clone(), term]);
        assert_eq!(etf::decode(&etf::encode(&tuple)), Ok(tuple));
    }
    refused(&fun(size + 1), DecodeError::Malformed("fun"));
    refused(&fun(size)[..60], DecodeError::Short);
    refused("75 00000001 6101", DecodeError::Tag(97));
}

#[test]
fn values_without_a_type_in_erlang() {
    let set = "68 02 770b 24696e7669736f2e736574";
    same(&format!("{set} 6a"), Term::Set(vec![]));
    same(&format!("{set} 6c 00000002 6101 6102 6a"), Term::Set(ints([1, 2])));
    // in Erlang's encoding of lists of small numbers, and in the old one of atoms
    read(&format!("{set} 6b 0002 0102"), Term::Set(ints([1, 2])));
    read("68 02 64 000b 24696e7669736f2e736574 6b 0001 01", Term::Set(ints([1])));
    let cut = "68 02 770b 24696e7669736f2e637574";
    same(&format!("{cut} 6d 00000005 6465707468"), Term::Cut("depth".into()));
    let opaque = "68 04 770e 24696e7669736f2e6f7061717565";
    same(&format!("{opaque} 6d 00000001 54 6e 04 00 00000080 7709 756e646566696e6564"), {
        Term::Opaque("T".into(), 1 << 31, None)
    });
    same(&format!("{opaque} 6d 00000001 54 6101 6d 00000001 72"), Term::Opaque("T".into(), 1, Some("r".into())));

    // nearly the same: tuples
    let mark = |name, rest: Vec<Term>| Term::Tuple([Term::atom(name)].into_iter().chain(rest).collect());
    read(&format!("{set} 6101"), mark("$inviso.set", ints([1])));
    read(&format!("{set} 6c 00000001 6101 6102"), {
        mark("$inviso.set", vec![Term::ImproperList(ints([1]), Box::new(Term::from(2)))])
    });
    read(&format!("{cut} 6101"), mark("$inviso.cut", ints([1])));
    read(&format!("{opaque} 6101 6102 6103"), mark("$inviso.opaque", ints([1, 2, 3])));
    read(&format!("{opaque} 6d 00000001 54 62 ffffffff 6d 00000001 72"), {
        mark("$inviso.opaque", vec![Term::str("T"), Term::from(-1), Term::str("r")])
    });

    // the program's own
    same("68 02 76 000c 2424696e7669736f2e736574 6a", mark("$inviso.set", vec![Term::List(vec![])]));
}

/// Recorded from a real node: a call with the term that its match specification added.
#[test]
fn a_trace_message() {
    let call = "83 6805 77057472616365 58770d6e6f6e6f6465406e6f686f7374000000530000000000000000 770463616c6c
        6803 77026678 7702646b 6b000101 6802 77056578747261 6803 7704686f7374 770465786563 6102";
    let tuple = |parts: &[Term]| Term::Tuple(parts.to_vec());
    let mfa = tuple(&[Term::atom("fx"), Term::atom("dk"), Term::List(ints([1]))]);
    let caller = tuple(&[Term::atom("host"), Term::atom("exec"), Term::from(2)]);
    let extra = tuple(&[Term::atom("extra"), caller]);
    let message = tuple(&[Term::atom("trace"), pid(0x53), Term::atom("call"), mfa, extra]);
    assert_eq!(etf::decode(&hex(call)), Ok(message.clone()));
    // the same, except that lists of small numbers are encoded as lists here
    assert_eq!(etf::encode_versioned(&message), hex(&call.replace("6b000101", "6c 00000001 6101 6a")));
}

/// The value of a fun for a visitor without funs.
#[test]
fn a_visitor_without_closures_gets_an_object_with_erlangs_text() {
    struct Texts;
    fn no() -> Result<String, DecodeError> {
        Err(DecodeError::Refused("no fun"))
    }
    impl etf::Visit for Texts {
        type Value = String;
        type Error = DecodeError;
        fn opaque(&mut self, name: &str, _: u64, text: Option<&str>) -> Result<String, DecodeError> {
            Ok(format!("{name} {}", text.unwrap_or_default()))
        }
        inviso_term::alike! {
            no(); int big float atom str bytes bits tuple list improper map record set pid port reference fun cut
        }
    }
    let bytes = hex(&fun(hex(&fun(0)).len() as u32 - 1));
    let text = etf::walk(&bytes, etf::Limits::default(), &mut Texts);
    assert_eq!(text.as_deref(), Ok("fun #Fun<m.3.77705923>"));
    assert_eq!(etf::walk(&hex("6101"), etf::Limits::default(), &mut Texts), Err(DecodeError::Refused("no fun")));
}

/// A visitor can return a fun to Erlang.
#[test]
fn a_visitor_gets_the_encoding_of_a_fun() {
    struct Funs;
    impl etf::Visit for Funs {
        type Value = Vec<u8>;
        type Error = DecodeError;
        fn closure(&mut self, of: etf::ClosureRef<'_>) -> Result<Vec<u8>, DecodeError> {
            Ok(of.encoded().to_vec())
        }
        fn tuple(&mut self, elements: Vec<Vec<u8>>) -> Result<Vec<u8>, DecodeError> {
            Ok(elements.concat())
        }
        inviso_term::alike! {
            Ok(Vec::new()); int big float atom str bytes bits list improper map record set pid port reference fun opaque cut
        }
    }
    let bytes = hex(&fun(hex(&fun(0)).len() as u32 - 1));
    let around = [&hex("68 03 6101")[..], &bytes, &hex("6102")].concat();
    assert_eq!(etf::walk(&around, etf::Limits::default(), &mut Funs), Ok(bytes));
}
