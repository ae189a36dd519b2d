//! The syntax of a match specification: clauses of a head, guards and a body.
#![forbid(unsafe_code)]

use inviso_term::term::Term;

/// The number of a match variable: 1 for `$1`.
pub type Variable = u32;

/// `(Head, Guards, Body)`.
#[derive(Clone, Debug)]
pub struct Clause {
    /// The pattern of the arguments or of the subject.
    pub head: Head,
    /// Each must be `true`.
    pub guards: Vec<Expr>,
    /// The expressions, which are evaluated in order.
    pub body: Vec<Expr>,
    /// The variables of the head, sorted by number.
    pub variables: Vec<Variable>,
}

/// The pattern of a clause.
#[derive(Clone, Debug)]
pub enum Head {
    /// Patterns of the first arguments, and the rest.
    Arguments(Vec<Pattern>, Rest),
    /// The pattern of a table program's subject.
    Subject(Pattern),
}

/// The arguments without a pattern of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// No further arguments.
    None,
    /// Any number of them: `'_'`.
    Any,
    /// Any number of them, as a list in a variable.
    Variable(Variable),
}

/// The pattern of a value.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// `'_'`.
    Any,
    /// Any value, the same at each place of the variable.
    Variable(Variable),
    /// Exactly this term.
    Const(Term),
    /// A tuple of these elements.
    Tuple(Vec<Pattern>),
    /// A list with these first elements and this tail; no tail is the empty list.
    List(Vec<Pattern>, Option<Box<Pattern>>),
    /// A map with at least these keys.
    Map(Vec<(Term, Pattern)>),
}

/// An expression of a guard or a body.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A term.
    Const(Term),
    /// A variable of the head.
    Variable(Variable),
    /// `'$_'`: all arguments as a list, or the subject.
    Whole,
    /// `'$$'`: the variables of the head as a list.
    Bindings,
    /// `{{...}}`.
    Tuple(Vec<Expr>),
    /// A list whose elements or tail are not all constant.
    List(Vec<Expr>, Option<Box<Expr>>),
    /// A map whose keys or values are not all constant.
    Map(Vec<(Expr, Expr)>),
    /// A function and its arguments.
    Call(Function, Vec<Expr>),
}

/// The type of a type test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `is_atom`
    Atom,
    /// `is_boolean`
    Boolean,
    /// `is_float`
    Float,
    /// `is_integer`
    Integer,
    /// `is_list`
    List,
    /// `is_number`
    Number,
    /// `is_pid`
    Pid,
    /// `is_port`
    Port,
    /// `is_reference`
    Reference,
    /// `is_tuple`
    Tuple,
    /// `is_map`
    Map,
    /// `is_binary`
    Binary,
    /// `is_bitstring`
    Bitstring,
    /// `is_function`
    Function,
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `=<`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `/=`
    NotEqual,
    /// `=:=`
    Same,
    /// `=/=`
    NotSame,
}

/// Arithmetic of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `bnot`
    Bnot,
    /// `abs`
    Abs,
    /// `round`
    Round,
    /// `trunc`
    Trunc,
    /// `floor`
    Floor,
    /// `ceil`
    Ceil,
    /// `float`
    Float,
}

/// Arithmetic of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `div`
    Div,
    /// `rem`
    Rem,
    /// `band`
    Band,
    /// `bor`
    Bor,
    /// `bxor`
    Bxor,
    /// `bsl`
    Bsl,
    /// `bsr`
    Bsr,
}

/// The functions of specifications: all names that begin a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each has its name in specifications
pub enum Function {
    Is(Type),
    IsFunction2,
    IsInteger3,
    IsRecord,
    Compare(Comparison),
    Unary(UnaryOp),
    Binary(BinaryOp),
    Min,
    Max,
    Not,
    And,
    Or,
    Xor,
    AndAlso,
    OrElse,
    Element,
    Hd,
    Tl,
    Length,
    Size,
    ByteSize,
    BitSize,
    TupleSize,
    MapSize,
    MapGet,
    IsMapKey,
    BinaryPart,
    Node,
    NodeOf,
    Me,
    IsInstance,
    Attr,
    Arg,
    IsSeqTrace,
    GetTcw,
    SetTcw,
    Message,
    ReturnTrace,
    ExceptionTrace,
    Caller,
    CallerLine,
    Stacktrace,
    Display,
    ProcessDump,
    Silent,
    EnableTrace,
    DisableTrace,
    Trace,
    GetSeqToken,
    SetSeqToken,
    Dump,
}
