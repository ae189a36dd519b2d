//! The instructions of a compiled program, their operands and patterns.
#![forbid(unsafe_code)]

use crate::ast::{Comparison, Function, Type};

/// The place of an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Src {
    /// A small integer in the instruction.
    Int(i32),
    /// A constant.
    Const(u32),
    /// A register.
    Reg(u32),
    /// An argument.
    Arg(u32),
    /// The list of the arguments from this one on.
    Args(u32),
}

/// An instruction. A test that fails jumps to the next clause.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// The beginning of a clause for `least` to `most` arguments. The next clause is at `next`.
    Clause { next: u32, least: u32, most: u32 },
    /// Tests an argument against a pattern.
    Match { arg: u32, pattern: u32 },
    /// Tests whether an argument is this integer.
    IsInt { arg: u32, value: i64 },
    /// Tests whether an argument is this atom.
    IsAtom { arg: u32, konst: u32 },
    /// A guard: compares an argument with an integer.
    ArgInt { with: Comparison, arg: u32, value: i32 },
    /// A guard: tests the type of an argument.
    ArgType { of: Type, arg: u32 },
    /// A guard: tests a type.
    TestType { of: Type, src: Src },
    /// A guard: compares with an integer.
    TestInt { with: Comparison, src: Src, value: i32 },
    /// A guard: compares two operands.
    TestCompare { with: Comparison, a: Src, b: Src },
    /// Any other guard.
    TestTrue { src: Src },
    /// A guard that is never true.
    Fail,
    /// The beginning of the body. A failure after it is `'EXIT'`.
    Body,
    /// Copies an operand to a register.
    Move { to: u32, src: Src },
    /// Calls a function. Its operands begin at `at`.
    Call { function: Function, to: u32, at: u32 },
    /// Builds a tuple of the registers from `at` on.
    Tuple { to: u32, at: u32, len: u32 },
    /// Builds a list of the registers from `at` on.
    List { to: u32, at: u32, len: u32 },
    /// The same with the tail in the register after them.
    Cons { to: u32, at: u32, len: u32 },
    /// Builds a map of the pairs of registers from `at` on. `distinct`: the keys are known to be distinct.
    Map { to: u32, at: u32, len: u32, distinct: bool },
    /// `and`, or `or`, of the registers from `at` on.
    All { to: u32, at: u32, len: u32, or: bool },
    /// A part of `andalso` or `orelse` before the last one. It may end the evaluation.
    Either { to: u32, src: Src, or: bool, end: u32 },
    /// The last expression of a table program.
    Result { src: Src },
    /// The clause matches.
    Done,
    /// No clause matches.
    NoMatch,
}

/// A pattern. Its parts are in [`Program::patterns`](crate::Program).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pat {
    Any,
    Bind(u32),
    Same(Src),
    Int(i64),
    Const(u32),
    Tuple {
        at: u32,
        len: u32,
    },
    /// The tail is at `at + len`.
    List {
        at: u32,
        len: u32,
        has_tail: bool,
    },
    /// Keys and values in turn. The keys are `Const`.
    Map {
        at: u32,
        len: u32,
    },
}
