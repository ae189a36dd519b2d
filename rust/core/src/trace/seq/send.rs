//! A message with a token leaves its sender.
#![forbid(unsafe_code)]

use super::tracer::pid_of;
use crate::{
    record::seq_event::SeqEventKind,
    state::{
        node::Node,
        session::Session,
        thread::Thread,
        token::{Carried, Token},
        tracee::Tracee,
    },
    trace::about::About,
};
use inviso_term::{
    etf::{Encoder, Full},
    term::Identifier,
};
use std::sync::Arc;

/// A message that is about to leave its sender, if sending succeeds: [`Node::seq_sent`] or [`Node::seq_take_back`] follows.
#[must_use]
pub struct Sending {
    token: Token,
    era: u64,
    /// The sender's state before: its counter, and its token's serial and sender.
    before: (i64, (i64, i64), u64, Option<Arc<Identifier>>),
}

impl Sending {
    /// The token that the message carries.
    #[must_use]
    pub fn carried(&self) -> Carried {
        Carried::Token(self.token.clone(), self.era)
    }
}

impl Node {
    /// A message leaves its sender for `to`; answers the token that it carries. `message` writes it.
    pub fn seq_send(
        &self, thread: &mut Thread, from: About<'_>, to: u64,
        message: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
    ) -> Carried {
        if !self.seq_may_have(from.tracee(thread)) {
            return Carried::Empty;
        }
        self.with_seq_tracer(thread, |thread, tracer| {
            let tracee = from.tracee(thread);
            let (pid, tracer_pid) = (tracee.pid, pid_of(tracer));
            let stepped = tracee.seq.with(self.seq_era(), |standing| {
                let token = standing.step(tracee.pid, tracer_pid, &self.seq.overflows)?.clone();
                Some((token, standing.era))
            });
            let Some((token, era)) = stepped else { return Carried::Empty };
            self.emit_seq_event(thread, tracer, token, SeqEventKind::Send { from: pid, to }, message, |_, token| {
                Carried::Token(token, era)
            })
        })
    }

    /// A message is about to leave a process, unless sending fails with an error. `None` if the process has no token.
    pub fn seq_begin_send(&self, tracee: &Tracee) -> Option<Sending> {
        if !self.seq_may_have(tracee) {
            return None;
        }
        let tracer = pid_of(self.seq_tracer().as_ref());
        tracee.seq.with(self.seq_era(), |standing| {
            let current = standing.current;
            let before =
                standing.token.as_ref().map(|token| (current, token.serial, token.from, token.away.clone()))?;
            let token = standing.step(tracee.pid, tracer, &self.seq.overflows)?.clone();
            Some(Sending { token, era: standing.era, before })
        })
    }

    /// The message was sent.
    pub fn seq_sent(
        &self, thread: &mut Thread, from: About<'_>, to: u64, sending: Sending,
        message: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
    ) {
        if sending.era == self.seq_era() {
            let event = SeqEventKind::Send { from: from.tracee(thread).pid, to };
            self.with_seq_tracer(thread, |thread, tracer| {
                self.emit_seq_event(thread, tracer, sending.token, event, message, |_, token| drop(token));
            });
        }
    }

    /// The message was not sent: its sender gets its earlier state back, unless that has changed since.
    pub fn seq_take_back(&self, tracee: &Tracee, sending: Sending) {
        tracee.seq.with(self.seq_era(), |standing| {
            let Sending { token: sent, era, before: (current, serial, from, away) } = sending;
            if era == standing.era && standing.current == sent.serial.1 {
                if let Some(token) = standing.token.as_mut().filter(|token| **token == sent) {
                    standing.current = current;
                    (token.serial, token.from, token.away) = (serial, from, away);
                }
            }
        });
    }

    /// The token that a message would carry if the process sent it now: for a message that may be received before its sender knows that
    /// sending has succeeded. If it has, [`Node::seq_send`] follows, before any other event of the process.
    pub fn seq_would_send(&self, tracee: &Tracee) -> Carried {
        if !self.seq_may_have(tracee) {
            return Carried::Empty;
        }
        let tracer = pid_of(self.seq_tracer().as_ref());
        let token = tracee.seq.with(self.seq_era(), |standing| {
            let mut token = standing.token.clone()?;
            if tracer != tracee.pid {
                let next = standing.current.saturating_add(1);
                (token.serial, token.from, token.away) = ((standing.previous, next), tracee.pid, None);
            }
            Some((token, standing.era))
        });
        token.map_or(Carried::Empty, |(token, era)| Carried::Token(token, era))
    }
}
