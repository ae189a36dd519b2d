//! Arithmetic of any size, up to Erlang's limit.
#![forbid(unsafe_code)]

use crate::ast::{BinaryOp, UnaryOp};
use num_bigint::BigInt;
use num_traits::{FromPrimitive, Signed, ToPrimitive, Zero};
use std::{
    cmp::Ordering::{self, Equal, Greater, Less},
    ops::Range,
};

/// The integers that Erlang keeps in one word. Some functions accept only these.
pub(crate) const IMMEDIATE: Range<i64> = -(1 << 59)..1 << 59;

/// The largest computed number, in bits.
const MAX_BITS: u64 = 1 << 22;

/// A number. Functions answer `None` in place of one that can't be computed: an exception.
#[derive(Clone, Debug)]
pub(crate) enum Number {
    Int(i64),
    Big(BigInt),
    Float(f64),
}

use Number::{Big, Float, Int};

impl Number {
    fn float(self) -> Option<f64> {
        let float = match self {
            Int(n) => n as f64,
            Big(n) => n.to_f64()?,
            Float(f) => f,
        };
        float.is_finite().then_some(float)
    }

    fn integer(self) -> Option<BigInt> {
        match self {
            Int(n) => Some(n.into()),
            Big(n) => Some(n),
            Float(_) => None,
        }
    }
}

/// A number in its smallest form; `None` if it is too large.
fn normalized(n: BigInt) -> Option<Number> {
    match n.to_i64() {
        Some(n) => Some(Int(n)),
        None => (n.bits() <= MAX_BITS).then_some(Big(n)),
    }
}

fn finite(f: f64) -> Option<Number> {
    f.is_finite().then_some(Float(f))
}

fn whole(f: f64) -> Option<Number> {
    BigInt::from_f64(f).and_then(normalized)
}

/// Arithmetic of one number.
pub(crate) fn unary(with: UnaryOp, a: Number) -> Option<Number> {
    match (with, a) {
        (UnaryOp::Plus, a) => Some(a),
        (UnaryOp::Minus, Int(n)) if n != i64::MIN => Some(Int(-n)),
        (UnaryOp::Minus, Float(f)) => Some(Float(-f)),
        (UnaryOp::Minus, a) => normalized(-a.integer()?),
        (UnaryOp::Bnot, Int(n)) => Some(Int(!n)),
        (UnaryOp::Bnot, a) => normalized(-a.integer()? - 1),
        (UnaryOp::Abs, Int(n)) if n != i64::MIN => Some(Int(n.abs())),
        (UnaryOp::Abs, Float(f)) => Some(Float(f.abs())),
        (UnaryOp::Abs, a) => normalized(a.integer()?.abs()),
        (UnaryOp::Float, a) => a.float().map(Float),
        (UnaryOp::Round, Float(f)) => whole(f.round()),
        (UnaryOp::Trunc, Float(f)) => whole(f.trunc()),
        (UnaryOp::Floor, Float(f)) => whole(f.floor()),
        (UnaryOp::Ceil, Float(f)) => whole(f.ceil()),
        (UnaryOp::Round | UnaryOp::Trunc | UnaryOp::Floor | UnaryOp::Ceil, a) => Some(a),
    }
}

/// Arithmetic of two small integers with a small result.
#[inline]
pub(crate) fn small(with: BinaryOp, a: i64, b: i64) -> Option<i64> {
    match with {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Rem => a.checked_rem(b),
        BinaryOp::Band => Some(a & b),
        BinaryOp::Bor => Some(a | b),
        BinaryOp::Bxor => Some(a ^ b),
        BinaryOp::Divide | BinaryOp::Bsl | BinaryOp::Bsr => None,
    }
}

/// Arithmetic of two numbers.
pub(crate) fn binary(with: BinaryOp, a: Number, b: Number) -> Option<Number> {
    if let (&Int(a), &Int(b)) = (&a, &b) {
        if let Some(n) = small(with, a, b) {
            return Some(Int(n));
        }
    }
    match with {
        BinaryOp::Divide => {
            let (a, b) = (a.float()?, b.float()?);
            return if b == 0.0 { None } else { finite(a / b) };
        }
        BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply
            if matches!((&a, &b), (Float(_), _) | (_, Float(_))) =>
        {
            let (a, b) = (a.float()?, b.float()?);
            return finite(match with {
                BinaryOp::Add => a + b,
                BinaryOp::Subtract => a - b,
                _ => a * b,
            });
        }
        _ => {}
    }
    let (a, b) = (a.integer()?, b.integer()?);
    match with {
        BinaryOp::Add => normalized(a + b),
        BinaryOp::Subtract => normalized(a - b),
        BinaryOp::Multiply if a.bits() + b.bits() > MAX_BITS + 1 => None,
        BinaryOp::Multiply => normalized(a * b),
        BinaryOp::Div | BinaryOp::Rem if b.is_zero() => None,
        BinaryOp::Div => normalized(a / b),
        BinaryOp::Rem => normalized(a % b),
        BinaryOp::Band => normalized(a & b),
        BinaryOp::Bor => normalized(a | b),
        BinaryOp::Bxor => normalized(a ^ b),
        BinaryOp::Bsl => shifted(a, &b, false),
        BinaryOp::Bsr => shifted(a, &b, true),
        BinaryOp::Divide => None,
    }
}

fn shifted(a: BigInt, by: &BigInt, right: bool) -> Option<Number> {
    if a.is_zero() {
        return Some(Int(0));
    }
    let by = if right { -by } else { by.clone() };
    if by.is_negative() {
        // a shift of all bits leaves the sign
        let all = a.bits() + 1;
        let by = (-by).to_u64().unwrap_or(all).min(all);
        return normalized(a >> by);
    }
    let by = by.to_u64().filter(|by| by.saturating_add(a.bits()) <= MAX_BITS)?;
    normalized(a << by)
}

/// By value, without rounding. A NaN comes after all numbers.
pub(crate) fn loose(a: &Number, b: &Number) -> Ordering {
    match (a, b) {
        (Int(a), Int(b)) => a.cmp(b),
        (Float(a), Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        (Int(a), Float(b)) => int_float(*a, *b),
        (Float(a), Int(b)) => int_float(*b, *a).reverse(),
        (Big(a), Float(b)) => big_float(a, *b),
        (Float(a), Big(b)) => big_float(b, *a).reverse(),
        (Big(a), Big(b)) => a.cmp(b),
        (Big(a), Int(_)) => sign(a),
        (Int(_), Big(b)) => sign(b).reverse(),
    }
}

/// As [`loose`], but every integer comes before every float, and -0.0 before 0.0.
pub(crate) fn exact(a: &Number, b: &Number) -> Ordering {
    match (a, b) {
        (Float(a), Float(b)) => a.is_nan().cmp(&b.is_nan()).then_with(|| a.total_cmp(b)),
        (Float(_), _) => Greater,
        (_, Float(_)) => Less,
        _ => loose(a, b),
    }
}

/// The order of an integer of more than 64 bits and any smaller number.
fn sign(big: &BigInt) -> Ordering {
    if big.is_negative() {
        Less
    } else {
        Greater
    }
}

fn int_float(int: i64, float: f64) -> Ordering {
    const LIMIT: f64 = (1u64 << 63) as f64;
    if float.is_nan() || float >= LIMIT {
        return Less;
    }
    if float < -LIMIT {
        return Greater;
    }
    let whole = float.trunc();
    int.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&float).unwrap_or(Equal))
}

fn big_float(big: &BigInt, float: f64) -> Ordering {
    match BigInt::from_f64(float.trunc()) {
        Some(whole) => big.cmp(&whole).then_with(|| float.trunc().partial_cmp(&float).unwrap_or(Equal)),
        None if float == f64::NEG_INFINITY => Greater,
        None => Less,
    }
}
