//! A record with a payload that a session's capture bounds.
#![forbid(unsafe_code)]

use super::emit;
use crate::{
    record::header::{stamp, Head},
    state::{
        flags::Flags,
        node::Node,
        session::{Capture, Session},
        thread::{Thread, SCRATCH},
    },
};
use inviso_term::etf::{Encoder, Full};
use std::sync::Arc;

/// A record whose payload is what `write` writes.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn with_values(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, extra: &[u8], now: u64,
    write: impl FnOnce(&mut Encoder<'_>, &Capture) -> Result<(), Full>,
) {
    let capture = &session.options.capture;
    let mut scratch = std::mem::take(&mut thread.scratch);
    if scratch.len() < capture.total {
        scratch.resize(capture.total.max(SCRATCH), 0);
    }
    let mut out = Encoder::new(&mut scratch[..capture.total]);
    if write(&mut out, capture).is_err() {
        out.truncate(0);
        let _ = out.cut("arguments");
    }
    if extra.is_empty() {
        emit(node, thread, session, flags, head, out.written(), now);
    } else {
        let mut payload = out.written().to_vec();
        let more = stamp::with_extra(&mut payload, extra);
        emit(node, thread, session, flags, head.with(more), &payload, now);
    }
    thread.scratch = scratch;
}
