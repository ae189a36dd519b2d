//! A match specification, taken apart: clauses of a head, guards and a body.
#![forbid(unsafe_code)]

use inviso_term::term::Term;

/// The number of a match variable: 1 for `$1`.
pub type Variable = u32;

/// `(Head, Guards, Body)`.
#[derive(Clone, Debug)]
pub struct Clause {
    /// What the arguments, or the subject, must look like.
    pub head: Head,
    /// Each must be `true`.
    pub guards: Vec<Expr>,
    /// Each is evaluated, in order.
    pub body: Vec<Expr>,
    /// The variables of the head, in the order of their numbers.
    pub variables: Vec<Variable>,
}

/// What is matched first.
#[derive(Clone, Debug)]
pub enum Head {
    /// The first arguments one by one, and what is said of the others.
    Arguments(Vec<Pattern>, Rest),
    /// The one subject of a table program.
    Subject(Pattern),
}

/// The arguments that have no pattern of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There must be none.
    None,
    /// Any number, `'_'`.
    Any,
    /// Any number: a variable is the list of them.
    Variable(Variable),
}

/// What a value must look like.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// `'_'`.
    Any,
    /// Whatever it is, the same each time.
    Variable(Variable),
    /// Exactly this.
    Const(Term),
    /// A tuple of as many elements.
    Tuple(Vec<Pattern>),
    /// A list that begins so and goes on with the tail; no tail is the empty list.
    List(Vec<Pattern>, Option<Box<Pattern>>),
    /// A map that has at least these keys.
    Map(Vec<(Term, Pattern)>),
}

/// What is computed in a guard or a body.
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
    /// A function of its arguments.
    Call(Function, Vec<Expr>),
}

/// What a type test asks for.
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

/// How two values are compared.
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
pub enum Unary {
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
pub enum Binary {
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

/// Everything that can stand first in a tuple and be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is called as it is in a specification
pub enum Function {
    Is(Type),
    IsFunction2,
    IsInteger3,
    IsRecord,
    Compare(Comparison),
    Unary(Unary),
    Binary(Binary),
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
