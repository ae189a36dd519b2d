//! The functions, their numbers of arguments, and where each is allowed.
#![forbid(unsafe_code)]

use crate::ast::{BinaryOp, Comparison, Function, Type, UnaryOp};
use std::fmt;

/// The place where a program runs. It decides which functions are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// At a call, with the call's arguments.
    Call,
    /// At a send, with `[Receiver, Message]`.
    Send,
    /// At a receive, with `[Node, Sender, Message]`.
    Receive,
    /// On any term, to compute another one: `table` in `match_spec_test`.
    Table,
}

/// The severity of a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The specification is refused.
    Error,
    /// The specification is accepted, but is probably not meant so.
    Warning,
}

/// The class of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A clause of a table program computes nothing.
    EmptyBody,
    /// A tracing function in a table program.
    WrongDialect,
    /// A variable that is not in the head.
    UnboundVariable,
    /// An action among the guards.
    NotInGuard,
    /// Too many or too few arguments of a function.
    WrongArity,
    /// No function has this name and number of arguments.
    NoSuchFunction,
    /// Another term in the place of a list.
    NotAList,
    /// A list with a tail in the place of a proper list.
    NotAProperList,
    /// A clause that is not a tuple of three.
    NotAClause,
    /// A tuple that is neither a call nor doubled.
    NotACallNorATuple,
    /// A variable as a key of a map in a head.
    VariableInMapKey,
    /// `'_'` as a key of a map in a head.
    WildcardInMapKey,
    /// A head that this kind of program can't have.
    BadHead,
    /// A function that is not for this kind of event.
    WrongContext,
    /// A wrong argument that must be known at compile time.
    BadArgument,
    /// Nested too deeply, or too large.
    SystemLimit,
}

impl Class {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::EmptyBody => "empty_body",
            Class::WrongDialect => "wrong_dialect",
            Class::UnboundVariable => "unbound_variable",
            Class::NotInGuard => "not_in_guard",
            Class::WrongArity => "wrong_arity",
            Class::NoSuchFunction => "no_such_function",
            Class::NotAList => "not_a_list",
            Class::NotAProperList => "not_a_proper_list",
            Class::NotAClause => "not_a_clause",
            Class::NotACallNorATuple => "not_a_call_nor_a_tuple",
            Class::VariableInMapKey => "variable_in_map_key",
            Class::WildcardInMapKey => "wildcard_in_map_key",
            Class::BadHead => "bad_head",
            Class::WrongContext => "wrong_context",
            Class::BadArgument => "bad_argument",
            Class::SystemLimit => "system_limit",
        }
    }
}

/// A part of a clause. Guards and expressions of the body are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The whole clause.
    Clause,
    /// The head.
    Head,
    /// A guard; 0 for all of them.
    Guard(usize),
    /// An expression of the body; 0 for all of them.
    Body(usize),
}

/// A problem of a specification, and its correction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{text}", Position(*clause, *place))]
pub struct Problem {
    /// The severity.
    pub severity: Severity,
    /// The class.
    pub class: Class,
    /// The problem and the correction.
    pub text: String,
    /// The number of the clause, from 1; `None` for the whole specification.
    pub clause: Option<usize>,
    /// The part of the clause.
    pub place: Place,
}

struct Position(Option<usize>, Place);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(clause) = self.0 else { return Ok(()) };
        write!(f, "clause {clause}")?;
        match self.1 {
            Place::Clause => {}
            Place::Head => f.write_str(", head")?,
            Place::Guard(0) => f.write_str(", guards")?,
            Place::Guard(n) => write!(f, ", guard {n}")?,
            Place::Body(0) => f.write_str(", body")?,
            Place::Body(n) => write!(f, ", body {n}")?,
        }
        f.write_str(": ")
    }
}

/// The events that a function is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Events {
    All,
    CallsAndSends,
    Calls,
}

/// The function `name` with this many arguments, if it is allowed here.
///
/// # Errors
/// The class and the text of the problem.
pub(crate) fn function(
    name: &str, arity: usize, context: Context, is_guard: bool,
) -> Result<Function, (Class, String)> {
    if let Some((function, arities, events, in_guard)) = special(name) {
        if let Some(events) = events {
            placed(name, events, in_guard, context, is_guard)?;
        }
        if !arities.contains(&arity) {
            let most = arities.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ");
            return Err((Class::WrongArity, format!("'{name}' takes {most} arguments, not {arity}; write that many")));
        }
        return Ok(function);
    }
    if let Some(function) = strict(name) {
        if arity == 0 {
            return Err((
                Class::WrongArity,
                format!("'{name}' needs at least one argument; give it the values to combine"),
            ));
        }
        return Ok(function);
    }
    let function = plain(name, arity).ok_or_else(|| {
        let others: Vec<_> = (0..4).filter(|n| plain(name, *n).is_some()).map(|n| n.to_string()).collect();
        let mend = match &others[..] {
            [] => "for a tuple as a value write it doubled, {{...}} or ((...),), or as a const".to_string(),
            some => format!("'{name}' takes {}", some.join(" or ")),
        };
        (Class::NoSuchFunction, format!("there is no function '{name}' of {arity} arguments; {mend}"))
    })?;
    let allowed = match function {
        Function::SetTcw => context != Context::Table && !is_guard,
        Function::GetTcw => context != Context::Table,
        _ => true,
    };
    if !allowed {
        return Err((Class::WrongContext, format!("'{name}' can't be called here; it belongs in a body of tracing")));
    }
    Ok(function)
}

fn placed(name: &str, events: Events, in_guard: bool, context: Context, is_guard: bool) -> Result<(), (Class, String)> {
    let right = match (events, context) {
        (_, Context::Table) => {
            return Err((Class::WrongDialect, format!("'{name}' is for tracing only; a table program can't use it")));
        }
        (Events::All, _) | (_, Context::Call) => true,
        (Events::CallsAndSends, context) => context == Context::Send,
        (Events::Calls, _) => false,
    };
    if !right {
        let event = if context == Context::Send { "send" } else { "receive" };
        return Err((Class::WrongContext, format!("'{name}' can't be used for '{event}' events; leave it out")));
    }
    if is_guard && !in_guard {
        return Err((Class::NotInGuard, format!("'{name}' has an effect and can't be a guard; move it to the body")));
    }
    Ok(())
}

type Special = (Function, &'static [usize], Option<Events>, bool);

/// Functions with rules of their own: the numbers of arguments, the events (`None`: any program), and whether it is allowed in
/// guards.
fn special(name: &str) -> Option<Special> {
    use Events::{All, Calls, CallsAndSends as Sends};
    use Function as F;
    let (function, arities, events, in_guard): (F, &[usize], _, _) = match name {
        "self" => (F::Me, &[0], None, true),
        "is_instance" => (F::IsInstance, &[2], None, true),
        "attr" => (F::Attr, &[2], None, true),
        "arg" => (F::Arg, &[1], None, true),
        "message" => (F::Message, &[1], Some(All), false),
        "return_trace" => (F::ReturnTrace, &[0], Some(All), false),
        "exception_trace" => (F::ExceptionTrace, &[0], Some(All), false),
        "display" => (F::Display, &[1], Some(All), false),
        "caller" => (F::Caller, &[0], Some(Calls), false),
        "caller_line" => (F::CallerLine, &[0], Some(Calls), false),
        "current_stacktrace" => (F::Stacktrace, &[0, 1], Some(Calls), false),
        "process_dump" => (F::ProcessDump, &[0], Some(Sends), false),
        "dump" => (F::Dump, &[0], Some(All), false),
        "is_seq_trace" => (F::IsSeqTrace, &[0], Some(Sends), true),
        "get_seq_token" => (F::GetSeqToken, &[0], Some(Sends), false),
        "set_seq_token" => (F::SetSeqToken, &[2], Some(Sends), false),
        "silent" => (F::Silent, &[1], Some(Sends), false),
        "enable_trace" => (F::EnableTrace, &[1, 2], Some(Sends), false),
        "disable_trace" => (F::DisableTrace, &[1, 2], Some(Sends), false),
        "trace" => (F::Trace, &[2, 3], Some(Sends), false),
        _ => return None,
    };
    Some((function, arities, events, in_guard))
}

/// Functions with any number of arguments but at least one.
fn strict(name: &str) -> Option<Function> {
    Some(match name {
        "and" => Function::And,
        "or" => Function::Or,
        "andalso" | "andthen" => Function::AndAlso,
        "orelse" => Function::OrElse,
        _ => return None,
    })
}

/// Functions by name and number of arguments.
// more than 60 lines: one line for each function
fn plain(name: &str, arity: usize) -> Option<Function> {
    use Function as F;
    Some(match (name, arity) {
        ("is_atom", 1) => F::Is(Type::Atom),
        ("is_boolean", 1) => F::Is(Type::Boolean),
        ("is_float", 1) => F::Is(Type::Float),
        ("is_integer", 1) => F::Is(Type::Integer),
        ("is_list", 1) => F::Is(Type::List),
        ("is_number", 1) => F::Is(Type::Number),
        ("is_pid", 1) => F::Is(Type::Pid),
        ("is_port", 1) => F::Is(Type::Port),
        ("is_reference", 1) => F::Is(Type::Reference),
        ("is_tuple", 1) => F::Is(Type::Tuple),
        ("is_map", 1) => F::Is(Type::Map),
        ("is_binary", 1) => F::Is(Type::Binary),
        ("is_bitstring", 1) => F::Is(Type::Bitstring),
        ("is_function", 1) => F::Is(Type::Function),
        ("is_function", 2) => F::IsFunction2,
        ("is_integer", 3) => F::IsInteger3,
        ("is_record", 3) => F::IsRecord,
        ("<", 2) => F::Compare(Comparison::Less),
        ("=<", 2) => F::Compare(Comparison::LessOrEqual),
        (">", 2) => F::Compare(Comparison::Greater),
        (">=", 2) => F::Compare(Comparison::GreaterOrEqual),
        ("==", 2) => F::Compare(Comparison::Equal),
        ("/=", 2) => F::Compare(Comparison::NotEqual),
        ("=:=", 2) => F::Compare(Comparison::Same),
        ("=/=", 2) => F::Compare(Comparison::NotSame),
        ("+", 1) => F::Unary(UnaryOp::Plus),
        ("-", 1) => F::Unary(UnaryOp::Minus),
        ("bnot", 1) => F::Unary(UnaryOp::Bnot),
        ("abs", 1) => F::Unary(UnaryOp::Abs),
        ("round", 1) => F::Unary(UnaryOp::Round),
        ("trunc", 1) => F::Unary(UnaryOp::Trunc),
        ("floor", 1) => F::Unary(UnaryOp::Floor),
        ("ceil", 1) => F::Unary(UnaryOp::Ceil),
        ("float", 1) => F::Unary(UnaryOp::Float),
        ("+", 2) => F::Binary(BinaryOp::Add),
        ("-", 2) => F::Binary(BinaryOp::Subtract),
        ("*", 2) => F::Binary(BinaryOp::Multiply),
        ("/", 2) => F::Binary(BinaryOp::Divide),
        ("div", 2) => F::Binary(BinaryOp::Div),
        ("rem", 2) => F::Binary(BinaryOp::Rem),
        ("band", 2) => F::Binary(BinaryOp::Band),
        ("bor", 2) => F::Binary(BinaryOp::Bor),
        ("bxor", 2) => F::Binary(BinaryOp::Bxor),
        ("bsl", 2) => F::Binary(BinaryOp::Bsl),
        ("bsr", 2) => F::Binary(BinaryOp::Bsr),
        ("min", 2) => F::Min,
        ("max", 2) => F::Max,
        ("not", 1) => F::Not,
        ("xor", 2) => F::Xor,
        ("element", 2) => F::Element,
        ("hd", 1) => F::Hd,
        ("tl", 1) => F::Tl,
        ("length", 1) => F::Length,
        ("size", 1) => F::Size,
        ("byte_size", 1) => F::ByteSize,
        ("bit_size", 1) => F::BitSize,
        ("tuple_size", 1) => F::TupleSize,
        ("map_size", 1) => F::MapSize,
        ("map_get", 2) => F::MapGet,
        ("is_map_key", 2) => F::IsMapKey,
        ("binary_part", 2 | 3) => F::BinaryPart,
        ("node", 0) => F::Node,
        ("node", 1) => F::NodeOf,
        ("get_tcw", 0) => F::GetTcw,
        ("set_tcw" | "set_tcw_fake", 1) => F::SetTcw,
        _ => return None,
    })
}
