//! Tracer modules that are shared libraries: `inviso_tracer.h` describes their contents.
//!
//! # Roles
//! Traced threads call the library's functions. An attached thread loads it, upgrades it and unloads it.
//!
//! # States
//! Loaded, upgraded (another library has taken its place), unloaded. A running callback keeps its own library loaded
//! until it has returned. The unloading thread waits for the callbacks of other threads. In a forked child it waits
//! only for the child's own, since those threads are gone. A tracer whose library is gone counts as a dead one.
//!
//! # Orderings
//! A callback enters under the read lock and is counted in `inside` with `AcqRel`. The place is emptied under the write
//! lock before `inside` is loaded with `Acquire`: a callback that entered is counted, and the others find the place
//! empty.
//!
//! # Checked by
//! `tests/python/test_native_tracer.py`.

use super::{
    match_spec,
    tracer_abi::{Enabled, Env, LibraryTable, Trace, ABI},
};
use crate::{host::forking, state::tracer_module::Installed};
use inviso_core::host::{
    sync::Unpoisoned,
    tracer::{self, Answer, Event, Group, Tracer},
};
use inviso_term::term::Term;
use pyo3::{exceptions::PyOSError, prelude::*};
use std::{
    ffi::{c_void, CStr, CString, OsStr, OsString},
    ops::Deref,
    os::raw::c_char,
    sync::{
        atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
        Arc, RwLock,
    },
    time::Duration,
};

/// A library that is in memory.
struct Loaded {
    handle: *mut c_void,
    table: &'static LibraryTable,
    data: AtomicPtr<c_void>,
    /// Whether `load` or `upgrade` has accepted it, so that `unload` has to be called.
    begun: bool,
    /// The number of callbacks that are inside. The bits from [`FORK`] on are the number of forks before this process.
    inside: AtomicU64,
    ended: AtomicBool,
}

/// See [`Loaded::inside`].
const FORK: u32 = 32;

// SAFETY: the handle is used once, at the end; the table is only read. The header says that any thread may call the
// library.
unsafe impl Send for Loaded {}
// SAFETY: as for `Send`: the library is called from any thread, and the table is only read.
unsafe impl Sync for Loaded {}

impl Loaded {
    fn has_any_inside(&self) -> bool {
        let word = self.inside.load(Ordering::Acquire);
        word >> FORK == forking::forks() && word as u32 != 0
    }

    /// Ends the library, after the last call.
    fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(unload) = self.table.unload.filter(|_| self.begun) {
            let data = self.data.load(Ordering::Acquire);
            let mut env = Env::new(data);
            // SAFETY: the library is still in memory, and this is the last call into it.
            unsafe { unload(&mut env, data) };
            env.end();
        }
        dynamic::close(self.handle);
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(unix)]
mod dynamic {
    use super::*;
    use std::{fs::File, io::Read, mem::MaybeUninit, os::unix::ffi::OsStrExt};

    /// The part of an ELF header that names the machine.
    type Header = [u8; 20];

    /// Whether the file is a library for another machine. musl's loader doesn't look.
    fn is_foreign(path: &CStr) -> bool {
        let mut its: Header = Default::default();
        let read = File::open(OsStr::from_bytes(path.to_bytes())).and_then(|mut file| file.read_exact(&mut its));
        let mut here = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: fills the local; the base of what this function is in is its header, which stays in memory.
        let own = unsafe {
            if libc::dladdr(is_foreign as *const c_void, here.as_mut_ptr()) == 0 {
                return false;
            }
            here.assume_init().dli_fbase.cast::<Header>().read()
        };
        let is_elf = |header: &Header| header.starts_with(b"\x7fELF");
        // its words' size, the order of their bytes, and the processor
        let machine = |header: &Header| (header[4], header[5], header[18], header[19]);
        read.is_ok() && is_elf(&its) && is_elf(&own) && machine(&its) != machine(&own)
    }

    fn message() -> String {
        // SAFETY: the text is good until this thread's next call of these functions.
        unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                return "no reason given".into();
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    pub fn open(path: &CStr) -> Result<*mut c_void, String> {
        if is_foreign(path) {
            return Err("it is for another machine".into());
        }
        // SAFETY: the path ends with a zero. The library's own code that runs at loading is its author's.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(message());
        }
        Ok(handle)
    }

    pub fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
        // SAFETY: the handle of an open library.
        unsafe { libc::dlsym(handle, name.as_ptr()) }
    }

    pub fn close(handle: *mut c_void) {
        // SAFETY: opened once, closed once.
        unsafe { libc::dlclose(handle) };
    }
}

#[cfg(not(unix))]
mod dynamic {
    use super::*;

    pub fn open(_: &CStr) -> Result<*mut c_void, String> {
        Err("shared libraries are loaded on systems with dlopen only".into())
    }
    pub fn symbol(_: *mut c_void, _: &CStr) -> *mut c_void {
        std::ptr::null_mut()
    }
    pub fn close(_: *mut c_void) {}
}

/// The reason why a library is refused, and the mend.
type Refused = String;

/// Finds and checks a library's table.
fn find(path: &OsStr) -> Result<Loaded, Refused> {
    let name =
        CString::new(path.as_encoded_bytes()).map_err(|_| "the path has a zero in it; pass another".to_string())?;
    let handle = dynamic::open(&name)
        .map_err(|why| format!("can't be loaded ({why}); compile it on this machine with inviso.include_dir()"))?;
    check(handle).inspect_err(|_| dynamic::close(handle))
}

fn check(handle: *mut c_void) -> Result<Loaded, Refused> {
    let entry = dynamic::symbol(handle, c"inviso_tracer_entry");
    if entry.is_null() {
        return Err("has no inviso_tracer_entry; add INVISO_TRACER(table) to it".into());
    }
    // SAFETY: the symbol that the header defines has this type.
    let table = unsafe {
        let entry = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32) -> *const LibraryTable>(entry);
        entry(ABI)
    };
    if table.is_null() {
        return Err(format!("doesn't work with version {ABI} of inviso_tracer.h; get a newer one of it"));
    }
    // SAFETY: a table begins with two words of 32 bits in every version.
    let (abi, size) = unsafe { ((*table).abi, (*table).size as usize) };
    if abi != ABI {
        return Err(format!("was compiled for version {abi} of inviso_tracer.h, and this is {ABI}; compile it again"));
    }
    if size < size_of::<LibraryTable>() {
        let why = format!(
            "has a table of {size} bytes in place of {}; set its size to sizeof(inviso_tracer)",
            size_of::<LibraryTable>()
        );
        return Err(why);
    }
    // SAFETY: the table is of this version and as large as it says; it lives as long as the library, which `Loaded`
    // keeps.
    let table = unsafe { &*table };
    let general = table.pairs[0];
    let missing = [("enabled", general.enabled.is_none()), ("trace", general.trace.is_none())];
    let missing: Vec<&str> = missing.into_iter().filter(|(_, missing)| *missing).map(|(name, _)| name).collect();
    if !missing.is_empty() {
        return Err(format!("has no {}; add what is missing to its table", missing.join(" and no ")));
    }
    let (data, inside, ended) = Default::default();
    Ok(Loaded { handle, table, data, begun: false, inside, ended })
}

fn text(name: *const c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the header says that it ends with a zero; the library is loaded.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// The place of a library, for as long as there is one.
type LibrarySlot = Arc<RwLock<Option<Arc<Loaded>>>>;

/// A library that stays in memory until this is dropped.
struct Inside {
    loaded: Arc<Loaded>,
    forks: u64,
}

impl Deref for Inside {
    type Target = Loaded;

    fn deref(&self) -> &Loaded {
        &self.loaded
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // a callback that came here by a fork was not counted in this process
        let less = |word: u64| (word >> FORK == self.forks).then(|| word - 1);
        let _none_of_this_process = self.loaded.inside.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }
}

/// Enters the library, if there is one.
fn enter(place: &LibrarySlot) -> Option<Inside> {
    // the library is taken away under the lock, and `inside` is looked at after that
    let place = place.read().unpoisoned();
    let (loaded, forks) = (place.as_ref()?.clone(), forking::forks());
    let more = |word: u64| Some(if word >> FORK == forks { word + 1 } else { forks << FORK | 1 });
    let _always_taken = loaded.inside.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
    Some(Inside { loaded, forks })
}

/// Waits until no callback is inside, and ends the library. When a callback calls this, the last one to leave ends it.
fn let_go(py: Python<'_>, old: Arc<Loaded>) {
    if tracer::is_calling() {
        return drop(old);
    }
    py.detach(|| {
        while old.has_any_inside() {
            std::thread::sleep(Duration::from_micros(200));
        }
        old.end();
    });
}

/// A shared library that is a tracer module.
#[pyclass(frozen, module = "inviso._native.trace")]
pub struct Library {
    place: LibrarySlot,
}

#[pymethods]
impl Library {
    /// Loads a library. OSError says what is wrong with it, and the mend.
    #[new]
    fn new(path: OsString, info: &Bound<'_, PyAny>) -> PyResult<Library> {
        let info = match_spec::term_of(info)?;
        let mut loaded = find(&path).map_err(PyOSError::new_err)?;
        if let Some(load) = loaded.table.load {
            let (mut data, mut env) = (std::ptr::null_mut(), Env::new(std::ptr::null_mut()));
            let info = env.lend(&info);
            // SAFETY: a function of the table, with the arguments that the header demands.
            let said = unsafe { load(&mut env, &mut data, info) };
            env.end();
            if said != 0 {
                return Err(PyOSError::new_err(format!("its load() answered {said}; 0 would take it")));
            }
            loaded.data = AtomicPtr::new(data);
        }
        loaded.begun = true;
        Ok(Library { place: Arc::new(RwLock::new(Some(Arc::new(loaded)))) })
    }

    /// The name in its table; None once it has been unloaded.
    #[getter]
    fn name(&self) -> Option<String> {
        enter(&self.place).map(|loaded| text(loaded.table.name))
    }

    /// Puts another library, or a new build, in its place. OSError says why it can't; then nothing has changed.
    fn upgrade(&self, py: Python<'_>, path: OsString, info: &Bound<'_, PyAny>) -> PyResult<()> {
        let info = match_spec::term_of(info)?;
        let Some(old) = enter(&self.place) else {
            return Err(PyOSError::new_err("has been unloaded; load it anew"));
        };
        let mut next = find(&path).map_err(PyOSError::new_err)?;
        if std::ptr::eq(next.table, old.table) {
            return Err(PyOSError::new_err("is the library that is loaded; pass a new build, in a file of its own"));
        }
        let Some(upgrade) = next.table.upgrade else {
            return Err(PyOSError::new_err("has no upgrade(); unload the old one and load this"));
        };
        let (mut data, mut old_data) = (std::ptr::null_mut(), old.data.load(Ordering::Acquire));
        let mut env = Env::new(std::ptr::null_mut());
        let info = env.lend(&info);
        // SAFETY: a function of the table, with the arguments that the header demands.
        let said = unsafe { upgrade(&mut env, &mut data, &mut old_data, info) };
        env.end();
        if said != 0 {
            return Err(PyOSError::new_err(format!("its upgrade() answered {said}; 0 would take it")));
        }
        old.data.store(old_data, Ordering::Release);
        next.data = AtomicPtr::new(data);
        next.begun = true;
        let before = self.place.write().unpoisoned().replace(Arc::new(next));
        drop(old);
        if let Some(before) = before {
            let_go(py, before);
        }
        Ok(())
    }

    /// Unloads the library; False if it was unloaded before. Its tracers are dead from now on.
    fn unload(&self, py: Python<'_>) -> bool {
        let old = self.place.write().unpoisoned().take();
        let was = old.is_some();
        if let Some(old) = old {
            let_go(py, old);
        }
        was
    }
}

impl Library {
    /// The library as a session's tracer, with this state.
    ///
    /// # Errors
    /// TypeError for a state that is not a term.
    pub fn tracing(&self, state: &Bound<'_, PyAny>, installed: &Arc<Installed>) -> PyResult<Tracing> {
        let (place, installed) = (self.place.clone(), installed.clone());
        Ok(Tracing { place, installed, state: match_spec::term_of(state)? })
    }
}

/// A library as the tracer of one session.
pub struct Tracing {
    place: LibrarySlot,
    installed: Arc<Installed>,
    state: Term,
}

impl Tracer for Tracing {
    fn enabled(&self, tag: &'static str, tracee: Option<u64>) -> Answer {
        self.ask(Group::General, tag, tracee)
    }

    fn trace(&self, event: &Event<'_>) {
        self.emit(Group::General, event);
    }

    fn ask(&self, group: Group, tag: &'static str, tracee: Option<u64>) -> Answer {
        // inside until the callback has returned: see `let_go`
        let Some(loaded) = enter(&self.place) else { return Answer::Remove };
        let Some(enabled) = pair(loaded.table, group).0 else { return Answer::Discard };
        let mut env = Env::new(loaded.data.load(Ordering::Acquire));
        let who = tracee.map_or_else(nobody, tracer::identity);
        let (tag, state, who) = (env.own(Term::atom(tag)), env.lend(&self.state), env.own(who));
        // SAFETY: a function of the table, with the arguments that the header demands; the library is held.
        let said = unsafe { enabled(&mut env, tag, state, who) };
        drop(loaded);
        env.end();
        match said {
            0 => Answer::Trace,
            1 => Answer::Discard,
            2 => Answer::Remove,
            _ => {
                self.installed.note_failure();
                Answer::Discard
            }
        }
    }

    fn emit(&self, group: Group, event: &Event<'_>) {
        let Some(loaded) = enter(&self.place) else { return };
        let Some(trace) = pair(loaded.table, group).1 else { return };
        let mut env = Env::new(loaded.data.load(Ordering::Acquire));
        let who = event.label().or_else(|| event.tracee().map(tracer::identity)).unwrap_or_else(nobody);
        let (tag, state, who) = (env.own(Term::atom(event.tag())), env.lend(&self.state), env.own(who));
        let (term, opts) = (env.own(event.term()), env.own(opts(event)));
        // SAFETY: a function of the table, with the arguments that the header demands; the library is held.
        unsafe { trace(&mut env, tag, state, who, term, opts) };
        drop(loaded);
        env.end();
    }
}

fn nobody() -> Term {
    Term::atom("undefined")
}

fn opts(event: &Event<'_>) -> Term {
    let all = [
        ("timestamp", event.timestamp().map(|stamp| Term::atom(stamp.name()))),
        ("extra", event.extra()),
        ("match_spec_result", event.match_spec_result()),
        ("scheduler_id", event.scheduler_id().map(|number| Term::from(i64::from(number)))),
    ];
    Term::Map(all.into_iter().filter_map(|(name, value)| Some((Term::atom(name), value?))).collect())
}

/// The pair of a group; the general one replaces a function that is missing.
fn pair(table: &LibraryTable, group: Group) -> (Option<Enabled>, Option<Trace>) {
    let at = Group::NAMES.iter().position(|(known, _)| *known == group).unwrap_or(0);
    let (own, general) = (table.pairs[at], table.pairs[0]);
    (own.enabled.or(general.enabled), own.trace.or(general.trace))
}
