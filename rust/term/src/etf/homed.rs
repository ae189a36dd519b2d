//! Replaces the placeholder for this node in identifiers by a name.

use super::{encode::HERE, measure::measure, tag, Encoder, Node, MAX_ATOM};

/// Appends a copy of one term (without a version byte) and of the bytes after it. Every pid, port and reference of this node gets
/// this name and creation. Everything else is copied unchanged, also bytes that are not a term.
///
/// ```
/// use inviso_term::{etf, term::{Identifier, Term}};
/// let pair = |of| Term::Tuple(vec![Term::Pid(of), Term::str("nonode@nohost")]);
/// let mut out = Vec::new();
/// etf::homed(&etf::encode(&pair(Identifier::own(7))), "a@b", 3, &mut out);
/// assert_eq!(etf::decode(&out).unwrap(), pair(Identifier::new(7, "a@b", 3)));
/// ```
pub fn homed(bytes: &[u8], name: &str, creation: u32, out: &mut Vec<u8>) {
    if mentions_here(bytes) {
        let here = NodeName::new(name, creation);
        renamed(bytes, |_| Some(&here), out);
    } else {
        out.extend_from_slice(bytes);
    }
}

/// The name and creation of a node, encoded for identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName {
    atom: Vec<u8>,
    creation: u32,
}

impl NodeName {
    /// A name of up to [`MAX_ATOM`] characters. A longer name is not written to identifiers.
    #[must_use]
    pub fn new(name: &str, creation: u32) -> NodeName {
        let mut atom = Vec::new();
        put_atom(&mut atom, name);
        NodeName { atom, creation }
    }
}

/// Appends a copy of one term (without a version byte) and of the bytes after it. Every pid, port and reference of a node without
/// a name gets the node that `node` answers for its creation, if it answers one. Everything else is copied unchanged, also bytes
/// that are not a term.
///
/// ```
/// use inviso_term::{etf::{self, NodeName}, term::{Identifier, Term}};
/// let pair = |one, two| Term::Tuple(vec![Term::Pid(one), Term::Pid(two)]);
/// let (of_3, of_4) = (Identifier::new(7, "nonode@nohost", 3), Identifier::new(7, "nonode@nohost", 4));
/// let (shop, mut out) = (NodeName::new("shop@h", 3), Vec::new());
/// etf::renamed(&etf::encode(&pair(of_3, of_4.clone())), |creation| (creation == 3).then_some(&shop), &mut out);
/// assert_eq!(etf::decode(&out).unwrap(), pair(Identifier::new(7, "shop@h", 3), of_4));
/// ```
pub fn renamed<'a>(bytes: &[u8], node: impl FnMut(u32) -> Option<&'a NodeName>, out: &mut Vec<u8>) {
    let at = out.len();
    if rewrite(bytes, node, out).is_none() {
        out.truncate(at);
        out.extend_from_slice(bytes);
    }
}

fn mentions_here(bytes: &[u8]) -> bool {
    bytes.windows(2 + HERE.len()).any(|at| at[0] == tag::SMALL_ATOM_UTF8 && is_here(at))
}

/// Whether `bytes` begins with the placeholder's atom.
fn is_here(bytes: &[u8]) -> bool {
    bytes.strip_prefix(&[tag::SMALL_ATOM_UTF8, HERE.len() as u8]).is_some_and(|rest| rest.starts_with(HERE))
}

fn rewrite<'a>(bytes: &[u8], mut node: impl FnMut(u32) -> Option<&'a NodeName>, out: &mut Vec<u8>) -> Option<()> {
    let (mut at, mut copied, mut left) = (0, 0, 1_usize);
    while left > 0 {
        let rest = bytes.get(at..)?;
        let (length, parts) = measure(rest)?;
        let head = match *rest.first()? {
            tag::NEW_PID | tag::NEW_PORT | tag::V4_PORT => 1,
            tag::NEWER_REFERENCE => 3,
            _ => 0,
        };
        if head != 0 && is_here(rest.get(head..)?) {
            let numbers = rest.get(head + 2 + HERE.len()..length)?;
            // the creation is the first of a reference's numbers, and the last of the others'
            let creation = if head == 3 { numbers.first_chunk()? } else { numbers.last_chunk()? };
            if let Some(node) = node(u32::from_be_bytes(*creation)).filter(|node| !node.atom.is_empty()) {
                out.extend_from_slice(bytes.get(copied..at + head)?);
                identify(head == 3, numbers, node, out)?;
                copied = at + length;
            }
        }
        at += length;
        left = left.checked_add(parts)? - 1;
    }
    bytes.get(..at)?; // the term is whole
    out.extend_from_slice(bytes.get(copied..)?);
    Some(())
}

/// Appends the name, and the numbers with the new creation.
fn identify(is_reference: bool, numbers: &[u8], node: &NodeName, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&node.atom);
    if is_reference {
        out.extend_from_slice(&node.creation.to_be_bytes());
        out.extend_from_slice(numbers.get(4..)?);
    } else {
        out.extend_from_slice(numbers.get(..numbers.len().checked_sub(4)?)?);
        out.extend_from_slice(&node.creation.to_be_bytes());
    }
    Some(())
}

/// Appends an atom as [`Encoder`] encodes it.
fn put_atom(out: &mut Vec<u8>, name: &str) {
    // the end of an identifier has the atom after one byte
    let mut buffer = [0; 32 + 4 * MAX_ATOM];
    let mut encoder = Encoder::new(&mut buffer);
    if encoder.pid_of(Node { name, id: 0, rest: 0, creation: 0 }).is_ok() {
        let written = encoder.written();
        out.extend_from_slice(written.get(1..written.len() - 12).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        etf::{decode, encode},
        term::{Identifier, Term},
    };

    fn odd(with: impl Fn(u64) -> Identifier) -> Term {
        let leaves = vec![
            Term::Pid(with(5)),
            Term::Port(with(1 << 40)),
            Term::Ref(with(77)),
            Term::str("nonode@nohost"),
            Term::atom("nonode@nohost"),
            Term::Bytes(encode(&Term::Pid(Identifier::own(1))).into()),
            Term::Float(1.5),
            Term::from(1 << 60),
            Term::Set(vec![Term::Pid(with(9))]),
            Term::Fun("m".into(), "f".into(), 2),
            Term::Pid(Identifier::new(3, "x@y", 8)),
        ];
        let map = Term::Map(vec![(Term::Pid(with(2)), Term::List(leaves.clone()))]);
        Term::Tuple(vec![Term::ImproperList(leaves, Box::new(Term::Ref(with(6)))), map, Term::Tuple(vec![])])
    }

    #[test]
    fn only_identifiers_of_this_node_get_the_name() {
        for name in ["a@b", "a-rather-long-name-of-a-node@some.host.example"] {
            let mut out = vec![1, 2];
            homed(&encode(&odd(Identifier::own)), name, 7, &mut out);
            assert_eq!(out[..2], [1, 2]);
            let named = odd(|id| Identifier::new(id, name, 7));
            assert_eq!(decode(&out[2..]).unwrap(), named);
            assert_eq!(out[2..], encode(&named));
        }
    }

    #[test]
    fn bytes_that_are_not_a_term_stay_also_after_one() {
        let whole = encode(&odd(Identifier::own));
        for length in 0..whole.len() {
            let mut out = Vec::new();
            homed(&whole[..length], "a@b", 1, &mut out);
            assert_eq!(out, whole[..length]);
        }
        let with_rest = [encode(&Term::Pid(Identifier::own(1))), vec![9, 9]].concat();
        let mut out = Vec::new();
        homed(&with_rest, "a@b", 1, &mut out);
        assert_eq!(out, [encode(&Term::Pid(Identifier::new(1, "a@b", 1))), vec![9, 9]].concat());
    }
}
