//! Arguments for sessions that take texts, or the objects themselves; see the core's `late`.

use crate::state::{host::try_host, objects::Arguments};
use inviso_core::host::{
    ring::Overflow,
    session::{Capture, Session, Takes},
};
use inviso_cpython::{
    capture::{self, Limits, Noted},
    interpreter::tls,
};
use inviso_term::etf::{Encoder, Full};
use pyo3::{ffi::PyObject, prelude::*};

/// The limits of a session's snapshots.
#[inline(always)]
pub fn limits(capture: &Capture) -> Limits {
    Limits { depth: capture.depth, items: capture.items, bytes: capture.bytes }
}

/// An argument, held; `None` if it is unbound.
///
/// # Safety
/// `object` is null or stands; attached.
pub unsafe fn held(py: Python<'_>, object: *mut PyObject) -> Option<Py<PyAny>> {
    // SAFETY: the object is null or stands; attached.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, object) }.map(Bound::unbind)
}

/// Writes the part of the arguments that a record needs.
pub fn write(py: Python<'_>, arguments: Arguments, out: &mut Vec<u8>, session: &Session, scheduler: u16) {
    // this allocation doesn't count as the program's
    let allocated = tls::bytes();
    match session.options.capture.takes {
        Takes::Objects => keep(arguments, out, session, scheduler),
        _ => texts(py, &arguments, out, &session.options.capture),
    }
    tls::set_bytes(allocated);
}

/// Writes the part of a returned value that a record needs.
pub fn write_one(py: Python<'_>, value: Arguments, out: &mut Vec<u8>, session: &Session, scheduler: u16) {
    let allocated = tls::bytes();
    match session.options.capture.takes {
        Takes::Objects => keep(value, out, session, scheduler),
        _ => {
            let capture = &session.options.capture;
            let mut noted = Noted::default();
            out.resize(capture.total, 0);
            let mut encoder = Encoder::new(out);
            let object = value.values.first().and_then(Option::as_ref).map_or(std::ptr::null_mut(), Py::as_ptr);
            let written = match value.values.is_empty() {
                true => encoder.cut("result"),
                // SAFETY: the value is held; attached.
                false => unsafe { capture::encode_noting(object, &mut encoder, &limits(capture), &mut noted) },
            };
            match written {
                Ok(()) => {
                    let length = encoder.len();
                    out.truncate(length);
                    noted.fill(py, out, capture.bytes, capture.total);
                }
                Err(Full) => cut(out, "result"),
            }
        }
    }
    tls::set_bytes(allocated);
}

fn keep(arguments: Arguments, out: &mut Vec<u8>, session: &Session, scheduler: u16) {
    let keeps_newest = session.options.overflow == Overflow::Overwrite;
    let delivery = try_host().and_then(|host| host.deliveries.of(session.id));
    match delivery.and_then(|delivery| delivery.objects.put(scheduler, arguments, keeps_newest)) {
        Some(number) => out.extend_from_slice(&number.to_ne_bytes()),
        None => cut(out, "objects"),
    }
}

fn texts(py: Python<'_>, arguments: &Arguments, out: &mut Vec<u8>, capture: &Capture) {
    let mut noted = Noted::default();
    out.resize(capture.total, 0);
    let mut encoder = Encoder::new(out);
    match list(arguments, &mut encoder, capture, &mut noted) {
        Ok(()) => {
            let length = encoder.len();
            out.truncate(length);
            noted.fill(py, out, capture.bytes, capture.total);
        }
        Err(Full) => cut(out, "arguments"),
    }
}

fn list(arguments: &Arguments, out: &mut Encoder<'_>, capture: &Capture, noted: &mut Noted) -> Result<(), Full> {
    let length = arguments.values.len() + usize::from(arguments.more);
    if length > 0 {
        out.list(length)?;
    }
    for value in &arguments.values {
        let object = value.as_ref().map_or(std::ptr::null_mut(), Py::as_ptr);
        // SAFETY: the value is held; attached, as `write` has the token.
        unsafe { capture::encode_noting(object, out, &limits(capture), noted)? };
    }
    if arguments.more {
        out.cut("arguments")?;
    }
    out.nil()
}

fn cut(out: &mut Vec<u8>, what: &str) {
    out.resize(64, 0);
    let mut encoder = Encoder::new(out);
    let _ = encoder.cut(what);
    let length = encoder.len();
    out.truncate(length);
}
