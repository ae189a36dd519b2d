//! The order of values in a running program: Erlang's, without copies.
#![forbid(unsafe_code)]

use crate::{
    ast::Comparison,
    host::Host,
    machine::{Exception, Machine, MachineVal, Val},
    numbers,
    view::{Look, View},
};
use inviso_term::order;
use std::cmp::Ordering::{self, Equal};

/// The deepest nesting in a comparison of two values. A live object may contain itself. The stack may be small, and a level takes
/// about 1 KiB of it.
const MAX_DEPTH: u32 = 128;

/// The largest maps and sets that are compared without sorting a copy of them.
const FEW: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderMode {
    Loose,
    Exact,
}

type Pair<'p, V> = (Val<'p, V>, Val<'p, V>);

impl<'p, 'a, 'h, H, R> Machine<'p, 'a, 'h, H, R>
where
    H: Host<'a>,
    R: AsRef<[Val<'p, H::View>]> + AsMut<[Val<'p, H::View>]>,
{
    /// The value of exactly this key.
    pub(crate) fn find(
        &self, map: MachineVal<'p, 'a, H>, key: MachineVal<'p, 'a, H>, depth: u32,
    ) -> Result<Option<MachineVal<'p, 'a, H>>, Exception> {
        let mut at = 0;
        while let Some((known, value)) = self.pair(map, &mut at) {
            if self.order(known, key, OrderMode::Exact, depth + 1)?.is_eq() {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(crate) fn compare(
        &self, with: Comparison, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>,
    ) -> Result<bool, Exception> {
        let mode = match with {
            Comparison::Same | Comparison::NotSame => OrderMode::Exact,
            _ => OrderMode::Loose,
        };
        Ok(holds(with, self.order(a, b, mode, 0)?))
    }

    pub(crate) fn same(
        &self, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>, depth: u32,
    ) -> Result<bool, Exception> {
        Ok(self.order(a, b, OrderMode::Exact, depth)?.is_eq())
    }

    /// Erlang's order of two values. Values that are nested too deep or too large have no order.
    pub(crate) fn order(
        &self, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>, mode: OrderMode, depth: u32,
    ) -> Result<Ordering, Exception> {
        self.count_work()?;
        let (look_a, look_b) = (self.look(a), self.look(b));
        match (look_a, look_b) {
            (Look::Int(a), Look::Int(b)) => return Ok(a.cmp(&b)),
            (Look::Atom(a), Look::Atom(b)) => return Ok(a.cmp(b)),
            (Look::List(0), Look::List(0)) => return Ok(Equal),
            (Look::Binary(a), Look::Binary(b)) => return Ok(a.compare(b)),
            _ => {}
        }
        let (rank_a, rank_b) = (rank(look_a), rank(look_b));
        if rank_a != rank_b {
            return Ok(rank_a.cmp(&rank_b));
        }
        if rank_a == 0 {
            return self.numbers(a, b, mode);
        }
        if let (Val::View(a), Val::View(b)) = (a, b) {
            if a.is(b) {
                return Ok(Equal);
            }
        }
        if depth >= MAX_DEPTH {
            return Err(Exception);
        }
        match (look_a, look_b) {
            (Look::Tuple(m), Look::Tuple(n)) if m == n => self.elements(a, b, m, mode, depth),
            (Look::Tuple(m), Look::Tuple(n)) => Ok(m.cmp(&n)),
            (Look::Map(m), Look::Map(n)) if m == n => self.maps(a, b, m, mode, depth),
            (Look::Map(m), Look::Map(n)) => Ok(m.cmp(&n)),
            (Look::Set(m), Look::Set(n)) if m == n => self.sets(a, b, m, depth),
            (Look::Set(m), Look::Set(n)) => Ok(m.cmp(&n)),
            (Look::List(m) | Look::Improper(m), Look::List(n) | Look::Improper(n)) => {
                match self.elements(a, b, m.min(n), mode, depth)? {
                    Equal => self.ends(a, b, m.min(n), mode, depth),
                    different => Ok(different),
                }
            }
            _ => Ok(self.leaves(a, b, mode)),
        }
    }

    #[inline(never)]
    fn numbers(
        &self, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>, mode: OrderMode,
    ) -> Result<Ordering, Exception> {
        let (a, b) = (self.as_number(a)?, self.as_number(b)?);
        Ok(if mode == OrderMode::Exact { numbers::exact(&a, &b) } else { numbers::loose(&a, &b) })
    }

    /// Compares values without inspected parts.
    #[inline(never)]
    fn leaves(&self, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>, mode: OrderMode) -> Ordering {
        let (a, b) = (self.copy(a), self.copy(b));
        if mode == OrderMode::Exact {
            order::exact(&a, &b)
        } else {
            order::loose(&a, &b)
        }
    }

    /// Compares two lists without their first elements, where one has no further elements.
    #[inline(never)]
    fn ends(
        &self, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>, n: usize, mode: OrderMode, depth: u32,
    ) -> Result<Ordering, Exception> {
        let (Some(a), Some(b)) = (self.rest(a, self.look(a), n), self.rest(b, self.look(b), n)) else {
            return Err(Exception);
        };
        let (look_a, look_b) = (self.look(a), self.look(b));
        let is_list = |look| matches!(look, Look::List(1..) | Look::Improper(_));
        if is_list(look_a) || is_list(look_b) {
            // a list is no tail, so the types decide
            return Ok(rank(look_a).cmp(&rank(look_b)));
        }
        self.order(a, b, mode, depth + 1)
    }

    fn elements(
        &self, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>, n: usize, mode: OrderMode, depth: u32,
    ) -> Result<Ordering, Exception> {
        for n in 0..n {
            let (Some(a), Some(b)) = (self.element(a, n), self.element(b, n)) else { return Err(Exception) };
            let different = self.order(a, b, mode, depth + 1)?;
            if different.is_ne() {
                return Ok(different);
            }
        }
        Ok(Equal)
    }

    /// Maps of one size: by keys in key order, then by values in that order.
    #[inline(never)]
    fn maps(
        &self, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>, n: usize, mode: OrderMode, depth: u32,
    ) -> Result<Ordering, Exception> {
        let depth = depth + 1;
        let mut first = Equal;
        let mut each = |machine: &Self, (ka, va): Pair<'p, H::View>, (kb, vb): Pair<'p, H::View>| {
            let keys = machine.order(ka, kb, OrderMode::Exact, depth)?;
            if keys.is_eq() && first.is_eq() {
                first = machine.order(va, vb, mode, depth)?;
            }
            Ok(keys)
        };
        let keys = self.in_order(n, |at| self.pair(a, at), |at| self.pair(b, at), &mut each, depth)?;
        Ok(keys.then(first))
    }

    #[inline(never)]
    fn sets(
        &self, a: MachineVal<'p, 'a, H>, b: MachineVal<'p, 'a, H>, n: usize, depth: u32,
    ) -> Result<Ordering, Exception> {
        let depth = depth + 1;
        let mut each = |machine: &Self, (a, _): Pair<'p, H::View>, (b, _): Pair<'p, H::View>| {
            machine.order(a, b, OrderMode::Exact, depth)
        };
        let member = |val, at: &mut usize| self.member(val, at).map(|member| (member, Val::Int(0)));
        self.in_order(n, |at| member(a, at), |at| member(b, at), &mut each, depth)
    }

    /// Compares two collections of `n` in the order of their keys, up to the first difference.
    fn in_order<A, B, F>(&self, n: usize, a: A, b: B, each: &mut F, depth: u32) -> Result<Ordering, Exception>
    where
        A: Fn(&mut usize) -> Option<Pair<'p, H::View>>,
        B: Fn(&mut usize) -> Option<Pair<'p, H::View>>,
        F: FnMut(&Self, Pair<'p, H::View>, Pair<'p, H::View>) -> Result<Ordering, Exception>,
    {
        if n > FEW {
            let (a, b) = (self.sorted(a, depth)?, self.sorted(b, depth)?);
            for (a, b) in a.into_iter().zip(b) {
                let different = each(self, a, b)?;
                if different.is_ne() {
                    return Ok(different);
                }
            }
            return Ok(Equal);
        }
        let (mut last_a, mut last_b) = (None, None);
        for _ in 0..n {
            let (Some(next_a), Some(next_b)) = (self.after(last_a, &a, depth)?, self.after(last_b, &b, depth)?) else {
                return Err(Exception);
            };
            let different = each(self, next_a, next_b)?;
            if different.is_ne() {
                return Ok(different);
            }
            (last_a, last_b) = (Some(next_a.0), Some(next_b.0));
        }
        Ok(Equal)
    }

    /// The pair with the smallest key after this one.
    #[inline(never)]
    fn after(
        &self, last: Option<MachineVal<'p, 'a, H>>, pairs: &impl Fn(&mut usize) -> Option<Pair<'p, H::View>>,
        depth: u32,
    ) -> Result<Option<Pair<'p, H::View>>, Exception> {
        let (mut at, mut best): (_, Option<Pair<'p, H::View>>) = (0, None);
        while let Some(pair) = pairs(&mut at) {
            let is_later = match last {
                Some(last) => self.order(pair.0, last, OrderMode::Exact, depth)?.is_gt(),
                None => true,
            };
            let is_better = match best {
                Some(best) if is_later => self.order(pair.0, best.0, OrderMode::Exact, depth)?.is_lt(),
                _ => is_later,
            };
            if is_better {
                best = Some(pair);
            }
        }
        Ok(best)
    }

    #[cold]
    fn sorted(
        &self, pairs: impl Fn(&mut usize) -> Option<Pair<'p, H::View>>, depth: u32,
    ) -> Result<Vec<Pair<'p, H::View>>, Exception> {
        let (mut all, mut at) = (Vec::new(), 0);
        while let Some(pair) = pairs(&mut at) {
            self.count_work()?;
            all.push(pair);
        }
        let mut failed = false;
        all.sort_by(|a, b| {
            self.order(a.0, b.0, OrderMode::Exact, depth).unwrap_or_else(|Exception| {
                failed = true;
                Equal
            })
        });
        if failed {
            return Err(Exception);
        }
        Ok(all)
    }
}

#[inline(always)]
pub(crate) fn holds(with: Comparison, order: Ordering) -> bool {
    match with {
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
        Comparison::Equal | Comparison::Same => order.is_eq(),
        Comparison::NotEqual | Comparison::NotSame => order.is_ne(),
    }
}

fn rank(look: Look<'_>) -> u8 {
    match look {
        Look::Int(_) | Look::Big | Look::Float(_) => 0,
        Look::Atom(_) => 1,
        Look::Ref => 2,
        Look::Fun(_) => 3,
        Look::Port => 4,
        Look::Pid => 5,
        Look::Tuple(_) => 6,
        Look::Map(_) => 7,
        Look::List(0) => 8,
        Look::List(_) | Look::Improper(_) => 9,
        Look::Binary(_) => 10,
        Look::Set(_) => 11,
        Look::Other => 12,
    }
}
