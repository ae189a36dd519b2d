//! Parses a term to clauses. Problems are found in Erlang's order.
//!
//! There are two dialects of one source form. In Erlang's, all names are atoms. In Python's, text is [`Term::Str`]: a match
//! variable if it looks like one, an atom in the place of a function or a flag, and text everywhere else.
#![forbid(unsafe_code)]

use crate::{
    ast::{Clause, Expr, Function, Head, Pattern, Rest, Variable},
    lint::{self, Class, Context, Place, Problem, Severity},
    numbers::IMMEDIATE,
};
use inviso_term::{order::exact, term::Term};

/// The deepest nesting.
pub const MAX_DEPTH: usize = 200;

/// The largest number of terms in a specification.
const MAX_TERMS: usize = 1 << 20;

/// Parses the clauses of a specification.
///
/// # Errors
/// All problems of the first clause that has any.
pub fn parse(spec: &Term, context: Context) -> Result<Vec<Clause>, Vec<Problem>> {
    let whole = |class, text: &str| vec![Problem::new(class, text.to_string(), None, Place::Clause)];
    let terms = match spec {
        Term::List(clauses) => clauses,
        Term::ImproperList(..) => {
            return Err(whole(Class::NotAProperList, "a match specification is a proper list; remove its tail"))
        }
        _ => return Err(whole(Class::NotAList, "a match specification is a list of (head, guards, body)")),
    };
    let mut left = MAX_TERMS;
    if !fits(spec, MAX_DEPTH + 3, &mut left) {
        return Err(whole(
            Class::SystemLimit,
            "the match specification is nested too deeply or too large; simplify it",
        ));
    }
    let mut parts = Vec::with_capacity(terms.len());
    for (n, clause) in terms.iter().enumerate() {
        let mut parser = Parser::new(context, n + 1);
        let part = parser.shape(clause);
        parts.push(part.map_err(|()| parser.problems)?);
    }
    let mut clauses = Vec::with_capacity(parts.len());
    for (n, (head, guards, body)) in parts.into_iter().enumerate() {
        let mut parser = Parser::new(context, n + 1);
        let clause = parser.clause(head, guards, body);
        match clause {
            Some(clause) if parser.problems.is_empty() => clauses.push(clause),
            _ => return Err(parser.problems),
        }
    }
    Ok(clauses)
}

/// The number in a match variable's name: `$` and a number without leading zeros.
#[must_use]
pub fn variable(name: &str) -> Option<Variable> {
    let digits = name.strip_prefix('$')?;
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if !is_plain || digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits.parse().ok()
}

impl Problem {
    fn new(class: Class, text: String, clause: Option<usize>, place: Place) -> Problem {
        Problem { severity: Severity::Error, class, text, clause, place }
    }
}

/// Whether no part is nested too deep. It recurses only to the limit.
fn fits(term: &Term, depth: usize, left: &mut usize) -> bool {
    let Some(inner) = depth.checked_sub(1) else { return false };
    *left = left.saturating_sub(1);
    if *left == 0 {
        return false;
    }
    let mut all = |terms: &[Term]| terms.iter().all(|term| fits(term, inner, left));
    match term {
        Term::Tuple(terms) | Term::List(terms) | Term::Set(terms) => all(terms),
        Term::ImproperList(terms, tail) => all(terms) && fits(tail, inner, left),
        Term::Record(record) => record.fields.iter().all(|(_, value)| fits(value, inner, left)),
        Term::Map(pairs) => pairs.iter().all(|(k, v)| fits(k, inner, left) && fits(v, inner, left)),
        _ => true,
    }
}

/// A name, in either dialect.
fn name_of(term: &Term) -> Option<&str> {
    match term {
        Term::Atom(name) => Some(name),
        Term::Str(text) => Some(text),
        _ => None,
    }
}

fn is_wildcard(term: &Term) -> bool {
    name_of(term) == Some("_")
}

fn variable_of(term: &Term) -> Option<Variable> {
    name_of(term).and_then(variable)
}

type Parts<'t> = (&'t Term, &'t Term, &'t Term);

struct Parser {
    context: Context,
    clause: usize,
    place: Place,
    problems: Vec<Problem>,
    variables: Vec<Variable>,
}

impl Parser {
    fn new(context: Context, clause: usize) -> Parser {
        Parser { context, clause, place: Place::Clause, problems: Vec::new(), variables: Vec::new() }
    }

    fn problem(&mut self, class: Class, text: impl Into<String>) {
        self.problems.push(Problem::new(class, text.into(), Some(self.clause), self.place));
    }

    /// The three parts of a clause. The head must be a proper list or one with the tail `'_'`.
    fn shape<'t>(&mut self, clause: &'t Term) -> Result<Parts<'t>, ()> {
        let Term::Tuple(parts) = clause else {
            self.problem(Class::NotAClause, "a clause is a tuple (head, guards, body)");
            return Err(());
        };
        let [head, guards, body] = &parts[..] else {
            let text = format!("a clause is a tuple (head, guards, body), of 3 elements and not {}", parts.len());
            self.problem(Class::NotAClause, text);
            return Err(());
        };
        self.place = Place::Head;
        match head {
            Term::ImproperList(_, tail) if self.context != Context::Table && !is_wildcard(tail) => {
                let text = "a head is a proper list of patterns, or one whose tail is '_'";
                self.problem(Class::NotAProperList, text);
                Err(())
            }
            _ => Ok((head, guards, body)),
        }
    }

    fn clause(&mut self, head: &Term, guards: &Term, body: &Term) -> Option<Clause> {
        self.place = Place::Head;
        // Erlang accepts a tuple of patterns as a list
        let is_list = matches!(head, Term::List(_) | Term::ImproperList(..) | Term::Tuple(_));
        let is_variable = is_wildcard(head) || variable_of(head).is_some();
        if self.context != Context::Table && !is_list && !is_variable {
            self.problem(Class::BadHead, "a head is a list of patterns, one for each argument, or '_' or '$1'");
            return None;
        }
        if let Err((class, text)) = check_keys(head) {
            self.problem(class, text);
            return None;
        }
        let head = self.head(head);
        self.variables.sort_unstable();
        self.variables.dedup();
        let guards = self.expressions(guards, true);
        let body = match body {
            Term::List(some) if !some.is_empty() => self.expressions(body, false),
            Term::ImproperList(..) => self.expressions(body, false),
            _ if self.context == Context::Table => {
                self.place = Place::Body(0);
                self.problem(Class::EmptyBody, "a table program returns its last expression; write at least one");
                Vec::new()
            }
            _ => self.expressions(body, false),
        };
        Some(Clause { head, guards, body, variables: std::mem::take(&mut self.variables) })
    }

    fn head(&mut self, head: &Term) -> Head {
        if self.context == Context::Table {
            return Head::Subject(self.pattern(head));
        }
        match head {
            Term::List(patterns) | Term::Tuple(patterns) => Head::Arguments(self.patterns(patterns), Rest::None),
            Term::ImproperList(patterns, _) => Head::Arguments(self.patterns(patterns), Rest::Any),
            whole => match variable_of(whole) {
                Some(variable) => {
                    self.variables.push(variable);
                    Head::Arguments(Vec::new(), Rest::Variable(variable))
                }
                None => Head::Arguments(Vec::new(), Rest::Any),
            },
        }
    }

    fn patterns(&mut self, terms: &[Term]) -> Vec<Pattern> {
        terms.iter().map(|term| self.pattern(term)).collect()
    }

    fn pattern(&mut self, term: &Term) -> Pattern {
        if is_wildcard(term) {
            return Pattern::Any;
        }
        if let Some(variable) = variable_of(term) {
            self.variables.push(variable);
            return Pattern::Variable(variable);
        }
        let is_const = |patterns: &[Pattern]| patterns.iter().all(|p| matches!(p, Pattern::Const(_)));
        match term {
            Term::Tuple(terms) => {
                let patterns = self.patterns(terms);
                if is_const(&patterns) {
                    return Pattern::Const(term.clone());
                }
                Pattern::Tuple(patterns)
            }
            Term::List(terms) => {
                let patterns = self.patterns(terms);
                if is_const(&patterns) {
                    return Pattern::Const(term.clone());
                }
                Pattern::List(patterns, None)
            }
            Term::ImproperList(terms, tail) => {
                let patterns = self.patterns(terms);
                let tail = self.pattern(tail);
                if is_const(&patterns) && matches!(tail, Pattern::Const(_)) {
                    return Pattern::Const(term.clone());
                }
                Pattern::List(patterns, Some(Box::new(tail)))
            }
            // a map pattern also matches larger maps
            Term::Map(pairs) => {
                Pattern::Map(pairs.iter().map(|(key, value)| (key.clone(), self.pattern(value))).collect())
            }
            other => Pattern::Const(other.clone()),
        }
    }

    fn expressions(&mut self, terms: &Term, is_guard: bool) -> Vec<Expr> {
        let place = |n| if is_guard { Place::Guard(n) } else { Place::Body(n) };
        let (elements, is_proper): (&[Term], _) = match terms {
            Term::List(elements) => (elements, true),
            Term::ImproperList(elements, _) => (elements, false),
            _ => {
                self.place = place(0);
                self.problem(Class::NotAList, "this must be a list of expressions; put it into one");
                return Vec::new();
            }
        };
        let mut expressions = Vec::with_capacity(elements.len());
        for (n, term) in elements.iter().enumerate() {
            self.place = place(n + 1);
            expressions.push(self.expression(term, false));
        }
        if !is_proper {
            self.place = place(0);
            self.problem(Class::NotAProperList, "this must be a proper list of expressions; remove its tail");
        }
        expressions
    }

    fn is_guard(&self) -> bool {
        matches!(self.place, Place::Guard(_))
    }

    /// `names`: whether text is an atom here.
    fn expression(&mut self, term: &Term, names: bool) -> Expr {
        if let Some(name) = name_of(term) {
            return self.named(name, term, names);
        }
        match term {
            Term::Tuple(parts) => match &parts[..] {
                [Term::Tuple(elements)] => self.tuple(elements, names),
                [first, arguments @ ..] if variable_of(first).is_none() => match name_of(first) {
                    Some(name) => self.call(name, arguments, names),
                    None => self.neither(),
                },
                _ => self.neither(),
            },
            Term::List(elements) => {
                let parts: Vec<_> = elements.iter().map(|e| self.expression(e, names)).collect();
                match constants(&parts) {
                    Some(terms) => Expr::Const(Term::List(terms)),
                    None => Expr::List(parts, None),
                }
            }
            Term::ImproperList(elements, tail) => {
                let parts: Vec<_> = elements.iter().map(|e| self.expression(e, names)).collect();
                let tail = self.expression(tail, names);
                match (constants(&parts), tail) {
                    (Some(terms), Expr::Const(tail)) => Expr::Const(joined(terms, tail)),
                    (_, tail) => Expr::List(parts, Some(Box::new(tail))),
                }
            }
            Term::Map(pairs) => self.map(pairs, names),
            other => Expr::Const(other.clone()),
        }
    }

    fn named(&mut self, name: &str, term: &Term, names: bool) -> Expr {
        if let Some(variable) = variable(name) {
            if self.variables.binary_search(&variable).is_err() {
                let text = format!("'{name}' is not in the head; name it there, or write (\"const\", \"{name}\")");
                self.problem(Class::UnboundVariable, text);
            }
            return Expr::Variable(variable);
        }
        match name {
            "$_" => Expr::Whole,
            "$$" => Expr::Bindings,
            "_" => Expr::Const(Term::atom("_")),
            _ => Expr::Const(if names { atoms(term) } else { term.clone() }),
        }
    }

    fn neither(&mut self) -> Expr {
        let text = "a tuple begins with the name of a function; write a tuple value doubled, {{...}} or ((...),)";
        self.problem(Class::NotACallNorATuple, text);
        nothing()
    }

    /// Parses the elements of a tuple, last to first.
    fn backwards(&mut self, terms: &[Term], names: impl Fn(usize) -> bool) -> Vec<Expr> {
        let mut parts: Vec<_> = terms.iter().enumerate().rev().map(|(n, e)| self.expression(e, names(n))).collect();
        parts.reverse();
        parts
    }

    fn tuple(&mut self, elements: &[Term], names: bool) -> Expr {
        let parts = self.backwards(elements, |_| names);
        match constants(&parts) {
            Some(terms) => Expr::Const(Term::Tuple(terms)),
            None => Expr::Tuple(parts),
        }
    }

    /// Parses values before keys, each last to first.
    fn map(&mut self, pairs: &[(Term, Term)], names: bool) -> Expr {
        let mut sorted: Vec<_> = pairs.iter().collect();
        sorted.sort_by(|a, b| exact(&a.0, &b.0));
        let values: Vec<_> = sorted.iter().rev().map(|pair| self.expression(&pair.1, names)).collect();
        let keys: Vec<_> = sorted.iter().rev().map(|pair| self.expression(&pair.0, names)).collect();
        let mut parts: Vec<_> = keys.into_iter().zip(values).collect();
        parts.reverse();
        let is_const = |expr: &Expr| matches!(expr, Expr::Const(_));
        if !parts.iter().all(|(key, value)| is_const(key) && is_const(value)) {
            return Expr::Map(parts);
        }
        let mut map: Vec<(Term, Term)> = Vec::with_capacity(parts.len());
        for (key, value) in parts {
            let (Expr::Const(key), Expr::Const(value)) = (key, value) else { continue };
            // keys that are written differently may be the same: {{a}} and {const, {a}}
            match map.iter_mut().find(|(other, _)| *other == key) {
                Some((_, old)) => *old = value,
                None => map.push((key, value)),
            }
        }
        Expr::Const(Term::Map(map))
    }

    fn call(&mut self, name: &str, arguments: &[Term], names: bool) -> Expr {
        if name == "const" {
            return match arguments {
                [term] => Expr::Const(if names { atoms(term) } else { term.clone() }),
                _ => {
                    let text = format!("'const' takes 1 argument, not {}; write one", arguments.len());
                    self.problem(Class::WrongArity, text);
                    nothing()
                }
            };
        }
        let function = match lint::function(name, arguments.len(), self.context, self.is_guard()) {
            Ok(function) => function,
            Err((class, text)) => {
                self.problem(class, text);
                return nothing();
            }
        };
        match function {
            Function::Stacktrace => return self.stacktrace(arguments),
            Function::Arg | Function::Attr | Function::IsInstance => return self.object(name, function, arguments),
            _ => {}
        }
        let parts = match function {
            Function::AndAlso | Function::OrElse => arguments.iter().map(|a| self.expression(a, false)).collect(),
            _ => self.backwards(arguments, |n| is_name(function, n)),
        };
        Expr::Call(function, parts)
    }

    fn stacktrace(&mut self, arguments: &[Term]) -> Expr {
        // Erlang uses the low 32 bits of a small integer, with their sign
        let depth = |term: &Term| match term {
            Term::Int(n) => i64::try_from(n).ok().filter(|n| IMMEDIATE.contains(n)).map(|n| n as i32),
            _ => None,
        };
        let mut parts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match depth(argument).filter(|depth| *depth >= 0) {
                Some(depth) => parts.push(Expr::Const(Term::from(i64::from(depth)))),
                None => {
                    let text = "'current_stacktrace' takes a number of calls; write an integer";
                    self.problem(Class::BadArgument, text);
                }
            }
        }
        Expr::Call(Function::Stacktrace, parts)
    }

    /// A function that inspects an object. Its last argument is a name that is known at compile time.
    fn object(&mut self, name: &str, function: Function, arguments: &[Term]) -> Expr {
        let Some((last, others)) = arguments.split_last() else { return nothing() };
        let text = match last {
            Term::Tuple(parts) => match &parts[..] {
                [word, text] if name_of(word) == Some("const") => name_of(text),
                _ => None,
            },
            other => name_of(other).filter(|text| variable(text).is_none()),
        };
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            let what = match function {
                Function::IsInstance => "a class, \"module.Class\"",
                Function::Attr => "an attribute",
                _ => "a parameter",
            };
            self.problem(Class::BadArgument, format!("the last argument of '{name}' names {what}; write it as text"));
            return nothing();
        };
        let text = Expr::Const(Term::str(text));
        let mut parts = self.backwards(others, |_| false);
        parts.push(text);
        Expr::Call(function, parts)
    }
}

/// The substitute for an expression with a problem.
fn nothing() -> Expr {
    Expr::Const(Term::List(Vec::new()))
}

/// Whether text as the `n`th argument of a function is a name.
fn is_name(function: Function, n: usize) -> bool {
    match function {
        Function::EnableTrace | Function::DisableTrace | Function::Trace | Function::Silent => true,
        Function::SetSeqToken => n == 0,
        Function::IsRecord => n == 1,
        _ => false,
    }
}

/// Text as an atom, also inside a list or tuple.
fn atoms(term: &Term) -> Term {
    match term {
        Term::Str(text) => Term::atom(text),
        Term::List(terms) => Term::List(terms.iter().map(atoms).collect()),
        Term::Tuple(terms) => Term::Tuple(terms.iter().map(atoms).collect()),
        other => other.clone(),
    }
}

fn constants(parts: &[Expr]) -> Option<Vec<Term>> {
    let term = |expr: &Expr| match expr {
        Expr::Const(term) => Some(term.clone()),
        _ => None,
    };
    parts.iter().map(term).collect()
}

/// A list of the elements and the tail after them.
pub(crate) fn joined(mut elements: Vec<Term>, tail: Term) -> Term {
    match tail {
        Term::List(more) => {
            elements.extend(more);
            Term::List(elements)
        }
        Term::ImproperList(more, tail) => {
            elements.extend(more);
            Term::ImproperList(elements, tail)
        }
        tail if elements.is_empty() => tail,
        tail => Term::ImproperList(elements, Box::new(tail)),
    }
}

/// Checks that keys of maps in a head are constants. It checks nested terms last to first.
fn check_keys(head: &Term) -> Result<(), (Class, String)> {
    match head {
        Term::Tuple(terms) | Term::List(terms) => terms.iter().rev().try_for_each(check_keys),
        Term::ImproperList(terms, tail) => check_keys(tail).and_then(|()| terms.iter().rev().try_for_each(check_keys)),
        Term::Map(pairs) => {
            for (key, _) in pairs {
                if variable_of(key).is_some() {
                    let text = "a key of a map in a head can't be a variable; name the key, or use map_get in a guard";
                    return Err((Class::VariableInMapKey, text.to_string()));
                }
                if is_wildcard(key) {
                    let text = "a key of a map in a head can't be '_'; leave it out, other keys are allowed anyway";
                    return Err((Class::WildcardInMapKey, text.to_string()));
                }
            }
            pairs.iter().rev().try_for_each(|pair| check_keys(&pair.1))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables_are_canonical() {
        assert_eq!(["$0", "$1", "$42", "$100000"].map(variable), [Some(0), Some(1), Some(42), Some(100_000)]);
        for name in ["$", "$01", "$00", "$a", "$-1", "$1a", "$ 1", "$1.0", "$$", "$_", "1", "_", "$9999999999"] {
            assert_eq!(variable(name), None, "{name}");
        }
    }
}
