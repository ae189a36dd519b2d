//! Names and places of tasks, functions and channels. Traced threads note them; the writers of logs, which run no Python, look them up.
//!
//! # Roles
//!
//! A traced thread notes what it meets before it emits the event. The writer of a log looks the note up when it gets the event.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `COUNT` | the traced thread, `Release`, under the lock | the writer, `Acquire` | the record of an event is published after the note, so a writer that has the record sees the count |
#![forbid(unsafe_code)]

use crate::inherited::Inherited;
use inviso_core::plan::Mfa;
use inviso_log::about::{Channel, Function, Item};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex,
    },
};

/// How many notes of tasks and channels are kept: the latest. A trace port looks them up some milliseconds after their events.
const MOST: usize = 1 << 12;

/// Where a function's source is: file and line; "" and 0 of one written in C.
type Source = (Arc<str>, u32);

#[derive(Default)]
struct Known {
    /// The number of the latest note of each task and channel, by pid.
    latest: Option<HashMap<u64, u64>>,
    /// The notes with their pids, the oldest first.
    notes: VecDeque<(u64, Item)>,
    /// The number of the oldest note.
    first: u64,
    functions: Option<HashMap<Arc<Mfa>, Source>>,
}

const NOTHING: Known = Known { latest: None, notes: VecDeque::new(), first: 0, functions: None };

impl Known {
    /// The latest note of a task or channel.
    fn of(&self, pid: u64) -> Option<&Item> {
        let number = self.latest.as_ref()?.get(&pid)?;
        self.notes.get(usize::try_from(number - self.first).ok()?).map(|(_, item)| item)
    }
}

static KNOWN: Inherited<Known> = Inherited::new([const { Mutex::new(NOTHING) }; 16]);

/// How many notes of tasks and channels there were.
static COUNT: AtomicU64 = AtomicU64::new(0);

fn note(pid: u64, item: Item) {
    let known = &mut *KNOWN.lock();
    if known.of(pid) == Some(&item) {
        return;
    }
    let latest = known.latest.get_or_insert_default();
    let number = known.first + known.notes.len() as u64;
    latest.insert(pid, number);
    known.notes.push_back((pid, item));
    if known.notes.len() > MOST {
        if let Some((oldest, _)) = known.notes.pop_front() {
            if latest.get(&oldest) == Some(&known.first) {
                latest.remove(&oldest);
            }
        }
        known.first += 1;
    }
    COUNT.store(number + 1, Ordering::Release);
}

/// A task has this name from now on.
pub fn task(pid: u64, name: String) {
    note(pid, Item::Task { id: pid, name });
}

/// This is what is known of a channel.
pub fn channel(pid: u64, about: Channel) {
    note(pid, Item::Channel { id: pid, about });
}

/// Functions with the file and line of their source; `None` for a function written in C. Functions of one file should follow each other:
/// they share the text of its path.
pub fn functions<'a>(all: impl Iterator<Item = (&'a Arc<Mfa>, Option<(String, u32)>)>) {
    let mut file: Arc<str> = "".into();
    let known = &mut *KNOWN.lock();
    let functions = known.functions.get_or_insert_default();
    for (name, source) in all {
        let source = match source {
            Some((path, line)) => {
                if *file != *path {
                    file = path.into();
                }
                (file.clone(), line)
            }
            None => ("".into(), 0),
        };
        functions.insert(name.clone(), source);
    }
}

/// How many notes of tasks and channels there were.
#[inline]
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Acquire)
}

/// The latest note of a task or channel.
pub(crate) fn process(pid: u64) -> Option<Item> {
    KNOWN.lock().of(pid).cloned()
}

/// Calls `each` with the latest note of each wanted pid that was noted after the first `seen` notes. Answers how many notes there are now.
pub(crate) fn since(seen: u64, is_wanted: impl Fn(u64) -> bool, mut each: impl FnMut(&Item)) -> u64 {
    let known = &*KNOWN.lock();
    let skipped = usize::try_from(seen.saturating_sub(known.first)).unwrap_or(usize::MAX);
    for (number, (pid, item)) in (known.first..).zip(&known.notes).skip(skipped) {
        if known.latest.as_ref().and_then(|latest| latest.get(pid)) == Some(&number) && is_wanted(*pid) {
            each(item);
        }
    }
    known.first + known.notes.len() as u64
}

/// What is known of a function.
pub(crate) fn function(name: &Mfa) -> Option<Item> {
    let source = KNOWN.lock().functions.as_ref()?.get(name)?.clone();
    Some(Item::Function(Function {
        module: name.module.to_string(),
        name: name.function.to_string(),
        arity: name.arity,
        is_c: source.1 == 0,
        source,
    }))
}

/// In a forked child. If a thread of the parent held the lock, the notes are lost.
pub fn after_fork() {
    drop(KNOWN.in_child());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is noted here is the whole process's, so one test has all of it.
    #[test]
    fn the_latest_note_of_the_latest_ones_is_known() {
        let name = |pid| match process(pid) {
            Some(Item::Task { name, .. }) => Some(name),
            _ => None,
        };
        task(5, "first".into());
        task(9, "other".into());
        let seen = count();
        task(9, "other".into());
        assert_eq!(count(), seen, "nothing new");
        task(5, "second".into());
        assert_eq!((name(5).as_deref(), name(9).as_deref()), (Some("second"), Some("other")));
        let mut told = Vec::new();
        assert_eq!(since(0, |pid| pid == 5, |item| told.push(item.clone())), count());
        assert_eq!(told, [Item::Task { id: 5, name: "second".into() }], "each one once, as it is called now");
        since(seen, |pid| pid == 9, |item| panic!("{item:?}"));
        (0..MOST as u64 - 1).for_each(|n| task(4 * n + 1001, "many".into()));
        assert_eq!((name(5).as_deref(), name(9)), (Some("second"), None));
        task(13, "last".into());
        assert_eq!(name(5), None);
        assert_eq!(since(0, |_| true, |_| {}), count());
    }

    #[test]
    fn a_function_has_its_source_or_is_one_of_c() {
        let name = |function: &str| Arc::new(Mfa { module: "m".into(), function: function.into(), arity: 1 });
        let (f, c) = (name("f"), name("c"));
        functions([(&f, Some(("/m.py".into(), 3))), (&c, None)].into_iter());
        let source = |name: &Mfa| match function(name) {
            Some(Item::Function(Function { is_c, source, .. })) => Some((is_c, source.0.to_string(), source.1)),
            _ => None,
        };
        assert_eq!(source(&f), Some((false, "/m.py".into(), 3)));
        assert_eq!((source(&c), source(&name("g"))), (Some((true, String::new(), 0)), None));
    }
}
