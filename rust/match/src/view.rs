//! What a program looks at: a term, or a live object of the traced language.
#![forbid(unsafe_code)]

use inviso_term::term::Term;
use num_bigint::BigInt;

/// What a value is to Erlang. Numbers say how many elements there are.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    /// An integer of 64 bits.
    Int(i64),
    /// An integer beyond 64 bits; see [`View::big`].
    Big,
    /// A float.
    Float(f64),
    /// An atom. `None`, `True`, `False` of Python are `undefined`, `true`, `false`.
    Atom(&'a str),
    /// A binary.
    Binary(Binary<'a>),
    /// A tuple of so many elements.
    Tuple(usize),
    /// A proper list of so many elements.
    List(usize),
    /// A list with so many elements (at least one) before a tail that is no list.
    Improper(usize),
    /// A map of so many pairs.
    Map(usize),
    /// A set of so many members.
    Set(usize),
    /// A process; `to_term` tells which.
    Pid,
    /// A port.
    Port,
    /// A reference.
    Ref,
    /// A function, with the number of its parameters where that is known.
    Fun(Option<u64>),
    /// Anything else: an object that is only itself.
    Other,
}

/// The contents of a binary, in the form that its owner keeps them.
///
/// Text in units of 1, 2 or 4 bytes stands for its UTF-8; a lone surrogate for the three bytes that UTF-8 would give it.
#[derive(Clone, Copy, Debug)]
pub enum Binary<'a> {
    /// Bytes, or text that is UTF-8 (all of ASCII).
    Bytes(&'a [u8]),
    /// Bytes whose last one has so many bits (1 to 7), the high ones.
    Bits(&'a [u8], u8),
    /// Text, a character a byte (U+0000 to U+00FF).
    Latin1(&'a [u8]),
    /// Text, a character in two bytes.
    Ucs2(&'a [u16]),
    /// Text, a character in four bytes.
    Ucs4(&'a [u32]),
}

/// A value, seen without a copy. No method runs code of the traced program, and none but `big` and `to_term` allocates.
pub trait View<'a>: Copy {
    /// What it is.
    fn look(self) -> Look<'a>;
    /// Whether both are one and the same object; then they are equal in every sense (but for a nan). May say `false`.
    fn is(self, other: Self) -> bool;
    /// The value of a [`Look::Big`].
    fn big(self) -> BigInt;
    /// The element at `n` of a tuple, or of a list before its tail. `None` if it went away meanwhile.
    fn element(self, n: usize) -> Option<Self>;
    /// The tail of a [`Look::Improper`].
    fn tail(self) -> Option<Self>;
    /// The next pair of a map; `at` starts as 0 and belongs to the map.
    fn pair(self, at: &mut usize) -> Option<(Self, Self)>;
    /// The next member of a set; `at` starts as 0 and belongs to the set.
    fn member(self, at: &mut usize) -> Option<Self>;
    /// The attribute `name` of an object, from its own fields and slots only. `None` if it has none.
    fn attribute(self, name: &str) -> Option<Self>;
    /// Whether the object is an instance of the class `name` ("module.Class") or of one that derives from it.
    fn is_instance(self, name: &str) -> bool;
    /// A copy; bounded as its owner decides.
    fn to_term(self) -> Term;
}
