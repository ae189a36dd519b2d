//! The text of terms, as in Erlang's shell.
//!
//! ```
//! use inviso_term::term::Term;
//! let term = Term::Tuple(vec![Term::atom("ok"), Term::List(vec![Term::from(1), Term::str("a")])]);
//! assert_eq!(term.to_string(), r#"{ok,[1,<<"a">>]}"#);
//! ```

use crate::term::{Identifier, Term};
use std::fmt::{self, Display, Formatter, Write};

/// The deepest nesting that is shown. Deeper containers are `...`.
const DEPTH: usize = 100;

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        show(self, f, DEPTH)
    }
}

// more than 60 lines: one short arm for each kind of term
fn show(term: &Term, f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    let Some(inner) = depth.checked_sub(1) else { return f.write_str("...") };
    match term {
        Term::Int(n) => write!(f, "{n}"),
        Term::Float(x) => write!(f, "{x:?}"),
        Term::Atom(name) => atom(name, f),
        Term::Str(text) => write!(f, "<<{text:?}>>"),
        Term::Bytes(bytes) => binary(bytes, 8, f),
        Term::BitString(bytes, bits) => binary(bytes, *bits, f),
        Term::Tuple(elements) => {
            f.write_char('{')?;
            commas(elements, f, inner)?;
            f.write_char('}')
        }
        Term::List(elements) => {
            f.write_char('[')?;
            commas(elements, f, inner)?;
            f.write_char(']')
        }
        Term::ImproperList(elements, tail) => {
            f.write_char('[')?;
            commas(elements, f, inner)?;
            f.write_char('|')?;
            show(tail, f, inner)?;
            f.write_char(']')
        }
        Term::Map(pairs) => {
            f.write_str("#{")?;
            for (n, (key, value)) in pairs.iter().enumerate() {
                f.write_str(if n == 0 { "" } else { "," })?;
                show(key, f, inner)?;
                f.write_str(" => ")?;
                show(value, f, inner)?;
            }
            f.write_char('}')
        }
        Term::Record(record) => {
            f.write_char('#')?;
            atom(&record.module, f)?;
            f.write_char(':')?;
            atom(&record.name, f)?;
            f.write_char('{')?;
            for (n, (field, value)) in record.fields.iter().enumerate() {
                f.write_str(if n == 0 { "" } else { "," })?;
                atom(field, f)?;
                f.write_str(" = ")?;
                show(value, f, inner)?;
            }
            f.write_char('}')
        }
        Term::Set(elements) => {
            f.write_str("#Set<")?;
            commas(elements, f, inner)?;
            f.write_char('>')
        }
        Term::Pid(pid) => {
            let (number, serial) = (pid.id as u32, pid.id >> 32);
            write!(f, "<{}.{number}.{serial}>", place(pid))
        }
        Term::Port(port) => write!(f, "#Port<{}.{}>", place(port), port.id),
        Term::Ref(reference) => write!(f, "#Ref<{}.{}>", place(reference), reference.id),
        Term::Fun(module, name, arity) => {
            f.write_str("fun ")?;
            atom(module, f)?;
            f.write_char(':')?;
            atom(name, f)?;
            write!(f, "/{arity}")
        }
        Term::Closure(closure) => {
            let (index, unique) = closure.numbers();
            write!(f, "#Fun<{}.{index}.{unique}>", closure.module())
        }
        Term::Opaque(class, id, None) => write!(f, "#Object<{class}.{id:#x}>"),
        Term::Opaque(class, _, Some(text)) => write!(f, "#Object<{class} {text}>"),
        Term::Cut(what) => write!(f, "...<{what}>"),
    }
}

fn commas(elements: &[Term], f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    for (n, element) in elements.iter().enumerate() {
        f.write_str(if n == 0 { "" } else { "," })?;
        show(element, f, depth)?;
    }
    Ok(())
}

/// 0 for this node, as in Erlang; for other nodes the creation.
fn place(of: &Identifier) -> u32 {
    if of.is_own() {
        0
    } else {
        of.creation.max(1)
    }
}

fn atom(name: &str, f: &mut Formatter<'_>) -> fmt::Result {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '@');
    if plain {
        return f.write_str(name);
    }
    f.write_char('\'')?;
    for c in name.chars() {
        match c {
            '\'' | '\\' => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\x{{{:x}}}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('\'')
}

fn binary(bytes: &[u8], bits: u8, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("<<")?;
    for (n, byte) in bytes.iter().enumerate() {
        f.write_str(if n == 0 { "" } else { "," })?;
        match n + 1 == bytes.len() && bits < 8 {
            true => write!(f, "{}:{bits}", byte >> (8 - bits))?,
            false => write!(f, "{byte}")?,
        }
    }
    f.write_str(">>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Record;

    #[test]
    fn each_kind_is_shown_as_by_the_shell() {
        let cases = [
            (Term::from(-3), "-3"),
            (Term::Float(1.0), "1.0"),
            (Term::atom("ok"), "ok"),
            (Term::atom("O'k"), r"'O\'k'"),
            (Term::atom(""), "''"),
            (Term::str("a\"b"), r#"<<"a\"b">>"#),
            (Term::Bytes((*b"\x01\xff").into()), "<<1,255>>"),
            (Term::BitString((*b"\xa0").into(), 3), "<<5:3>>"),
            (Term::Tuple(vec![]), "{}"),
            (Term::ImproperList(vec![Term::from(1)], Box::new(Term::from(2))), "[1|2]"),
            (Term::Map(vec![(Term::from(1), Term::atom("a"))]), "#{1 => a}"),
            (
                Term::Record(Box::new(Record {
                    module: "rr".into(),
                    name: "P".into(),
                    exported: true,
                    fields: vec![("a".into(), Term::from(2)), ("B".into(), Term::Tuple(vec![Term::atom("x")]))],
                })),
                "#rr:'P'{a = 2,'B' = {x}}",
            ),
            (Term::Pid(Identifier::own(4 | 2 << 32)), "<0.4.2>"),
            (Term::Port(Identifier::own(5)), "#Port<0.5>"),
            (Term::Ref(Identifier::own(6)), "#Ref<0.6>"),
            (Term::Fun("m".into(), "f".into(), 2), "fun m:f/2"),
            (Term::Opaque("app.Order".into(), 16, None), "#Object<app.Order.0x10>"),
            (Term::Cut("items".into()), "...<items>"),
        ];
        for (term, text) in cases {
            assert_eq!(term.to_string(), text);
        }
    }

    #[test]
    fn parts_are_separated_by_commas() {
        let two = || vec![Term::from(1), Term::str("a")];
        let pairs = vec![(Term::from(1), Term::from(2)), (Term::from(3), Term::from(4))];
        let cases = [
            (Term::Tuple(two()), r#"{1,<<"a">>}"#),
            (Term::List(two()), r#"[1,<<"a">>]"#),
            (Term::ImproperList(two(), Box::new(Term::atom("b"))), r#"[1,<<"a">>|b]"#),
            (Term::Set(two()), r#"#Set<1,<<"a">>>"#),
            (Term::Map(pairs), "#{1 => 2,3 => 4}"),
            (Term::BitString([5, 0xa0].into(), 3), "<<5,5:3>>"),
            (Term::BitString([5, 0x80].into(), 8), "<<5,128>>"),
            (Term::Opaque("app.Order".into(), 16, Some("<Order 7>".into())), "#Object<app.Order <Order 7>>"),
        ];
        for (term, text) in cases {
            assert_eq!(term.to_string(), text);
        }
    }

    #[test]
    fn identifiers_of_other_nodes_show_the_creation() {
        let of = |creation| Identifier::new(4 | 2 << 32, "a@b", creation);
        assert_eq!([0, 1, 7].map(|n| Term::Pid(of(n)).to_string()), ["<1.4.2>", "<1.4.2>", "<7.4.2>"]);
        assert_eq!(Term::Port(of(7)).to_string(), "#Port<7.8589934596>");
        assert_eq!(Term::Ref(of(7)).to_string(), "#Ref<7.8589934596>");
    }

    #[test]
    fn atoms_that_need_quotes_have_them() {
        for plain in ["a", "aB_9@c", "z"] {
            assert_eq!(Term::atom(plain).to_string(), plain);
        }
        for quoted in ["A", "_a", "9", "a b", "a-b", "é", "aé", "$a"] {
            assert_eq!(Term::atom(quoted).to_string(), format!("'{quoted}'"));
        }
        assert_eq!(Term::atom("a\\b\n\u{7f}").to_string(), r"'a\\b\x{a}\x{7f}'");
    }

    #[test]
    fn a_hundred_levels_are_shown() {
        let nested = |levels| (0..levels).fold(Term::from(7), |term, _| Term::Tuple(vec![term])).to_string();
        assert!(nested(DEPTH - 1).contains("{7}"));
        assert!(nested(DEPTH).contains("{...}") && !nested(DEPTH).contains('7'));
    }

    #[test]
    fn a_very_deep_term_is_cut() {
        let mut term = Term::List(vec![]);
        for _ in 0..1000 {
            term = Term::List(vec![term]);
        }
        assert!(term.to_string().contains("..."));
        std::mem::forget(term); // a drop would recurse
    }
}
