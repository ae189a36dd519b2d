//! Encodes any [`Term`].

use super::{
    encode::{Encoder, Full},
    visit::Node,
    MAX_DEPTH, VERSION,
};
use crate::term::{Identifier, Term};
use num_bigint::Sign;

/// The bytes of a term, without a version byte.
#[must_use]
pub fn encode(term: &Term) -> Vec<u8> {
    encode_after(&[], term)
}

/// The bytes of a term, with a version byte.
#[must_use]
pub fn encode_versioned(term: &Term) -> Vec<u8> {
    encode_after(&[VERSION], term)
}

fn encode_after(head: &[u8], term: &Term) -> Vec<u8> {
    let mut buffer = head.to_vec();
    let mut size = 128;
    loop {
        buffer.resize(size, 0);
        let mut out = Encoder::new(&mut buffer[head.len()..]);
        // an encoding is never too large for a buffer: longer parts are cut
        if out.term(term).is_ok() {
            let len = head.len() + out.len();
            buffer.truncate(len);
            return buffer;
        }
        size *= 4;
    }
}

impl Encoder<'_> {
    /// Any term.
    ///
    /// Parts that the format can't hold become cuts: `depth` for containers 200 levels down, `size` for more than 4 GiB.
    pub fn term(&mut self, term: &Term) -> Result<(), Full> {
        self.all_or_nothing(|out| out.nested(term, MAX_DEPTH))
    }

    fn nested(&mut self, term: &Term, depth: usize) -> Result<(), Full> {
        let Some(inner) = depth.checked_sub(1) else { return self.cut("depth") };
        // a part needs a level of its own
        let (size, is_compound) = measure(term);
        if u32::try_from(size).is_err() {
            return self.cut("size");
        }
        if is_compound && size > 0 && inner == 0 {
            return self.cut("depth");
        }
        let all = |out: &mut Self, elements: &[Term]| elements.iter().try_for_each(|e| out.nested(e, inner));
        match term {
            Term::Int(n) => {
                let (sign, magnitude) = n.to_bytes_le();
                self.big(sign == Sign::Minus, &magnitude)
            }
            Term::Float(f) => self.float(*f),
            Term::Atom(name) => self.atom(name),
            Term::Str(text) => self.str(text),
            Term::Bytes(bytes) => self.bytes(bytes),
            Term::BitString(bytes, bits) => self.bits(bytes, *bits),
            Term::Tuple(elements) => {
                self.tuple(elements.len())?;
                all(self, elements)
            }
            Term::List(elements) => {
                self.list(elements.len())?;
                all(self, elements)?;
                self.nil()
            }
            Term::ImproperList(elements, tail) => {
                self.list(elements.len())?;
                all(self, elements)?;
                self.nested(tail, inner)
            }
            Term::Map(pairs) => {
                self.map(pairs.len())?;
                pairs.iter().try_for_each(|(k, v)| self.nested(k, inner).and_then(|()| self.nested(v, inner)))
            }
            Term::Record(record) => {
                let fields = record.fields.iter().map(|(field, _)| &**field);
                self.record(&record.module, &record.name, record.exported, fields)?;
                record.fields.iter().try_for_each(|(_, value)| self.nested(value, inner))
            }
            Term::Set(elements) => {
                self.set(elements.len())?;
                all(self, elements)?;
                self.nil()
            }
            Term::Pid(of) => self.pid_of(of.into()),
            Term::Port(of) => self.port_of(of.into()),
            Term::Ref(of) => self.reference_of(of.into()),
            Term::Fun(module, name, arity) => self.fun(module, name, *arity),
            Term::Closure(closure) => self.put_with([], &closure.encoded),
            Term::Opaque(type_name, id, text) => self.opaque(type_name, *id, text.as_deref()),
            Term::Cut(what) => self.cut(what),
        }
    }
}

/// The size that is written in 32 bits, and whether it is a number of parts.
fn measure(term: &Term) -> (usize, bool) {
    match term {
        Term::Int(n) => ((n.bits() / 8) as usize + 1, false),
        Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => (elements.len(), true),
        Term::ImproperList(elements, _) => (elements.len(), true),
        Term::Map(pairs) => (pairs.len(), true),
        Term::Record(record) => (record.fields.len(), true),
        Term::Str(text) | Term::Cut(text) => (text.len(), false),
        Term::Bytes(bytes) | Term::BitString(bytes, _) => (bytes.len(), false),
        Term::Opaque(name, _, text) => (name.len().max(text.as_deref().map_or(0, str::len)), false),
        _ => (0, false),
    }
}

impl<'a> From<&'a Identifier> for Node<'a> {
    fn from(of: &'a Identifier) -> Node<'a> {
        Node { name: &of.node, id: of.id, rest: of.rest, creation: of.creation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Record;

    /// A longer size than 32 bits hold becomes a cut.
    #[test]
    fn a_size_is_that_of_the_longest_text_or_the_number_of_parts() {
        let two = || vec![Term::from(1), Term::from(2)];
        let fields = vec![("a".into(), Term::from(1)), ("b".into(), Term::from(2))];
        let record = Record { module: "m".into(), name: "r".into(), exported: false, fields };
        let opaque = |text: Option<&str>| Term::Opaque("name".into(), 1, text.map(Into::into));
        let cases = [
            (Term::from(255), (2, false)),
            (Term::from(-1), (1, false)),
            (Term::Str("text".into()), (4, false)),
            (Term::Cut("text".into()), (4, false)),
            (Term::Bytes([1, 2, 3].into()), (3, false)),
            (Term::BitString([1, 2, 3].into(), 5), (3, false)),
            (opaque(None), (4, false)),
            (opaque(Some("longer")), (6, false)),
            (opaque(Some("s")), (4, false)),
            (Term::Tuple(two()), (2, true)),
            (Term::List(two()), (2, true)),
            (Term::Set(two()), (2, true)),
            (Term::ImproperList(two(), Box::new(Term::from(3))), (2, true)),
            (Term::Map(vec![(Term::from(1), Term::from(2))]), (1, true)),
            (Term::Record(Box::new(record)), (2, true)),
            (Term::atom("a"), (0, false)),
        ];
        for (term, size) in cases {
            assert_eq!(measure(&term), size, "{term}");
        }
    }

    #[test]
    fn the_buffer_grows_until_the_term_fits() {
        for length in [0, 122, 123, 124, 507, 508, 100_000] {
            let text = "x".repeat(length);
            let written = encode_versioned(&Term::str(&text));
            assert_eq!((written[0], written.len()), (VERSION, 6 + length));
            assert!(written.ends_with(text.as_bytes()));
        }
    }
}
