//! The tables of `inviso_tracer.h`, and the host's functions: terms by handle, in an arena that lives as long as one
//! callback.

use crate::state::{
    host,
    mailbox::{Mailbox, Posted},
};
use inviso_cpython::interpreter::tls;
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use num_bigint::BigInt;
use pyo3::{PyErr, Python};
use std::{
    ffi::{c_char, c_int, c_void, CStr},
    marker::PhantomData,
    ptr, slice,
    sync::Arc,
};

/// `INVISO_TRACER_ABI`.
pub const ABI: u32 = 1;

/// A term's place in the arena, plus 1; 0 for no term.
pub type Handle = u64;

/// `inviso_pid`.
#[repr(C)]
pub struct PidNumber {
    number: u64,
}

/// `inviso_enabled`.
pub type Enabled = unsafe extern "C" fn(*mut Env<'_>, Handle, Handle, Handle) -> c_int;
/// `inviso_trace`.
pub type Trace = unsafe extern "C" fn(*mut Env<'_>, Handle, Handle, Handle, Handle, Handle);

/// `inviso_tracer`: the table of a library. The pairs are in the order of the core's groups.
#[repr(C)]
pub struct LibraryTable {
    /// See [`ABI`].
    pub abi: u32,
    /// Bytes of the library's table.
    pub size: u32,
    /// The text ends with a zero.
    pub name: *const c_char,
    /// Returns 0 on success, as the next one does.
    pub load: Option<unsafe extern "C" fn(*mut Env<'_>, *mut *mut c_void, Handle) -> c_int>,
    /// Called in place of `load` when it replaces another library.
    pub upgrade: Option<unsafe extern "C" fn(*mut Env<'_>, *mut *mut c_void, *mut *mut c_void, Handle) -> c_int>,
    /// Called at the end.
    pub unload: Option<unsafe extern "C" fn(*mut Env<'_>, *mut c_void)>,
    /// The general pair first.
    pub pairs: [AbiCallbacks; 9],
}

/// `enabled` and `trace`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AbiCallbacks {
    /// May be missing except in the first pair.
    pub enabled: Option<Enabled>,
    /// May be missing except in the first pair.
    pub trace: Option<Trace>,
}

/// `inviso_host`.
#[repr(C)]
pub struct HostTable {
    abi: u32,
    size: u32,
    kind: unsafe extern "C" fn(*mut Env<'_>, Handle) -> c_int,
    is_identical: unsafe extern "C" fn(*mut Env<'_>, Handle, Handle) -> c_int,
    get_int: unsafe extern "C" fn(*mut Env<'_>, Handle, *mut i64) -> c_int,
    get_float: unsafe extern "C" fn(*mut Env<'_>, Handle, *mut f64) -> c_int,
    get_text: unsafe extern "C" fn(*mut Env<'_>, Handle, *mut *const u8, *mut usize) -> c_int,
    get_length: unsafe extern "C" fn(*mut Env<'_>, Handle, *mut usize) -> c_int,
    get_element: unsafe extern "C" fn(*mut Env<'_>, Handle, usize) -> Handle,
    get_map_value: unsafe extern "C" fn(*mut Env<'_>, Handle, Handle, *mut Handle) -> c_int,
    get_local_pid: unsafe extern "C" fn(*mut Env<'_>, Handle, *mut PidNumber) -> c_int,
    is_process_alive: unsafe extern "C" fn(*mut Env<'_>, *const PidNumber) -> c_int,
    make_atom: unsafe extern "C" fn(*mut Env<'_>, *const c_char) -> Handle,
    make_int: unsafe extern "C" fn(*mut Env<'_>, i64) -> Handle,
    make_float: unsafe extern "C" fn(*mut Env<'_>, f64) -> Handle,
    make_str: unsafe extern "C" fn(*mut Env<'_>, *const u8, usize) -> Handle,
    make_bytes: unsafe extern "C" fn(*mut Env<'_>, *const u8, usize) -> Handle,
    make_tuple: unsafe extern "C" fn(*mut Env<'_>, *const Handle, usize) -> Handle,
    make_list: unsafe extern "C" fn(*mut Env<'_>, *const Handle, usize) -> Handle,
    make_map: unsafe extern "C" fn(*mut Env<'_>, *const Handle, *const Handle, usize) -> Handle,
    make_pid: unsafe extern "C" fn(*mut Env<'_>, *const PidNumber) -> Handle,
    send: unsafe extern "C" fn(*mut Env<'_>, *const PidNumber, Handle) -> c_int,
}

static HOST: HostTable = HostTable {
    abi: ABI,
    size: size_of::<HostTable>() as u32,
    kind,
    is_identical,
    get_int,
    get_float,
    get_text,
    get_length,
    get_element,
    get_map_value,
    get_local_pid,
    is_process_alive,
    make_atom,
    make_int,
    make_float,
    make_str,
    make_bytes,
    make_tuple,
    make_list,
    make_map,
    make_pid,
    send,
};

/// `inviso_env`, and the terms of one callback. C sees the first two fields.
#[repr(C)]
pub struct Env<'a> {
    host: &'static HostTable,
    priv_data: *mut c_void,
    terms: Vec<CallbackSlot<'a>>,
    /// The mailboxes whose waiters have to be called.
    sent_to: Vec<Arc<Mailbox>>,
    /// It belongs to one thread: a callback passes it to no other.
    state: PhantomData<*mut ()>,
}

enum CallbackSlot<'a> {
    Lent(&'a Term),
    /// With an upper bound of its nesting.
    Own(Box<Term>, usize),
}

/// The deepest nesting of a term that a callback makes; a deeper one is cut to what can be sent. Copies and comparisons
/// take stack for each level.
const DEEPEST: usize = 2 * etf::MAX_DEPTH;

impl<'a> Env<'a> {
    /// An environment without terms.
    pub fn new(priv_data: *mut c_void) -> Env<'a> {
        Env { host: &HOST, priv_data, terms: Vec::with_capacity(16), sent_to: Vec::new(), state: PhantomData }
    }

    /// Adds a term that stands as long as this.
    pub fn lend(&mut self, term: &'a Term) -> Handle {
        self.put(CallbackSlot::Lent(term))
    }

    /// Adds a term of its own, which can be sent as it is.
    pub fn own(&mut self, term: Term) -> Handle {
        self.nest(term, etf::MAX_DEPTH)
    }

    /// Adds a term of its own that nests at most so deep.
    fn nest(&mut self, mut term: Term, depth: usize) -> Handle {
        let fits = depth <= DEEPEST;
        if !fits {
            cut(&mut term, etf::MAX_DEPTH);
        }
        self.put(CallbackSlot::Own(Box::new(term), if fits { depth } else { etf::MAX_DEPTH }))
    }

    /// The callback has returned: calls the waiters of the mailboxes that it has sent to.
    pub fn end(self) {
        if !self.sent_to.is_empty() {
            attached(|py| self.sent_to.iter().for_each(|mailbox| mailbox.notify_waiters(py)));
        }
    }

    fn put(&mut self, slot: CallbackSlot<'a>) -> Handle {
        self.terms.push(slot);
        self.terms.len() as Handle
    }

    fn get(&self, handle: Handle) -> Option<&Term> {
        match self.terms.get(usize::try_from(handle).ok()?.checked_sub(1)?)? {
            CallbackSlot::Lent(term) => Some(term),
            CallbackSlot::Own(term, _) => Some(term),
        }
    }

    /// The terms of an array of handles, and the nesting of a term that contains them; `None` if a handle has no term.
    ///
    /// # Safety
    /// `handles` points to `n` handles, or `n` is 0.
    unsafe fn all(&self, handles: *const Handle, n: usize) -> Option<(Vec<Term>, usize)> {
        if n == 0 {
            return Some((Vec::new(), 1));
        }
        // SAFETY: the caller promises that `handles` points to `n` handles, or `n` is 0.
        let handles = unsafe { slice::from_raw_parts(handles, n) };
        let terms: Option<Vec<Term>> = handles.iter().map(|handle| self.get(*handle).cloned()).collect();
        let depth = handles.iter().map(|handle| self.depth(*handle)).max();
        Some((terms?, 1 + depth.unwrap_or(0)))
    }

    /// An upper bound of a term's nesting.
    fn depth(&self, handle: Handle) -> usize {
        match usize::try_from(handle).ok().and_then(|handle| self.terms.get(handle.checked_sub(1)?)) {
            Some(CallbackSlot::Own(_, depth)) => *depth,
            _ => etf::MAX_DEPTH,
        }
    }
}

/// Cuts off parts that nest more than `levels` deep.
fn cut(term: &mut Term, levels: usize) {
    let has_parts = matches!(term, Term::Tuple(_) | Term::List(_) | Term::Map(_));
    let Some(inner) = levels.checked_sub(1).filter(|_| has_parts) else {
        if has_parts {
            *term = Term::Cut("depth".into());
        }
        return;
    };
    match term {
        Term::Tuple(terms) | Term::List(terms) => terms.iter_mut().for_each(|term| cut(term, inner)),
        Term::Map(pairs) => pairs.iter_mut().flat_map(|(key, value)| [key, value]).for_each(|term| cut(term, inner)),
        _ => (),
    }
}

/// Runs `with` on an environment that C has passed back; does nothing if it is null.
///
/// # Safety
/// `env` is null, or the argument of the callback that is running.
unsafe fn within<'e, 'a, R: Default>(env: *mut Env<'a>, with: impl FnOnce(&'e mut Env<'a>) -> Option<R>) -> R
where
    'a: 'e,
{
    // SAFETY: the caller promises the running callback's `env`; nothing else uses it while the callback runs.
    unsafe { env.as_mut() }.and_then(with).unwrap_or_default()
}

/// Writes a result for C; 1.
///
/// # Safety
/// `place` is null, or may be written to.
unsafe fn put<T>(place: *mut T, value: T) -> Option<c_int> {
    if place.is_null() {
        return None;
    }
    // SAFETY: the caller promises that `place` is null, or may be written to.
    unsafe { ptr::write(place, value) };
    Some(1)
}

/// The `inviso_kind` of a term; 0 without one.
///
/// # Safety
/// As [`within`].
unsafe extern "C" fn kind(env: *mut Env<'_>, term: Handle) -> c_int {
    // SAFETY: the caller promises the running callback's `env`.
    unsafe {
        within(env, |env| {
            Some(match env.get(term)? {
                Term::Int(n) if i64::try_from(n).is_ok() => 1,
                Term::Int(_) => 2,
                Term::Float(_) => 3,
                Term::Atom(_) => 4,
                Term::Str(_) => 5,
                Term::Bytes(_) => 6,
                Term::Tuple(_) => 7,
                Term::List(_) => 8,
                Term::Map(_) => 9,
                Term::Pid(_) => 10,
                Term::Port(_) => 11,
                Term::Ref(_) => 12,
                _ => 13,
            })
        })
    }
}

/// Whether two terms are equal, exactly.
///
/// # Safety
/// As [`within`].
unsafe extern "C" fn is_identical(env: *mut Env<'_>, one: Handle, other: Handle) -> c_int {
    // SAFETY: the caller promises the running callback's `env`.
    unsafe { within(env, |env| Some(c_int::from(env.get(one)? == env.get(other)?))) }
}

/// The value of an int within 64 bits.
///
/// # Safety
/// As [`within`], and `value` as the place of [`put`].
unsafe extern "C" fn get_int(env: *mut Env<'_>, term: Handle, value: *mut i64) -> c_int {
    // SAFETY: the caller promises the running callback's `env`, and a place that is null or may be written to.
    unsafe {
        within(env, |env| match env.get(term)? {
            Term::Int(n) => put(value, i64::try_from(n).ok()?),
            _ => None,
        })
    }
}

/// The value of a float.
///
/// # Safety
/// As [`within`], and `value` as the place of [`put`].
unsafe extern "C" fn get_float(env: *mut Env<'_>, term: Handle, value: *mut f64) -> c_int {
    // SAFETY: the caller promises the running callback's `env`, and a place that is null or may be written to.
    unsafe {
        within(env, |env| match env.get(term)? {
            Term::Float(number) => put(value, *number),
            _ => None,
        })
    }
}

/// The bytes of an atom, a str or bytes: their address, and their number.
///
/// # Safety
/// As [`within`], and `text` and `length` as the place of [`put`].
unsafe extern "C" fn get_text(env: *mut Env<'_>, term: Handle, text: *mut *const u8, length: *mut usize) -> c_int {
    // SAFETY: the caller promises the running callback's `env`, and places that are null or may be written to. The
    // term's bytes stay where they are until the callback returns.
    unsafe {
        within(env, |env| {
            let bytes: &[u8] = match env.get(term)? {
                Term::Atom(name) => name.as_bytes(),
                Term::Str(text) => text.as_bytes(),
                Term::Bytes(bytes) => bytes,
                _ => return None,
            };
            put(text, bytes.as_ptr())?;
            put(length, bytes.len())
        })
    }
}

/// The number of elements of a tuple, a list or a map.
///
/// # Safety
/// As [`within`], and `length` as the place of [`put`].
unsafe extern "C" fn get_length(env: *mut Env<'_>, term: Handle, length: *mut usize) -> c_int {
    // SAFETY: the caller promises the running callback's `env`, and a place that is null or may be written to.
    unsafe {
        within(env, |env| match env.get(term)? {
            Term::Tuple(terms) | Term::List(terms) => put(length, terms.len()),
            Term::Map(pairs) => put(length, pairs.len()),
            _ => None,
        })
    }
}

/// An element of a tuple or a list, from 0; 0 beyond its end.
///
/// # Safety
/// As [`within`].
unsafe extern "C" fn get_element(env: *mut Env<'_>, term: Handle, n: usize) -> Handle {
    // SAFETY: the caller promises the running callback's `env`.
    unsafe {
        within(env, |env| {
            let element = match env.get(term)? {
                Term::Tuple(terms) | Term::List(terms) => terms.get(n)?.clone(),
                _ => return None,
            };
            let depth = env.depth(term);
            Some(env.nest(element, depth))
        })
    }
}

/// The value of a key in a map.
///
/// # Safety
/// As [`within`], and `value` as the place of [`put`].
unsafe extern "C" fn get_map_value(env: *mut Env<'_>, map: Handle, key: Handle, value: *mut Handle) -> c_int {
    // SAFETY: the caller promises the running callback's `env`, and a place that is null or may be written to.
    unsafe {
        within(env, |env| {
            let key = env.get(key)?;
            let found = match env.get(map)? {
                Term::Map(pairs) => pairs.iter().find(|(known, _)| known == key)?.1.clone(),
                _ => return None,
            };
            let depth = env.depth(map);
            put(value, env.nest(found, depth))
        })
    }
}

/// The number of a pid of this node.
///
/// # Safety
/// As [`within`], and `pid` as the place of [`put`].
unsafe extern "C" fn get_local_pid(env: *mut Env<'_>, term: Handle, pid: *mut PidNumber) -> c_int {
    // SAFETY: the caller promises the running callback's `env`, and a place that is null or may be written to.
    unsafe {
        within(env, |env| match env.get(term)? {
            Term::Pid(of) if of.is_own() => put(pid, PidNumber { number: of.id }),
            _ => None,
        })
    }
}

/// Whether a process has not ended.
///
/// # Safety
/// `pid` is null, or may be read.
unsafe extern "C" fn is_process_alive(_: *mut Env<'_>, pid: *const PidNumber) -> c_int {
    // SAFETY: null, or a pid from the host.
    let Some(pid) = (unsafe { pid.as_ref() }) else { return 0 };
    let living = |host: &'static host::Host| attached(|py| host.directory.living(py, host, pid.number)).flatten();
    c_int::from(host::try_host().and_then(living).is_some_and(|tracee| tracee.is_alive()))
}

/// An atom; 0 if the name is not UTF-8.
///
/// # Safety
/// As [`within`], and `name` is null, or ends with a zero.
unsafe extern "C" fn make_atom(env: *mut Env<'_>, name: *const c_char) -> Handle {
    if name.is_null() {
        return 0;
    }
    // SAFETY: the caller promises the running callback's `env`, and a name that ends with a zero.
    unsafe { within(env, |env| Some(env.nest(Term::atom(CStr::from_ptr(name).to_str().ok()?), 0))) }
}

/// An int.
///
/// # Safety
/// As [`within`].
unsafe extern "C" fn make_int(env: *mut Env<'_>, value: i64) -> Handle {
    // SAFETY: the caller promises the running callback's `env`.
    unsafe { within(env, |env| Some(env.nest(Term::Int(BigInt::from(value)), 0))) }
}

/// A float.
///
/// # Safety
/// As [`within`].
unsafe extern "C" fn make_float(env: *mut Env<'_>, value: f64) -> Handle {
    // SAFETY: the caller promises the running callback's `env`.
    unsafe { within(env, |env| Some(env.nest(Term::Float(value), 0))) }
}

/// # Safety
/// `bytes` points to `length` bytes, or `length` is 0.
unsafe fn bytes_of<'b>(bytes: *const u8, length: usize) -> &'b [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller promises that `bytes` points to `length` bytes, or `length` is 0.
    unsafe { slice::from_raw_parts(bytes, length) }
}

/// A str; 0 if the text is not UTF-8.
///
/// # Safety
/// As [`within`], and `text` and `length` as those of [`bytes_of`].
unsafe extern "C" fn make_str(env: *mut Env<'_>, text: *const u8, length: usize) -> Handle {
    // SAFETY: the caller promises the running callback's `env`, and `length` bytes at `text`.
    unsafe { within(env, |env| Some(env.nest(Term::str(std::str::from_utf8(bytes_of(text, length)).ok()?), 0))) }
}

/// Bytes.
///
/// # Safety
/// As [`within`], and `bytes` and `length` as those of [`bytes_of`].
unsafe extern "C" fn make_bytes(env: *mut Env<'_>, bytes: *const u8, length: usize) -> Handle {
    // SAFETY: the caller promises the running callback's `env`, and `length` bytes at `bytes`.
    unsafe { within(env, |env| Some(env.nest(Term::Bytes(bytes_of(bytes, length).into()), 0))) }
}

/// A tuple; 0 if an element has no term, as in the functions that follow.
///
/// # Safety
/// As [`within`], and `elements` and `n` as those of [`Env::all`].
unsafe extern "C" fn make_tuple(env: *mut Env<'_>, elements: *const Handle, n: usize) -> Handle {
    // SAFETY: the caller promises the running callback's `env`, and `n` handles at `elements`.
    unsafe { within(env, |env| env.all(elements, n).map(|(elements, depth)| env.nest(Term::Tuple(elements), depth))) }
}

/// A list.
///
/// # Safety
/// As [`make_tuple`].
unsafe extern "C" fn make_list(env: *mut Env<'_>, elements: *const Handle, n: usize) -> Handle {
    // SAFETY: the caller promises the running callback's `env`, and `n` handles at `elements`.
    unsafe { within(env, |env| env.all(elements, n).map(|(elements, depth)| env.nest(Term::List(elements), depth))) }
}

/// A map; the last of equal keys counts.
///
/// # Safety
/// As [`within`], and `keys` and `values`, each with `n`, as those of [`Env::all`].
unsafe extern "C" fn make_map(env: *mut Env<'_>, keys: *const Handle, values: *const Handle, n: usize) -> Handle {
    // SAFETY: the caller promises the running callback's `env`, and `n` handles at `keys` and at `values`.
    unsafe {
        within(env, |env| {
            let mut pairs: Vec<(Term, Term)> = Vec::with_capacity(n);
            let ((keys, of_keys), (values, of_values)) = (env.all(keys, n)?, env.all(values, n)?);
            for (key, value) in keys.into_iter().zip(values) {
                match pairs.iter_mut().find(|(known, _)| *known == key) {
                    Some(pair) => pair.1 = value,
                    None => pairs.push((key, value)),
                }
            }
            Some(env.nest(Term::Map(pairs), of_keys.max(of_values)))
        })
    }
}

/// The pid of a process of this node.
///
/// # Safety
/// As [`within`], and `pid` is null, or may be read.
unsafe extern "C" fn make_pid(env: *mut Env<'_>, pid: *const PidNumber) -> Handle {
    // SAFETY: the caller promises the running callback's `env`; `pid` is null, or a pid from the host.
    unsafe {
        let Some(pid) = pid.as_ref() else { return 0 };
        within(env, |env| Some(env.nest(Term::Pid(Identifier::own(pid.number)), 0)))
    }
}

/// Puts a message into a process's mailbox; 0 if the process has ended. Runs no Python and releases no lock of the
/// interpreter: the callback may hold a lock of its own for which other threads wait.
///
/// # Safety
/// As [`within`], and `to` is null, or may be read.
unsafe extern "C" fn send(env: *mut Env<'_>, to: *const PidNumber, message: Handle) -> c_int {
    // SAFETY: the caller promises the running callback's `env`; `to` is null, or a pid from the host.
    unsafe {
        let Some(to) = to.as_ref() else { return 0 };
        within(env, |env| {
            let term = etf::encode(env.get(message)?);
            let host = host::try_host()?;
            let tracee = host.node.tracee(to.number).filter(|tracee| tracee.is_alive() && tracee.kind.is_process())?;
            let mailbox = host.mailbox(&tracee);
            if mailbox.post(Posted { ticks: host.node.clock.ticks(), term }) {
                env.sent_to.push(mailbox);
            }
            Some(1)
        })
    }
}

/// Runs `with` attached and leaves no trace of that: an exception that is set stays set, and allocations don't count as
/// the program's. `None` while the interpreter ends.
pub fn attached<R>(with: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    Python::try_attach(|py| {
        let allocated = tls::bytes();
        let aside = PyErr::take(py);
        let done = with(py);
        if let Some(error) = aside {
            error.restore(py);
        }
        tls::set_bytes(allocated);
        done
    })
}
