//! Prints encoded terms as Erlang's `~w` does: binaries and strings as numbers, atoms quoted where needed.

use crate::{
    export::with_plain,
    scan::{Bytes, Identity, Scan, DEPTH},
    text::name,
};
use inviso_term::etf;
use num_bigint::{BigInt, Sign};
use std::fmt::Write;

/// Appends a term (without a version byte) as `~w` prints it. `place` answers the first number of a pid, port or reference: 0 for
/// the printing node.
///
/// ```
/// use inviso_term::{etf, term::{Identifier, Term}};
/// let parts = vec![Term::Pid(Identifier::own(5)), Term::atom("Call"), Term::str("ab"), Term::List(vec![Term::Float(1.5)])];
/// let mut text = String::new();
/// inviso_export::erlang::write(&etf::encode(&Term::Tuple(parts)), &mut |_| 0, &mut text);
/// assert_eq!(text, "{<0.5.0>,'Call',<<97,98>>,[1.5]}");
/// ```
pub fn write(term: Bytes<'_>, place: &mut dyn FnMut(&Identity<'_>) -> u64, out: &mut String) {
    let begin = out.len();
    let mut writer = Writer { out, place };
    if writer.term(&mut Scan(term), DEPTH).is_none() {
        // too deep, or an encoding that is not used any more
        out.truncate(begin);
        match etf::decode(term) {
            Ok(term) => drop(write!(out, "{term}")),
            Err(_) => out.push_str("..."),
        }
    }
}

/// Appends a term that may have a version byte and may be compressed.
pub fn message(payload: Bytes<'_>, place: &mut dyn FnMut(&Identity<'_>) -> u64, out: &mut String) {
    with_plain(payload, |term| write(term.strip_prefix(&[etf::VERSION]).unwrap_or(term), place, out));
}

struct Writer<'o, 'p> {
    out: &'o mut String,
    place: &'p mut dyn FnMut(&Identity<'_>) -> u64,
}

impl Writer<'_, '_> {
    // more than 60 lines: one short arm for each tag
    fn term(&mut self, scan: &mut Scan<'_>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match scan.tag()? {
            97 | 98 => self.int(scan.int()?),
            110 | 111 => self.big(scan.term()?)?,
            70 => {
                let bytes = scan.term()?.get(1..)?;
                float(f64::from_be_bytes(bytes.try_into().ok()?), self.out);
            }
            100 | 115 | 118 | 119 => atom(&name(scan.name()?), self.out),
            109 => self.binary(scan.name()?, 8),
            77 => {
                let all = scan.term()?;
                self.binary(all.get(6..)?, *all.get(5)?);
            }
            107 => {
                self.out.push('[');
                self.numbers(scan.term()?.get(3..)?);
                self.out.push(']');
            }
            106 => {
                scan.term()?;
                self.out.push_str("[]");
            }
            104 | 105 => {
                let n = scan.tuple()?;
                self.out.push('{');
                self.commas(scan, n, depth)?;
                self.out.push('}');
            }
            108 => self.list(scan, depth)?,
            116 => {
                let n = scan.counted()?;
                self.out.push_str("#{");
                for n in 0..n {
                    self.out.push_str(if n == 0 { "" } else { "," });
                    self.term(scan, depth)?;
                    self.out.push_str(" => ");
                    self.term(scan, depth)?;
                }
                self.out.push('}');
            }
            88 | 103 | 89 | 102 | 120 => {
                let of = Identity::of(scan.term()?)?;
                let place = (self.place)(&of);
                let _ = match of.is_port {
                    true => write!(self.out, "#Port<{place}.{}>", of.id),
                    false => write!(self.out, "<{place}.{}.{}>", of.id & 0xffff_ffff, of.id >> 32),
                };
            }
            90 | 114 | 101 => self.reference(scan.term()?)?,
            113 => {
                scan.0 = scan.0.get(1..)?;
                self.out.push_str("fun ");
                atom(&name(scan.name()?), self.out);
                self.out.push(':');
                atom(&name(scan.name()?), self.out);
                self.out.push('/');
                self.int(scan.int()?);
            }
            67 => self.record(scan, depth)?,
            _ => match etf::decode(scan.term()?) {
                Ok(term) => drop(write!(self.out, "{term}")),
                Err(_) => return None,
            },
        }
        Some(())
    }

    fn commas(&mut self, scan: &mut Scan<'_>, n: usize, depth: usize) -> Option<()> {
        for n in 0..n {
            self.out.push_str(if n == 0 { "" } else { "," });
            self.term(scan, depth)?;
        }
        Some(())
    }

    fn list(&mut self, scan: &mut Scan<'_>, depth: usize) -> Option<()> {
        let n = scan.list()?;
        if n == 0 {
            return self.term(scan, depth);
        }
        self.out.push('[');
        self.commas(scan, n, depth)?;
        if scan.tag()? == 106 {
            scan.term()?;
        } else {
            self.out.push('|');
            self.term(scan, depth)?;
        }
        self.out.push(']');
        Some(())
    }

    /// The head, the names of the fields, the values.
    fn record(&mut self, scan: &mut Scan<'_>, depth: usize) -> Option<()> {
        let n = u32::from_be_bytes(scan.0.get(1..5)?.try_into().ok()?);
        scan.0 = scan.0.get(6..)?;
        self.out.push('#');
        atom(&name(scan.name()?), self.out);
        self.out.push(':');
        atom(&name(scan.name()?), self.out);
        self.out.push('{');
        let mut fields = *scan;
        for _ in 0..n {
            scan.name()?;
        }
        for n in 0..n {
            self.out.push_str(if n == 0 { "" } else { "," });
            atom(&name(fields.name()?), self.out);
            self.out.push_str(" = ");
            self.term(scan, depth)?;
        }
        self.out.push('}');
        Some(())
    }

    /// The words of a reference are in reverse order.
    fn reference(&mut self, term: Bytes<'_>) -> Option<()> {
        let mut scan = Scan(term.get(1..)?);
        let words = if term.first()? == &101 { 1 } else { scan.short()? };
        let node = scan.name()?;
        let creation_length = if term.first()? == &90 { 4 } else { 1 };
        let (creation, words_first) = if term.first()? == &101 {
            (scan.0.get(4..)?, scan.0.get(..4)?)
        } else {
            (scan.0.get(..creation_length)?, scan.0.get(creation_length..)?)
        };
        let creation = creation.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
        let place = (self.place)(&Identity { is_port: true, node, id: 0, creation });
        let _ = write!(self.out, "#Ref<{place}");
        for at in (0..words).rev() {
            let word = words_first.get(4 * at..4 * at + 4)?.try_into().ok()?;
            let _ = write!(self.out, ".{}", u32::from_be_bytes(word));
        }
        self.out.push('>');
        Some(())
    }

    fn int(&mut self, n: i64) {
        self.out.push_str(itoa::Buffer::new().format(n));
    }

    fn big(&mut self, term: Bytes<'_>) -> Option<()> {
        if let Some(n) = Scan(term).int() {
            self.int(n);
            return Some(());
        }
        let head = if term.first()? == &110 { 3 } else { 6 };
        let sign = if *term.get(head - 1)? == 0 { Sign::Plus } else { Sign::Minus };
        let _ = write!(self.out, "{}", BigInt::from_bytes_le(sign, term.get(head..)?));
        Some(())
    }

    fn numbers(&mut self, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            self.out.push_str(if n == 0 { "" } else { "," });
            self.out.push_str(itoa::Buffer::new().format(*byte));
        }
    }

    fn binary(&mut self, bytes: &[u8], bits: u8) {
        self.out.push_str("<<");
        match bytes.split_last() {
            Some((last, whole)) if (1..8).contains(&bits) => {
                self.numbers(whole);
                let _ = write!(self.out, "{}{}:{bits}", if whole.is_empty() { "" } else { "," }, last >> (8 - bits));
            }
            _ => self.numbers(bytes),
        }
        self.out.push_str(">>");
    }
}

/// The shortest digits of this float; with an exponent if that is shorter, or if neighbours of the number would have the same
/// digits.
fn float(x: f64, out: &mut String) {
    if !x.is_finite() {
        return out.push_str(if x.is_nan() {
            "nan"
        } else if x > 0.0 {
            "infinity"
        } else {
            "'-infinity'"
        });
    }
    let text = format!("{x:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let digits = digits.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    out.push_str(sign);
    if x == 0.0 {
        return out.push_str("0.0");
    }
    // digits before the point
    let (point, n) = (exponent + 1, digits.len() as i32);
    let with_exponent = digits.len() + exponent.to_string().len() + if n == 1 { 3 } else { 2 };
    let without = match point {
        ..=0 => 2 - point + n,
        point if point >= n => point + 2,
        _ => n + 1,
    };
    let is_large = x.abs() >= 9_007_199_254_740_992.0;
    if is_large || (without as usize > with_exponent && (point < 0 || point > n)) {
        let (first, rest) = digits.split_at(1);
        let _ = write!(out, "{first}.{}e{exponent}", if rest.is_empty() { "0" } else { rest });
    } else if point <= 0 {
        let _ = write!(out, "0.{}{digits}", "0".repeat(-point as usize));
    } else if point >= n {
        let _ = write!(out, "{digits}{}.0", "0".repeat((point - n) as usize));
    } else {
        let (whole, rest) = digits.split_at(point as usize);
        let _ = write!(out, "{whole}.{rest}");
    }
}

/// Words that need quotes as atoms.
const RESERVED: [&str; 28] = [
    "after", "and", "andalso", "band", "begin", "bnot", "bor", "bsl", "bsr", "bxor", "case", "catch", "cond", "div",
    "else", "end", "fun", "if", "let", "maybe", "not", "of", "or", "orelse", "receive", "rem", "try", "when",
];

fn atom(name: &str, out: &mut String) {
    let is_lower = |c: char| c.is_ascii_lowercase() || matches!(c, 'ß'..='ö' | 'ø'..='ÿ');
    let is_part = |c: char| is_lower(c) || c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | 'À'..='Ö' | 'Ø'..='Þ');
    if name.starts_with(is_lower) && name.chars().all(is_part) && !RESERVED.contains(&name) && name != "xor" {
        return out.push_str(name);
    }
    out.push('\'');
    for c in name.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\u{1b}' => out.push_str("\\e"),
            '\u{7f}' => out.push_str("\\d"),
            c if c.is_control() => drop(write!(out, "\\{:03o}", c as u32)),
            c if c as u32 > 255 => drop(write!(out, "\\x{{{:X}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;
    use inviso_term::term::{Identifier, Term};

    fn shown(term: &Term) -> String {
        let mut text = String::new();
        write(&etf::encode(term), &mut |of| u64::from(of.creation), &mut text);
        text
    }

    #[test]
    fn each_kind_is_printed_as_by_erlang() {
        let pair = || vec![Term::from(1), Term::from(2)];
        for (term, text) in [
            (Term::from(-3), "-3"),
            (Term::Int(num_bigint::BigInt::from(-1) << 70), "-1180591620717411303424"),
            (Term::atom("ok"), "ok"),
            (Term::atom("Ok"), "'Ok'"),
            (Term::atom("div"), "'div'"),
            (Term::atom("a@b_C1"), "a@b_C1"),
            (Term::atom(""), "''"),
            (Term::atom("it's\n\u{1}"), "'it\\'s\\n\\001'"),
            (Term::str("ab"), "<<97,98>>"),
            (Term::Bytes((*b"").into()), "<<>>"),
            (Term::Bytes((*b"\x01\xff").into()), "<<1,255>>"),
            (Term::BitString((*b"\x01\xa0").into(), 3), "<<1,5:3>>"),
            (Term::Tuple(vec![]), "{}"),
            (Term::Tuple(pair()), "{1,2}"),
            (Term::List(vec![]), "[]"),
            (Term::List(pair()), "[1,2]"),
            (Term::ImproperList(pair(), Box::new(Term::from(3))), "[1,2|3]"),
            (Term::Map(vec![(Term::from(1), Term::atom("a"))]), "#{1 => a}"),
            (Term::Set(pair()), "{'$inviso.set',[1,2]}"),
            (Term::Pid(Identifier::own(4 | 2 << 32)), "<0.4.2>"),
            (Term::Pid(Identifier::new(4, "a@b", 9)), "<9.4.0>"),
            (Term::Port(Identifier::own(5)), "#Port<0.5>"),
            (Term::Fun("m".into(), "f".into(), 2), "fun m:f/2"),
        ] {
            assert_eq!(shown(&term), text);
        }
    }

    #[test]
    fn floats_are_as_short_as_they_can_be() {
        for (x, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (100.0, "100.0"),
            (1000.0, "1.0e3"),
            (12345.0, "12345.0"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.00001, "1.0e-5"),
            (12000.0, "1.2e4"),
            (9_007_199_254_740_991.0, "9007199254740991.0"),
            (9_007_199_254_740_992.0, "9.007199254740992e15"),
            (4_503_599_627_370_496.0, "4503599627370496.0"),
            (0.00012, "1.2e-4"),
            (1.0e22, "1.0e22"),
            (1.234_567_890_123_456_8e16, "1.2345678901234568e16"),
            (123_456.789, "123456.789"),
        ] {
            assert_eq!(shown(&Term::Float(x)), text);
        }
    }

    #[test]
    fn a_very_deep_term_is_cut_off() {
        let mut bytes = [108, 0, 0, 0, 1].repeat(1000);
        bytes.extend([106; 1001]);
        let mut text = String::new();
        write(&bytes, &mut |_| 0, &mut text);
        assert_eq!(text, "...");
    }
}
