//! Tokens that stand behind the pickles of `multiprocessing`, for `inviso._pickles`.

use crate::{
    host::{
        passing,
        pickles::{self, Way},
        tokens,
    },
    seq,
    wire::{self, SeqSending},
};
use inviso_core::{messages::About, seq::Carried};
use pyo3::{prelude::*, types::PyBytes};

/// The token that goes behind the pickle of an object, for any node; None if there is none. Called by what pickles.
#[pyfunction]
pub fn seq_depart(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyBytes>>> {
    seq::with(py, |py, here| {
        if !here.host.node.seq_in_use() {
            return Ok(None);
        }
        // SAFETY: attached; the object and the frames' variables stand.
        let (carried, to) = unsafe {
            match pickles::leaving(here, object) {
                Way::Kept(carried, to) => (carried, to),
                Way::Now(frame) => pickles::begin_send(here, frame, object),
                Way::None => return Ok(None),
            }
        };
        here.host.node.seq_go_abroad();
        Ok(packed(py, &carried, to))
    })
}

fn packed(py: Python<'_>, carried: &Carried, to: u64) -> Option<Py<PyBytes>> {
    wire::packed(carried, to, true).map(|bytes| PyBytes::new(py, &bytes).unbind())
}

/// An object has been unpickled, with what stood behind the pickle. False if that is no token; then there is none.
#[pyfunction]
pub fn seq_arrive(py: Python<'_>, token: Option<&[u8]>, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let token = token.map(|bytes| wire::arrived(py, bytes)).transpose()?;
    let malformed = matches!(token, Some(None));
    seq::with(py, |_, here| {
        let carried = match token.flatten() {
            Some(arrived) => arrived.carried(&here.host.node),
            None => Carried::Empty,
        };
        // SAFETY: attached; the object stands.
        unsafe {
            if pickles::is_for_another() {
                pickles::leave(carried);
            } else if !pickles::is_no_message() && !pickles::is_of_no_carrier(here) {
                let message = pickles::message_of(here, object);
                let write = tokens::writing(message.as_ptr());
                here.host.node.seq_receive(&mut here.thread, About::Current, carried, write);
            }
        }
        Ok(!malformed)
    })
}

/// A process is about to be started: what goes along with it, and, with a token, its sending; None while no token is in use. Empty where
/// the library starts it.
#[pyfunction]
pub fn seq_start(py: Python<'_>, process: &Bound<'_, PyAny>) -> PyResult<Option<(Py<PyBytes>, Option<SeqSending>)>> {
    seq::with(py, |py, here| {
        if !here.host.node.seq_in_use() {
            return Ok(None);
        }
        here.host.node.seq_go_abroad(); // in what is started they are in use, too, and it may send one
                                        // SAFETY: attached; the object stands.
        let sending = unsafe {
            if pickles::is_started_by_library() {
                None
            } else {
                let to = passing::queue(here, process.as_ptr());
                let message = wire::spawn_request(to);
                SeqSending::begin(py, here, to, message, |carried| wire::packed(carried, to, true))
            }
        };
        let token = sending.as_ref().map_or_else(|| PyBytes::new(py, b"").unbind(), |sending| sending.token(py));
        Ok(Some((token, sending)))
    })
}

/// This process was started where tokens are in use: they are in use here. With a token it is the main thread's.
#[pyfunction]
pub fn seq_started(py: Python<'_>, token: &[u8]) -> PyResult<()> {
    let _in_use = seq::begin(py)?;
    let arrived = wire::arrived(py, token)?;
    seq::with(py, |_, here| {
        here.host.node.seq_go_abroad();
        if let Some(arrived) = arrived {
            let message = wire::spawn_request_of(arrived.carrier.clone());
            let carried = arrived.carried(&here.host.node);
            here.host.node.seq_receive(&mut here.thread, About::Current, carried, |out, _| out.raw(&message));
        }
        Ok(())
    })
}
