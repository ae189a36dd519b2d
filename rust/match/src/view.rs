//! The values that a program inspects: terms or live objects of the traced language.
#![forbid(unsafe_code)]

use inviso_term::term::Term;
use num_bigint::BigInt;

/// The type of a value in Erlang. Numbers are counts of elements.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    /// A 64-bit integer.
    Int(i64),
    /// An integer of more than 64 bits; see [`View::big`].
    Big,
    /// A float.
    Float(f64),
    /// An atom. Python's `None`, `True`, `False` are `undefined`, `true`, `false`.
    Atom(&'a str),
    /// A binary.
    Binary(Binary<'a>),
    /// A tuple of this many elements.
    Tuple(usize),
    /// A proper list of this many elements.
    List(usize),
    /// A list of this many elements (at least one) and a tail that is not a list.
    Improper(usize),
    /// A map of this many pairs.
    Map(usize),
    /// A set of this many members.
    Set(usize),
    /// A process; `to_term` has its pid.
    Pid,
    /// A port.
    Port,
    /// A reference.
    Ref,
    /// A function, with the number of its parameters if it is known.
    Fun(Option<u64>),
    /// Any other object. It is equal only to itself.
    Other,
}

/// The contents of a binary, in its owner's form.
///
/// Text in units of 1, 2 or 4 bytes stands for its UTF-8. A lone surrogate stands for the three bytes that UTF-8 would have.
#[derive(Clone, Copy, Debug)]
pub enum Binary<'a> {
    /// Bytes, or text that is UTF-8 (all of ASCII).
    Bytes(&'a [u8]),
    /// Bytes of which the last one has this many bits (1 to 7), the high ones.
    Bits(&'a [u8], u8),
    /// Text with one byte for each character (U+0000 to U+00FF).
    Latin1(&'a [u8]),
    /// Text with two bytes for each character.
    Ucs2(&'a [u16]),
    /// Text with four bytes for each character.
    Ucs4(&'a [u32]),
}

/// A view of a value without a copy. No method runs code of the traced program. Only `big` and `to_term` allocate.
pub trait View<'a>: Copy {
    /// Its type.
    fn look(self) -> Look<'a>;
    /// Whether both are the same object. Then they are equal in every sense (except a NaN). May answer `false` for the same
    /// object.
    fn is(self, other: Self) -> bool;
    /// The value of a [`Look::Big`].
    fn big(self) -> BigInt;
    /// The element at `n` of a tuple, or of a list before its tail. `None` if it was removed meanwhile.
    fn element(self, n: usize) -> Option<Self>;
    /// The tail of a [`Look::Improper`].
    fn tail(self) -> Option<Self>;
    /// The next pair of a map. `at` starts as 0 and belongs to the map.
    fn pair(self, at: &mut usize) -> Option<(Self, Self)>;
    /// The next member of a set. `at` starts as 0 and belongs to the set.
    fn member(self, at: &mut usize) -> Option<Self>;
    /// The attribute `name` of an object, from its own fields and slots only. `None` without it.
    fn attribute(self, name: &str) -> Option<Self>;
    /// Whether the object is an instance of the class `name` ("module.Class") or of one that derives from it.
    fn is_instance(self, name: &str) -> bool;
    /// A copy. Its owner limits its size.
    fn to_term(self) -> Term;
}
