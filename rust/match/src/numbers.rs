//! Arithmetic of any size, up to Erlang's limit.
#![forbid(unsafe_code)]

use crate::ast::{Binary, Unary};
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
fn made(n: BigInt) -> Option<Number> {
    match n.to_i64() {
        Some(n) => Some(Int(n)),
        None => (n.bits() <= MAX_BITS).then_some(Big(n)),
    }
}

fn finite(f: f64) -> Option<Number> {
    f.is_finite().then_some(Float(f))
}

fn whole(f: f64) -> Option<Number> {
    BigInt::from_f64(f).and_then(made)
}

/// Arithmetic of one number.
pub(crate) fn unary(with: Unary, a: Number) -> Option<Number> {
    match (with, a) {
        (Unary::Plus, a) => Some(a),
        (Unary::Minus, Int(n)) if n != i64::MIN => Some(Int(-n)),
        (Unary::Minus, Float(f)) => Some(Float(-f)),
        (Unary::Minus, a) => made(-a.integer()?),
        (Unary::Bnot, Int(n)) => Some(Int(!n)),
        (Unary::Bnot, a) => made(-a.integer()? - 1),
        (Unary::Abs, Int(n)) if n != i64::MIN => Some(Int(n.abs())),
        (Unary::Abs, Float(f)) => Some(Float(f.abs())),
        (Unary::Abs, a) => made(a.integer()?.abs()),
        (Unary::Float, a) => a.float().map(Float),
        (Unary::Round, Float(f)) => whole(f.round()),
        (Unary::Trunc, Float(f)) => whole(f.trunc()),
        (Unary::Floor, Float(f)) => whole(f.floor()),
        (Unary::Ceil, Float(f)) => whole(f.ceil()),
        (Unary::Round | Unary::Trunc | Unary::Floor | Unary::Ceil, a) => Some(a),
    }
}

/// Arithmetic of two small integers with a small result.
#[inline]
pub(crate) fn small(with: Binary, a: i64, b: i64) -> Option<i64> {
    match with {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Div => a.checked_div(b),
        Binary::Rem => a.checked_rem(b),
        Binary::Band => Some(a & b),
        Binary::Bor => Some(a | b),
        Binary::Bxor => Some(a ^ b),
        Binary::Divide | Binary::Bsl | Binary::Bsr => None,
    }
}

/// Arithmetic of two numbers.
pub(crate) fn binary(with: Binary, a: Number, b: Number) -> Option<Number> {
    if let (&Int(a), &Int(b)) = (&a, &b) {
        if let Some(n) = small(with, a, b) {
            return Some(Int(n));
        }
    }
    match with {
        Binary::Divide => {
            let (a, b) = (a.float()?, b.float()?);
            return if b == 0.0 { None } else { finite(a / b) };
        }
        Binary::Add | Binary::Subtract | Binary::Multiply if matches!((&a, &b), (Float(_), _) | (_, Float(_))) => {
            let (a, b) = (a.float()?, b.float()?);
            return finite(match with {
                Binary::Add => a + b,
                Binary::Subtract => a - b,
                _ => a * b,
            });
        }
        _ => {}
    }
    let (a, b) = (a.integer()?, b.integer()?);
    match with {
        Binary::Add => made(a + b),
        Binary::Subtract => made(a - b),
        Binary::Multiply if a.bits() + b.bits() > MAX_BITS + 1 => None,
        Binary::Multiply => made(a * b),
        Binary::Div | Binary::Rem if b.is_zero() => None,
        Binary::Div => made(a / b),
        Binary::Rem => made(a % b),
        Binary::Band => made(a & b),
        Binary::Bor => made(a | b),
        Binary::Bxor => made(a ^ b),
        Binary::Bsl => shifted(a, &b, false),
        Binary::Bsr => shifted(a, &b, true),
        Binary::Divide => None,
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
        return made(a >> by);
    }
    let by = by.to_u64().filter(|by| by.saturating_add(a.bits()) <= MAX_BITS)?;
    made(a << by)
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
