//! Prints encoded terms as Python shows them.

use crate::scan::{Bytes, Identity, Scan, DEPTH};
use inviso_term::{etf, term::Term};
use num_bigint::{BigInt, Sign};
use std::{borrow::Cow, fmt::Write};

/// Appends a term as Python shows it, cut after about `most` bytes and then ended by `…`.
///
/// ```
/// use inviso_term::{etf, term::Term};
/// let term = Term::Tuple(vec![Term::atom("ok"), Term::List(vec![Term::from(1), Term::str("it's")]), Term::atom("true")]);
/// let mut text = String::new();
/// inviso_export::text::show(&etf::encode(&term), 100, &mut text);
/// assert_eq!(text, r#"('ok', [1, "it's"], True)"#);
/// text.clear();
/// inviso_export::text::show(&etf::encode(&Term::str("a long text")), 5, &mut text);
/// assert_eq!(text, "'a lo…");
/// ```
pub fn show(term: Bytes<'_>, most: usize, out: &mut String) {
    let process: Process<'_> = &mut |of, out| out.push_str(&of.text());
    let mut shown = Show { begin: out.len(), most, is_repr: false, process, out };
    let mut scan = Scan(term);
    if shown.term(&mut scan, DEPTH).is_none() && !shown.is_full() {
        // an encoding that is not used any more
        shown.out.truncate(shown.begin);
        match etf::decode(term) {
            Ok(term) => drop(write!(shown.out, "{term}")),
            Err(_) => shown.out.push('?'),
        }
    }
    shown.cut();
}

/// Appends a pid or port.
pub(crate) type Process<'p> = &'p mut dyn FnMut(&Identity<'_>, &mut String);

/// Appends a whole term as Python shows it. None if it is cut off, too deep, or of an encoding that is not used any more.
pub(crate) fn show_with(term: Bytes<'_>, process: Process<'_>, out: &mut String) -> Option<()> {
    Show { begin: out.len(), most: usize::MAX, is_repr: true, process, out }.term(&mut Scan(term), DEPTH)
}

/// Whether a terminal only shows this character. Python calls that printable.
pub(crate) fn is_printable(c: char) -> bool {
    // a character that only combines with a letter before it is not escaped
    c == ' ' || (c.is_ascii() && !c.is_ascii_control()) || (!c.is_ascii() && !escapes(c))
}

fn escapes(c: char) -> bool {
    let mut text = [b'a'; 5];
    let length = c.encode_utf8(text.get_mut(1..).unwrap_or_default()).len();
    std::str::from_utf8(text.get(..=length).unwrap_or_default()).is_ok_and(|text| text.escape_debug().count() > 2)
}

/// Appends a name unchanged, or as Python shows it if it could control a terminal.
/// Only other crates of the workspace use it.
pub fn bare(text: &str, out: &mut String) {
    let is_plain = |byte: &u8| (b' '..0x7f).contains(byte);
    if text.as_bytes().iter().all(is_plain) || text.chars().all(is_printable) {
        return out.push_str(text);
    }
    let process: Process<'_> = &mut |_, _| {};
    Show { begin: out.len(), most: usize::MAX, is_repr: true, process, out }.text(text);
}

/// The text of a name's bytes in any encoding.
#[must_use]
pub fn name(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        // old atoms are Latin-1
        Err(_) => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
    }
}

/// `module:function/arity`, the syntax of patterns.
#[must_use]
pub fn mfa(of: crate::event::Name<'_>) -> String {
    format!("{}:{}/{}", name(of.module), name(of.function), of.arity)
}

/// A pid or port; another term as Python shows it.
#[must_use]
pub fn who(bytes: Bytes<'_>) -> String {
    match Identity::of(bytes) {
        Some(of) => of.text(),
        None => {
            let mut text = String::new();
            match Scan(bytes).name() {
                Some(bytes) => text.push_str(&name(bytes)),
                None => show(bytes, 200, &mut text),
            }
            text
        }
    }
}

struct Show<'o, 'p> {
    out: &'o mut String,
    process: Process<'p>,
    begin: usize,
    most: usize,
    /// Whether the text is Python's `repr`. Else functions, sets and improper lists are shorter.
    is_repr: bool,
}

/// The largest number of digits that Python shows. Longer integers are in hexadecimal.
const DIGITS: usize = 4300;

impl Show<'_, '_> {
    fn is_full(&self) -> bool {
        self.out.len() - self.begin > self.most
    }

    fn cut(&mut self) {
        if self.is_full() {
            let mut at = self.begin + self.most;
            while !self.out.is_char_boundary(at) {
                at -= 1;
            }
            self.out.truncate(at);
            self.out.push('…');
        }
    }

    /// None for an unknown term, or when there is enough text.
    fn term(&mut self, scan: &mut Scan<'_>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        if self.is_full() {
            return None;
        }
        match scan.tag()? {
            97 | 98 => {
                let n = scan.int()?;
                self.int(n);
            }
            110 | 111 => self.big(scan.term()?)?,
            70 => {
                let bytes = scan.term()?.get(1..)?;
                self.float(f64::from_be_bytes(bytes.try_into().ok()?));
            }
            100 | 115 | 118 | 119 => self.atom(&name(scan.name()?)),
            109 => self.binary(scan.name()?),
            77 => self.bits(scan.term()?)?,
            107 => self.byte_list(scan.term()?.get(3..)?)?,
            106 => {
                scan.term()?;
                self.out.push_str("[]");
            }
            104 | 105 => self.tuple(scan, depth)?,
            108 => self.list(scan, depth)?,
            116 => self.map(scan, depth)?,
            67 => self.record(scan, depth)?,
            88 | 103 | 89 | 102 | 120 => {
                (self.process)(&Identity::of(scan.term()?)?, self.out);
            }
            // references and functions
            _ => match etf::decode(scan.term()?) {
                Ok(Term::Fun(module, function, arity)) => {
                    let _ = write!(self.out, "{}{module}:{function}/{arity}", if self.is_repr { "fun " } else { "" });
                }
                Ok(term) => drop(write!(self.out, "{term}")),
                Err(_) => return None,
            },
        }
        Some(())
    }

    fn atom(&mut self, name: &str) {
        match name {
            "true" => self.out.push_str("True"),
            "false" => self.out.push_str("False"),
            "undefined" => self.out.push_str("None"),
            text => self.text(text),
        }
    }

    fn binary(&mut self, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(text),
            Err(_) => self.bytes(bytes),
        }
    }

    /// A bit string, of whole bytes or not.
    fn bits(&mut self, term: Bytes<'_>) -> Option<()> {
        let (bits, bytes) = (*term.get(5)?, term.get(6..)?);
        if bits == 8 {
            self.bytes(bytes);
        } else {
            self.out.push_str("BitString(");
            self.bytes(bytes);
            let _ = write!(self.out, ", {bits})");
        }
        Some(())
    }

    /// A list of small integers that is encoded as bytes.
    fn byte_list(&mut self, bytes: &[u8]) -> Option<()> {
        self.out.push('[');
        for (n, byte) in bytes.iter().enumerate() {
            if self.is_full() {
                return None;
            }
            let _ = write!(self.out, "{}{byte}", if n == 0 { "" } else { ", " });
        }
        self.out.push(']');
        Some(())
    }

    fn tuple(&mut self, scan: &mut Scan<'_>, depth: usize) -> Option<()> {
        let at = *scan;
        let n = scan.tuple()?;
        if let Some(after) = self.special(*scan, n, depth) {
            *scan = after;
        } else {
            *scan = at;
            scan.tuple()?;
            self.out.push('(');
            self.commas(scan, n, depth)?;
            self.out.push_str(if n == 1 { ",)" } else { ")" });
        }
        Some(())
    }

    fn list(&mut self, scan: &mut Scan<'_>, depth: usize) -> Option<()> {
        let at = *scan;
        let n = scan.list()?;
        if n == 0 && scan.term()? == [109, 0, 0, 0, 0] {
            self.out.push_str("b''");
            return Some(());
        }
        *scan = at;
        scan.list()?;
        let begin = self.out.len();
        self.out.push('[');
        self.commas(scan, n, depth)?;
        if scan.tag()? == 106 {
            scan.term()?;
        } else if self.is_repr {
            self.out.insert_str(begin, "ImproperList(");
            self.out.push_str("], ");
            self.term(scan, depth)?;
            self.out.push(')');
            return Some(());
        } else {
            self.out.push_str(" | ");
            self.term(scan, depth)?;
        }
        self.out.push(']');
        Some(())
    }

    fn map(&mut self, scan: &mut Scan<'_>, depth: usize) -> Option<()> {
        let n = u32::from_be_bytes(scan.0.get(1..5)?.try_into().ok()?);
        scan.0 = scan.0.get(5..)?;
        self.out.push('{');
        for n in 0..n {
            self.out.push_str(if n == 0 { "" } else { ", " });
            self.term(scan, depth)?;
            self.out.push_str(": ");
            self.term(scan, depth)?;
        }
        self.out.push('}');
        Some(())
    }

    /// A native record: its head, the names of its fields, their values.
    fn record(&mut self, scan: &mut Scan<'_>, depth: usize) -> Option<()> {
        let n = u32::from_be_bytes(scan.0.get(1..5)?.try_into().ok()?);
        scan.0 = scan.0.get(6..)?;
        let _ = write!(self.out, "#{}:{}{{", name(scan.name()?), name(scan.name()?));
        let mut fields = *scan;
        for _ in 0..n {
            scan.name()?;
        }
        for n in 0..n {
            let _ = write!(self.out, "{}{} = ", if n == 0 { "" } else { ", " }, name(fields.name()?));
            self.term(scan, depth)?;
        }
        self.out.push('}');
        Some(())
    }

    fn commas(&mut self, scan: &mut Scan<'_>, n: usize, depth: usize) -> Option<()> {
        for n in 0..n {
            self.out.push_str(if n == 0 { "" } else { ", " });
            self.term(scan, depth)?;
        }
        Some(())
    }

    /// Appends a value that Erlang has no type for (`inviso_term::etf`). Answers the rest of its tuple.
    fn special<'a>(&mut self, mut scan: Scan<'a>, n: usize, depth: usize) -> Option<Scan<'a>> {
        if !(2..=4).contains(&n) || !scan.0.starts_with(&[119]) {
            return None;
        }
        match (scan.name()?, n) {
            (b"$inviso.set", 2) => {
                let n = scan.list()?;
                let begin = self.out.len();
                self.out.push_str(match n {
                    0 => "frozenset(",
                    _ if self.is_repr => "frozenset({",
                    _ => "{",
                });
                if self.commas(&mut scan, n, depth).is_none() && !self.is_full() {
                    self.out.truncate(begin);
                    return None;
                }
                self.out.push_str(match n {
                    0 => ")",
                    _ if self.is_repr => "})",
                    _ => "}",
                });
                if n > 0 {
                    scan.skip()?;
                }
            }
            (b"$inviso.cut", 2) => {
                let _ = write!(self.out, "<cut: {}>", name(scan.name()?));
            }
            (b"$inviso.opaque", 4) => {
                let (class, id) = (name(scan.name()?), scan.term()?);
                let text = scan.term()?;
                match Scan(text) {
                    Scan([109, ..]) => drop(write!(self.out, "<{class} {}>", name(Scan(text).name()?))),
                    _ => {
                        let id = unsigned(id)?;
                        let _ = write!(self.out, "<{class} at {id:#x}>");
                    }
                }
            }
            _ => return None,
        }
        Some(scan)
    }

    fn int(&mut self, n: i64) {
        self.out.push_str(itoa::Buffer::new().format(n));
    }

    fn big(&mut self, term: Bytes<'_>) -> Option<()> {
        if let Some(n) = Scan(term).int() {
            self.int(n);
            return Some(());
        }
        let digits = term.get(if term.first()? == &110 { 3 } else { 6 }..)?;
        let sign = if *term.get(if term.first()? == &110 { 2 } else { 5 })? == 0 { Sign::Plus } else { Sign::Minus };
        if self.is_repr {
            let n = BigInt::from_bytes_le(sign, digits);
            let text = if digits.len() > DIGITS { String::new() } else { n.to_string() };
            let _ = match text.len() {
                1..=DIGITS => write!(self.out, "{text}"),
                _ => write!(self.out, "{n:#x}"),
            };
        } else if digits.len() > 4096 {
            let _ = write!(self.out, "<an int of {} bytes>", digits.len());
        } else {
            let _ = write!(self.out, "{}", BigInt::from_bytes_le(sign, digits));
        }
        Some(())
    }

    fn float(&mut self, x: f64) {
        let text = format!("{x:e}");
        let exponent =
            text.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)));
        let _ = match (x, exponent) {
            (x, _) if x.is_nan() => write!(self.out, "nan"),
            (x, _) if x.is_infinite() => write!(self.out, "{}", if x > 0.0 { "inf" } else { "-inf" }),
            (_, Some((digits, exponent))) if !(-4..16).contains(&exponent) => {
                let sign = if exponent < 0 { '-' } else { '+' };
                write!(self.out, "{digits}e{sign}{:02}", exponent.unsigned_abs())
            }
            (x, _) if x.fract() == 0.0 => write!(self.out, "{x:.1}"),
            (x, _) => write!(self.out, "{x}"),
        };
    }

    fn text(&mut self, text: &str) {
        let is_plain = |byte: &u8| (b' '..0x7f).contains(byte) && *byte != b'\'' && *byte != b'\\';
        if text.len() < self.most && text.as_bytes().iter().fold(true, |all, byte| all & is_plain(byte)) {
            self.out.reserve(text.len() + 2);
            self.out.push('\'');
            self.out.push_str(text);
            self.out.push('\'');
            return;
        }
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        self.out.push(quote);
        for c in text.chars() {
            if self.is_full() {
                return;
            }
            match c {
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\\' => self.out.push_str("\\\\"),
                c if c == quote => self.out.extend(['\\', c]),
                c if is_printable(c) => self.out.push(c),
                c if (c as u32) < 0x100 => drop(write!(self.out, "\\x{:02x}", c as u32)),
                c if (c as u32) < 0x1_0000 => drop(write!(self.out, "\\u{:04x}", c as u32)),
                c => drop(write!(self.out, "\\U{:08x}", c as u32)),
            }
        }
        self.out.push(quote);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
        self.out.extend(['b', quote]);
        for byte in bytes {
            if self.is_full() {
                return;
            }
            match byte {
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                b'\\' => self.out.push_str("\\\\"),
                byte if char::from(*byte) == quote => self.out.extend(['\\', quote]),
                b' '..=b'~' => self.out.push(char::from(*byte)),
                byte => drop(write!(self.out, "\\x{byte:02x}")),
            }
        }
        self.out.push(quote);
    }
}

/// A 64-bit integer that is not negative.
fn unsigned(term: Bytes<'_>) -> Option<u64> {
    if let Some(n) = Scan(term).int() {
        return u64::try_from(n).ok();
    }
    let mut value = [0; 8];
    let digits = term.get(3..)?;
    value.get_mut(..digits.len())?.copy_from_slice(digits);
    Some(u64::from_le_bytes(value))
}
