//! Writes a record whose payload a session's capture limits.
#![forbid(unsafe_code)]

use super::{emit, Recipient};
use crate::{
    record::header::{stamp, Head},
    state::{
        session::Capture,
        thread::{Thread, SCRATCH},
    },
};
use inviso_term::etf::{Encoder, Full};

/// Writes a record with the payload that `write` writes. A payload that doesn't fit becomes a `Cut`.
#[inline(always)]
pub(crate) fn with_values(
    to: Recipient<'_>, thread: &mut Thread, head: Head, extra: &[u8],
    write: impl FnOnce(&mut Encoder<'_>, &Capture) -> Result<(), Full>,
) {
    let capture = &to.session.options.capture;
    with_payload(
        thread,
        capture,
        |out| write(out, capture),
        |thread, written| {
            if extra.is_empty() {
                emit(to, thread, head, written);
            } else {
                let mut payload = written.to_vec();
                let more = stamp::with_extra(&mut payload, extra);
                emit(to, thread, head.with(more), &payload);
            }
        },
    );
}

/// Passes the payload that `write` writes to `push`. A payload that doesn't fit becomes a `Cut`.
#[inline(always)]
pub(crate) fn with_payload(
    thread: &mut Thread, capture: &Capture, write: impl FnOnce(&mut Encoder<'_>) -> Result<(), Full>,
    push: impl FnOnce(&mut Thread, &[u8]),
) {
    let mut scratch = std::mem::take(&mut thread.scratch);
    if scratch.len() < capture.total {
        scratch.resize(capture.total.max(SCRATCH), 0);
    }
    let mut out = Encoder::new(&mut scratch[..capture.total]);
    if write(&mut out).is_err() {
        out.truncate(0);
        let _ = out.cut("arguments");
    }
    push(thread, out.written());
    thread.scratch = scratch;
}
