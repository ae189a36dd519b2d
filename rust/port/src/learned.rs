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
//!
//! # States
//!
//! `COUNT` only grows. A note is kept until `MOST` newer ones exist or a newer note of its pid replaces it.
//!
//! # Checked by
//!
//! The tests below, and `tests/python/test_export_names.py`.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::fork_safe_lock::ForkSafeLock;
use inviso_core::host::plan::Mfa;
use inviso_log::about::{Channel, Function, Item};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex,
    },
};

/// How many notes of tasks and channels are kept: the latest ones. A trace port reads them some milliseconds after their events.
const MOST: usize = 1 << 12;

/// The file and line of a function's source; "" and 0 for a function written in C.
type Source = (Arc<str>, u32);

#[derive(Default)]
struct Notes {
    /// The number of the latest note of each task and channel, by pid.
    latest: Option<HashMap<u64, u64>>,
    /// The notes with their pids, the oldest first.
    items: VecDeque<(u64, Item)>,
    /// The number of the oldest note.
    first: u64,
    functions: Option<HashMap<Arc<Mfa>, Source>>,
}

const NOTHING: Notes = Notes { latest: None, items: VecDeque::new(), first: 0, functions: None };

impl Notes {
    /// The latest note of a task or channel.
    fn of(&self, pid: u64) -> Option<&Item> {
        let number = self.latest.as_ref()?.get(&pid)?;
        self.items.get(usize::try_from(number - self.first).ok()?).map(|(_, item)| item)
    }
}

static NOTES: ForkSafeLock<Notes> = ForkSafeLock::new([const { Mutex::new(NOTHING) }; 16]);

/// How many notes of tasks and channels were written so far.
static COUNT: AtomicU64 = AtomicU64::new(0);

fn note(pid: u64, item: Item) {
    let notes = &mut *NOTES.lock();
    if notes.of(pid) == Some(&item) {
        return;
    }
    let latest = notes.latest.get_or_insert_default();
    let number = notes.first + notes.items.len() as u64;
    latest.insert(pid, number);
    notes.items.push_back((pid, item));
    if notes.items.len() > MOST {
        if let Some((oldest, _)) = notes.items.pop_front() {
            if latest.get(&oldest) == Some(&notes.first) {
                latest.remove(&oldest);
            }
        }
        notes.first += 1;
    }
    COUNT.store(number + 1, Ordering::Release);
}

/// Notes the name of a task.
pub fn task(pid: u64, name: String) {
    note(pid, Item::Task { id: pid, name });
}

/// Notes the properties of a channel.
pub fn channel(pid: u64, about: Channel) {
    note(pid, Item::Channel { id: pid, about });
}

/// Notes functions with the file and line of their source; `None` for a function written in C. List functions of one file one
/// after the other, so that they share the text of its path.
pub fn functions<'a>(all: impl Iterator<Item = (&'a Arc<Mfa>, Option<(String, u32)>)>) {
    let mut file: Arc<str> = "".into();
    let notes = &mut *NOTES.lock();
    let functions = notes.functions.get_or_insert_default();
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

/// How many notes of tasks and channels were written so far.
#[inline]
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Acquire)
}

/// The latest note of a task or channel.
pub(crate) fn process(pid: u64) -> Option<Item> {
    NOTES.lock().of(pid).cloned()
}

/// Calls `each` with the latest note of each wanted pid that was noted after the first `seen` notes. Answers how many notes there
/// are now.
pub(crate) fn since(seen: u64, is_wanted: impl Fn(u64) -> bool, mut each: impl FnMut(&Item)) -> u64 {
    let notes = &*NOTES.lock();
    let skipped = usize::try_from(seen.saturating_sub(notes.first)).unwrap_or(usize::MAX);
    for (number, (pid, item)) in (notes.first..).zip(&notes.items).skip(skipped) {
        if notes.latest.as_ref().and_then(|latest| latest.get(pid)) == Some(&number) && is_wanted(*pid) {
            each(item);
        }
    }
    notes.first + notes.items.len() as u64
}

/// The note of a function.
pub(crate) fn function(name: &Mfa) -> Option<Item> {
    let source = NOTES.lock().functions.as_ref()?.get(name)?.clone();
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
    drop(NOTES.in_child());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes are global to the process, so one test covers them all.
    #[test]
    fn the_latest_note_of_each_of_the_latest_pids_is_kept() {
        let name = |pid| match process(pid) {
            Some(Item::Task { name, .. }) => Some(name),
            _ => None,
        };
        task(5, "first".into());
        task(9, "other".into());
        let seen = count();
        task(9, "other".into());
        assert_eq!(count(), seen, "the same note counts once");
        task(5, "second".into());
        assert_eq!((name(5).as_deref(), name(9).as_deref()), (Some("second"), Some("other")));
        let mut items = Vec::new();
        assert_eq!(since(0, |pid| pid == 5, |item| items.push(item.clone())), count());
        assert_eq!(items, [Item::Task { id: 5, name: "second".into() }], "each pid once, with its latest name");
        since(seen, |pid| pid == 9, |item| panic!("{item:?}"));
        (0..MOST as u64 - 1).for_each(|n| task(4 * n + 1001, "many".into()));
        assert_eq!((name(5).as_deref(), name(9)), (Some("second"), None));
        task(13, "last".into());
        assert_eq!(name(5), None);
        assert_eq!(since(0, |_| true, |_| {}), count());
    }

    #[test]
    fn a_function_has_its_source_or_is_written_in_c() {
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
