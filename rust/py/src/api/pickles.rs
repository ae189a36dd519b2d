//! Numbers and tokens that stand after the pickles of `multiprocessing`, for `inviso._pickles`.
//!
//! A number comes first, then a token. Each ends with its name and version, so that it is found from the end.
//!
//! The program's own pickling calls these functions, so none of them raises: a failure of the tracer is reported, and
//! the object goes without number and token.

use super::{
    running::as_process,
    seq,
    wire::{self, SeqSending},
};
use crate::{
    door,
    instrument::{message_view, senders, tokens},
    library::{
        multiprocess::{
            numbers,
            pickles::{self, PickleToken},
        },
        results,
    },
};
use inviso_core::host::{messages::About, seq::Carried};
use inviso_cpython::interpreter::again;
use inviso_term::record::numbered::Number;
use pyo3::{buffer::PyBuffer, prelude::*, types::PyBytes};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the functions fail, see [`fail_at_pickles`].
static FAILS: AtomicBool = AtomicBool::new(false);

/// Makes the functions fail until the process ends. For tests.
#[pyfunction]
pub fn fail_at_pickles() {
    FAILS.store(true, Ordering::Relaxed);
}

/// Runs `with`. Reports its error, or its panic, and returns `otherwise` then.
fn never_raises<R>(py: Python<'_>, otherwise: R, with: impl FnOnce() -> PyResult<R>) -> R {
    let run = || {
        assert!(!FAILS.load(Ordering::Relaxed), "a test asked for this failure");
        with()
    };
    match door::guard(run) {
        Some(Ok(done)) => done,
        Some(Err(error)) => {
            again::report(py, error);
            otherwise
        }
        None => otherwise,
    }
}

/// The bytes to write after the pickle of an object: its number as a message, and the token that it carries; None
/// without both. The code that pickles calls this.
#[pyfunction]
pub fn pickled(py: Python<'_>, object: &Bound<'_, PyAny>) -> Option<Py<PyBytes>> {
    never_raises(py, None, || try_pickled(py, object))
}

fn try_pickled(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyBytes>>> {
    as_process(py, |py, state| {
        let mut trailer = Vec::new();
        // SAFETY: the thread is attached; the caller holds the object, and the variables of the frames that run stand.
        let token = unsafe {
            let (way, number) = pickles::leaving(state, object);
            if number != 0 {
                numbers::write(number, &mut trailer);
            }
            match way {
                PickleToken::Kept(carried, to) => Some((carried, to)),
                PickleToken::Now(frame) => Some(pickles::begin_send(state, frame, object)),
                PickleToken::None => None,
            }
        };
        if let Some((carried, to)) = token {
            state.host.node.seq_go_abroad();
            if let Some(token) = wire::packed(&carried, to, true) {
                trailer.extend_from_slice(&token);
                trailer.extend_from_slice(&(token.len() as u32).to_be_bytes());
                trailer.extend_from_slice(END);
            }
        }
        Ok((!trailer.is_empty()).then(|| PyBytes::new(py, &trailer).unbind()))
    })
}

/// The pickle could not be made.
#[pyfunction]
pub fn pickle_failed(py: Python<'_>, object: &Bound<'_, PyAny>) {
    never_raises(py, (), || try_pickle_failed(py, object))
}

fn try_pickle_failed(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    as_process(py, |_, state| {
        // SAFETY: the thread is attached; the caller holds the object, and the variables of the frames that run stand.
        unsafe { pickles::failed(state, object) };
        Ok(())
    })
}

/// The end of a token after a pickle; the token's length (4 bytes) stands before it.
const END: &[u8] = b"\x00inviso seq_trace 1\x00";

/// The number and token after a pickle.
struct Trailer {
    number: Option<Number>,
    /// The token's bytes; empty for a token of which a part is missing.
    token: Option<Vec<u8>>,
}

impl Trailer {
    fn of(data: &[u8]) -> Trailer {
        let cut = || {
            let (rest, length) = data.strip_suffix(END)?.split_last_chunk()?;
            let at = rest.len().checked_sub(u32::from_be_bytes(*length) as usize);
            Some(at.map_or((rest, &[][..]), |at| rest.split_at(at)))
        };
        match cut() {
            Some((rest, token)) => Trailer { number: numbers::read(rest), token: Some(token.to_vec()) },
            None => Trailer { number: numbers::read(data), token: None },
        }
    }
}

/// An object has been unpickled. False if the bytes after the pickle look like a token but are not one; then there is
/// no token. The code that unpickles calls this.
#[pyfunction]
pub fn unpickled(py: Python<'_>, data: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> bool {
    never_raises(py, true, || try_unpickled(py, data, object))
}

fn try_unpickled(py: Python<'_>, data: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let trailer = match PyBuffer::<u8>::get(data) {
        Ok(buffer) if buffer.is_c_contiguous() && buffer.len_bytes() > 0 => {
            // SAFETY: the buffer's bytes are in one piece and stand while it is held; nothing else runs meanwhile.
            Trailer::of(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) })
        }
        _ => Trailer { number: None, token: None },
    };
    let with_tokens = senders::with_tokens();
    let token = trailer.token.filter(|_| with_tokens).map(|bytes| wire::arrived(py, &bytes)).transpose()?;
    let malformed = matches!(token, Some(None));
    as_process(py, |_, state| {
        // SAFETY: the thread is attached.
        unsafe { pickles::came(state, trailer.number) };
        if !with_tokens {
            return Ok(true);
        }
        let carried = match token.flatten() {
            Some(arrived) => arrived.carried(&state.host.node),
            None => Carried::Empty,
        };
        // SAFETY: the thread is attached; the object stands.
        unsafe {
            if pickles::is_for_another() {
                results::leave_token(carried);
            } else if !pickles::is_no_message() && !pickles::is_of_no_carrier(state) {
                let message = pickles::message_of(state, object);
                let write = tokens::writing(message.as_ptr());
                state.host.node.seq_receive(&mut state.thread, About::Current, carried, write);
            }
        }
        Ok(!malformed)
    })
}

/// A process is about to be started. Returns the bytes that go along with it and, with a token, its sending; None while
/// no token is in use. The bytes are empty if the library starts the process for itself.
#[pyfunction]
pub fn start(py: Python<'_>, process: &Bound<'_, PyAny>) -> Option<(Py<PyBytes>, Option<SeqSending>)> {
    never_raises(py, None, || try_start(py, process))
}

fn try_start(py: Python<'_>, process: &Bound<'_, PyAny>) -> PyResult<Option<(Py<PyBytes>, Option<SeqSending>)>> {
    as_process(py, |py, state| {
        if !state.host.node.seq_in_use() {
            return Ok(None);
        }
        // tokens are in use in the new process, too, and it may send one
        state.host.node.seq_go_abroad();
        // SAFETY: the thread is attached; the caller holds the process object.
        let sending = unsafe {
            if pickles::is_started_by_library() {
                None
            } else {
                let to = message_view::queue(state, process.as_ptr());
                let message = wire::spawn_request(to);
                SeqSending::begin(py, state, to, message, |carried| wire::packed(carried, to, true))
            }
        };
        let token = sending.as_ref().map_or_else(|| PyBytes::new(py, b"").unbind(), |sending| sending.token(py));
        Ok(Some((token, sending)))
    })
}

/// This process was started by one where tokens are in use, so they are in use here. The token, if there is one, is the
/// main thread's.
#[pyfunction]
pub fn started(py: Python<'_>, token: &[u8]) {
    never_raises(py, (), || try_started(py, token))
}

fn try_started(py: Python<'_>, token: &[u8]) -> PyResult<()> {
    let _in_use = seq::begin(py)?;
    let arrived = wire::arrived(py, token)?;
    as_process(py, |_, state| {
        state.host.node.seq_go_abroad();
        if let Some(arrived) = arrived {
            let message = wire::spawn_request_of(arrived.carrier.clone());
            let carried = arrived.carried(&state.host.node);
            state.host.node.seq_receive(&mut state.thread, About::Current, carried, |out, _| out.raw(&message));
        }
        Ok(())
    })
}
