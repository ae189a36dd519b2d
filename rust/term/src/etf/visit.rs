//! The visitor of decoded terms. It builds [`Term`](crate::term::Term)s or another language's objects.

use std::borrow::Cow;

/// The identifier of a process, port or reference, as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Its number; for a pid, Erlang's id in the low half and its serial in the high half.
    pub id: u64,
    /// The bits above 64 in a reference of another node; 0 for all others.
    pub rest: u128,
    /// The creation: one start of the node.
    pub creation: u32,
}

/// A native record without its values.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// The module that defines it.
    pub module: &'a str,
    /// Its name in the module.
    pub name: &'a str,
    /// Whether other modules may read its fields.
    pub exported: bool,
    /// The names of its fields, which are distinct.
    pub fields: &'a [Cow<'a, str>],
}

/// A function that Erlang created at run time.
#[derive(Clone, Copy, Debug)]
pub struct ClosureRef<'a> {
    /// The module that created it.
    pub module: &'a str,
    /// The number of parameters; old nodes don't write it.
    pub arity: Option<u8>,
    /// Its index in the module.
    pub index: u32,
    /// A hash of its code.
    pub unique: u32,
    /// Its whole encoding. Only the decoder creates one.
    pub(crate) encoded: &'a [u8],
}

impl<'a> ClosureRef<'a> {
    /// Its whole encoding, from its tag on.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn encoded(&self) -> &'a [u8] {
        self.encoded
    }
}

/// Builds the value of a term from the values of its parts.
///
/// ```
/// use inviso_term::{etf::{self, DecodeError, Visit}, term::Term};
///
/// /// Adds up the integers in lists and refuses everything else.
/// struct Sum;
///
/// fn no<T>() -> Result<T, DecodeError> {
///     Err(DecodeError::Refused("no list of integers"))
/// }
///
/// impl Visit for Sum {
///     type Value = i64;
///     type Error = DecodeError;
///     fn int(&mut self, n: i64) -> Result<i64, DecodeError> { Ok(n) }
///     fn list(&mut self, elements: Vec<i64>) -> Result<i64, DecodeError> { Ok(elements.iter().sum()) }
///     inviso_term::alike! { no(); big float atom str bytes bits tuple improper map record set pid port reference fun opaque cut }
/// }
///
/// let bytes = etf::encode(&Term::List(vec![Term::from(1), Term::List(vec![Term::from(2)])]));
/// assert_eq!(etf::walk(&bytes, etf::Limits::default(), &mut Sum), Ok(3));
/// ```
pub trait Visit {
    /// The value of a term.
    type Value;
    /// Why a term has no value.
    type Error: From<super::DecodeError>;

    /// A 64-bit integer.
    fn int(&mut self, n: i64) -> Result<Self::Value, Self::Error>;
    /// An integer of more than 64 bits, by its sign and magnitude, lowest byte first.
    fn big(&mut self, negative: bool, magnitude: &[u8]) -> Result<Self::Value, Self::Error>;
    /// A float.
    fn float(&mut self, value: f64) -> Result<Self::Value, Self::Error>;
    /// An atom.
    fn atom(&mut self, name: &str) -> Result<Self::Value, Self::Error>;
    /// Text: a binary that is UTF-8.
    fn str(&mut self, text: &str) -> Result<Self::Value, Self::Error>;
    /// Bytes.
    fn bytes(&mut self, bytes: &[u8]) -> Result<Self::Value, Self::Error>;
    /// A non-empty bit string. Its last byte has `bits` bits (1 to 7), the high ones.
    fn bits(&mut self, bytes: &[u8], bits: u8) -> Result<Self::Value, Self::Error>;
    /// A tuple.
    fn tuple(&mut self, elements: Vec<Self::Value>) -> Result<Self::Value, Self::Error>;
    /// A proper list.
    fn list(&mut self, elements: Vec<Self::Value>) -> Result<Self::Value, Self::Error>;
    /// A non-empty list that ends with another term than the empty list. Erlang doesn't write a list as the tail, but other
    /// writers can.
    fn improper(&mut self, elements: Vec<Self::Value>, tail: Self::Value) -> Result<Self::Value, Self::Error>;
    /// A map. Its bytes may have a key twice.
    fn map(&mut self, pairs: Vec<(Self::Value, Self::Value)>) -> Result<Self::Value, Self::Error>;
    /// A native record, with a value for each field.
    fn record(&mut self, of: RecordRef<'_>, values: Vec<Self::Value>) -> Result<Self::Value, Self::Error>;
    /// A set. Its bytes may have an element twice.
    fn set(&mut self, elements: Vec<Self::Value>) -> Result<Self::Value, Self::Error>;
    /// A process.
    fn pid(&mut self, of: Node<'_>) -> Result<Self::Value, Self::Error>;
    /// A port.
    fn port(&mut self, of: Node<'_>) -> Result<Self::Value, Self::Error>;
    /// A reference.
    fn reference(&mut self, of: Node<'_>) -> Result<Self::Value, Self::Error>;
    /// A function, by module, name and arity.
    fn fun(&mut self, module: &str, name: &str, arity: u64) -> Result<Self::Value, Self::Error>;
    /// An object that was not copied: the name of its type, its identity, and its text if that was requested.
    fn opaque(&mut self, type_name: &str, id: u64, text: Option<&str>) -> Result<Self::Value, Self::Error>;
    /// The place of a cut, and the limit that caused it.
    fn cut(&mut self, what: &str) -> Result<Self::Value, Self::Error>;

    /// A function that Erlang created at run time. The default is an opaque object of type `fun` with the text that Erlang shows.
    fn closure(&mut self, of: ClosureRef<'_>) -> Result<Self::Value, Self::Error> {
        let text = format!("#Fun<{}.{}.{}>", of.module, of.index, of.unique);
        self.opaque("fun", u64::from(of.index) << 32 | u64::from(of.unique), Some(&text))
    }
}

/// Implements methods of [`Visit`](crate::etf::Visit) that all answer the same value. The trait has an example.
#[macro_export]
macro_rules! alike {
    (@ int, $answer:expr) => { $crate::alike!(@ $answer, int(i64)); };
    (@ big, $answer:expr) => { $crate::alike!(@ $answer, big(bool, &[u8])); };
    (@ float, $answer:expr) => { $crate::alike!(@ $answer, float(f64)); };
    (@ atom, $answer:expr) => { $crate::alike!(@ $answer, atom(&str)); };
    (@ str, $answer:expr) => { $crate::alike!(@ $answer, str(&str)); };
    (@ bytes, $answer:expr) => { $crate::alike!(@ $answer, bytes(&[u8])); };
    (@ bits, $answer:expr) => { $crate::alike!(@ $answer, bits(&[u8], u8)); };
    (@ tuple, $answer:expr) => { $crate::alike!(@ $answer, tuple(Vec<Self::Value>)); };
    (@ list, $answer:expr) => { $crate::alike!(@ $answer, list(Vec<Self::Value>)); };
    (@ improper, $answer:expr) => { $crate::alike!(@ $answer, improper(Vec<Self::Value>, Self::Value)); };
    (@ map, $answer:expr) => { $crate::alike!(@ $answer, map(Vec<(Self::Value, Self::Value)>)); };
    (@ record, $answer:expr) => { $crate::alike!(@ $answer, record($crate::etf::RecordRef<'_>, Vec<Self::Value>)); };
    (@ set, $answer:expr) => { $crate::alike!(@ $answer, set(Vec<Self::Value>)); };
    (@ pid, $answer:expr) => { $crate::alike!(@ $answer, pid($crate::etf::Node<'_>)); };
    (@ port, $answer:expr) => { $crate::alike!(@ $answer, port($crate::etf::Node<'_>)); };
    (@ reference, $answer:expr) => { $crate::alike!(@ $answer, reference($crate::etf::Node<'_>)); };
    (@ fun, $answer:expr) => { $crate::alike!(@ $answer, fun(&str, &str, u64)); };
    (@ opaque, $answer:expr) => { $crate::alike!(@ $answer, opaque(&str, u64, Option<&str>)); };
    (@ cut, $answer:expr) => { $crate::alike!(@ $answer, cut(&str)); };
    (@ closure, $answer:expr) => { $crate::alike!(@ $answer, closure($crate::etf::ClosureRef<'_>)); };
    (@ $answer:expr, $method:ident($($argument:ty),*)) => {
        fn $method(&mut self, $(_: $argument),*) -> Result<Self::Value, Self::Error> {
            $answer
        }
    };
    ($answer:expr; $($method:ident)*) => { $($crate::alike!(@ $method, $answer);)* };
}
