//! A session's counts for Python: by function and process, or by place in a call tree.

use crate::{convert::pid::Pid, state::host::Host};
use inviso_core::host::{
    cells::{key, Measure, Reading},
    plan::{kinds, Plan},
    session::Session,
    tree::{place_of, UNKNOWN},
};
use pyo3::{exceptions::PyValueError, prelude::*};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A function: module, name, arity, file, line.
type CountedFunction = (String, String, u32, String, i32);

/// What was counted: `(module, function, arity, file, line, pid, calls, amount)`, the amount in nanoseconds or bytes.
pub type Row = (String, String, u32, String, i32, Option<Pid>, u64, u64);

/// Functions, places and the counts there: see [`tree`].
pub type PlaceCounts = (Vec<CountedFunction>, Vec<(i64, i64)>, Vec<(i64, Pid, u64, u64, u64)>);

/// A code object with a counter.
struct Counted {
    code: usize,
    slot: u32,
    name: u32,
    /// The counter's number.
    generation: u32,
}

/// The code objects that have a counter of one kind, and the measure of that kind, if it measures more than calls.
fn counted(host: &Host, session: &Session, kind: &str) -> PyResult<(Vec<Counted>, Option<Measure>)> {
    let (bit, measure) = match kind {
        "call_count" => (kinds::COUNT, None),
        "call_time" => (kinds::TIME, Some(Measure::Time)),
        "call_memory" => (kinds::MEMORY, Some(Measure::Memory)),
        _ => return Err(PyValueError::new_err("kind")),
    };
    let all = host.node.read(|snapshot| {
        let of_session = |(code, plan): (usize, &Arc<Plan>)| {
            let entry = plan.entry(session.id).filter(|entry| entry.has & bit != 0)?;
            let generation = match measure {
                None => entry.count,
                Some(Measure::Time) => entry.time,
                Some(Measure::Memory) => entry.memory,
            };
            Some(Counted { code, slot: plan.slot, name: plan.name, generation })
        };
        snapshot.plans().filter_map(of_session).collect()
    });
    Ok((all, measure))
}

fn function(py: Python<'_>, host: &Host, counted: &Counted) -> Option<CountedFunction> {
    let name = host.node.name(counted.name)?;
    let (file, line) = host.place_of(py, counted.code);
    Some((name.module.to_string(), name.function.to_string(), name.arity, file, line))
}

/// The amount of a measure, in nanoseconds or bytes.
fn amount(host: &Host, measure: Measure, amount: u64) -> u64 {
    match measure {
        Measure::Time => host.node.clock.nanos(amount),
        Measure::Memory => amount,
    }
}

/// All counts of one kind (call_count, call_time, call_memory), one row a code object and process.
///
/// # Errors
/// ValueError: another kind.
pub fn all(py: Python<'_>, host: &Host, session: &Session, kind: &str) -> PyResult<Vec<Row>> {
    let (all, measure) = counted(host, session, kind)?;
    let mut rows = Vec::new();
    let mut row = |counted: &Counted, pid: Option<u64>, calls: u64, amount: u64| {
        if let Some((module, name, arity, file, line)) = function(py, host, counted) {
            rows.push((module, name, arity, file, line, pid.map(Pid::new), calls, amount));
        }
    };
    let Some(measure) = measure else {
        for counted in all {
            let calls = host.node.count(counted.generation);
            if calls > 0 {
                row(&counted, None, calls, 0);
            }
        }
        return Ok(rows);
    };
    let by_key: FxHashMap<(u32, u32), Counted> =
        all.into_iter().map(|counted| ((key(counted.slot, measure), counted.generation), counted)).collect();
    let mut readings = Vec::new();
    session.each_function(|reading| readings.push(reading));
    for reading in readings.into_iter().filter(|reading| reading.count > 0 || reading.amount > 0) {
        if let Some(counted) = by_key.get(&(reading.key, reading.generation)) {
            row(counted, Some(reading.pid), reading.count, amount(host, measure, reading.amount));
        }
    }
    Ok(rows)
}

/// The call tree of one kind (call_time, call_memory). It has the functions; the places, callers first, `(caller's
/// place, function)` by their numbers from 0; and the counts, `(place, pid, calls, amount, nanoseconds of waiting)`. A
/// caller is -1 at the root. A function is -1 if it has no counter any more, and -2 if the callers below are not known.
///
/// # Errors
/// ValueError: another kind, or the session keeps no tree.
pub fn tree(py: Python<'_>, host: &Host, session: &Session, kind: &str) -> PyResult<PlaceCounts> {
    let (all, Some(measure)) = counted(host, session, kind)? else { return Err(PyValueError::new_err("kind")) };
    let Some(tree) = session.tree.get() else { return Err(PyValueError::new_err("the session keeps no tree")) };
    // the counts first: the places that are read next include each of theirs
    let mut readings = Vec::new();
    session.arena.each(|reading| readings.push(reading));
    let places = tree.places();
    let used: FxHashSet<u32> = places.iter().map(|place| place.slot).collect();
    let (mut functions, mut numbers) = (Vec::new(), FxHashMap::default());
    for counted in all.iter().filter(|counted| used.contains(&counted.slot)) {
        if let Some(function) = function(py, host, counted) {
            numbers.insert(counted.slot, (functions.len() as i64, counted.generation));
            functions.push(function);
        }
    }
    let is_counted = |r: &Reading| r.count > 0 || r.amount > 0 || r.waited > 0;
    let counted = readings.into_iter().filter(is_counted).filter_map(|reading| {
        let place = place_of(reading.key);
        let (_, generation) = numbers.get(&places.get(place as usize)?.slot)?;
        if reading.generation != *generation || reading.key != key(place, measure) {
            return None;
        }
        let waited = host.node.clock.nanos(reading.waited);
        let amount = amount(host, measure, reading.amount);
        Some((i64::from(place) - 1, Pid::new(reading.pid), reading.count, amount, waited))
    });
    let counted = counted.collect();
    let of = |slot| match slot {
        UNKNOWN => -2,
        slot => numbers.get(&slot).map_or(-1, |(number, _)| *number),
    };
    let places = places.iter().skip(1).map(|place| (i64::from(place.above) - 1, of(place.slot))).collect();
    Ok((functions, places, counted))
}
