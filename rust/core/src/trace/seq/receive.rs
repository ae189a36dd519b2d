//! A message is received, a process starts another, a process prints.
#![forbid(unsafe_code)]

use super::{
    tokens::take,
    tracer::{flag, pid_of},
};
use crate::{
    record::seq_event::SeqEventKind,
    state::{node::Node, session::Session, thread::Thread, token::Carried, tracee::Tracee},
    trace::about::About,
};
use inviso_term::etf::{Encoder, Full};

impl Node {
    /// A process receives a message with the token that it carries.
    pub fn seq_receive(
        &self, thread: &mut Thread, at: About<'_>, carried: Carried,
        message: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
    ) {
        if !self.seq_in_use() {
            return;
        }
        let tracee = at.tracee(thread);
        match carried {
            Carried::Nothing => {}
            Carried::Token(token, era) if era == self.seq_era() => {
                let event = SeqEventKind::Receive { from: token.from, at: tracee.pid };
                let took = |thread: &mut Thread, token| take(at.tracee(thread), era, token);
                if token.flags & flag(event) == 0 {
                    return took(thread, token);
                }
                self.with_seq_tracer(thread, |thread, tracer| {
                    self.emit_seq_event(thread, tracer, token, event, message, took);
                });
            }
            Carried::Empty | Carried::Token(..) => drop(self.seq_clear(tracee)),
        }
    }

    /// The running process prints into its sequential trace; with `label` only if its token has that label.
    pub fn seq_print(
        &self, thread: &mut Thread, label: Option<&[u8]>,
        info: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
    ) {
        if !self.seq_in_use() {
            return;
        }
        self.with_seq_tracer(thread, |thread, tracer| {
            let (tracee, tracer_pid) = (&thread.current, pid_of(tracer));
            let pid = tracee.pid;
            let token = tracee.seq.with(self.seq_era(), |standing| {
                standing.token.as_ref().filter(|token| label.is_none_or(|label| *label == *token.label))?;
                standing.step(tracee.pid, tracer_pid, &self.seq.overflows).cloned()
            });
            if let Some(token) = token {
                self.emit_seq_event(thread, tracer, token, SeqEventKind::Print { by: pid }, info, |_, token| {
                    drop(token)
                });
            }
        });
    }

    /// The running process starts another, which gets a token: four events, a request and a reply, each sent and received. `request` and
    /// `reply` are their terms.
    pub fn seq_spawn(&self, thread: &mut Thread, child: &Tracee, request: &[u8], reply: &[u8]) {
        if !self.seq_in_use() {
            return;
        }
        let parent = thread.current.clone();
        let sent = self.seq_send(thread, About::Current, child.pid, |out, _| out.raw(request));
        let Carried::Token(token, era) = sent else { return };
        let left = self.seq_token(&parent);
        self.seq_receive(thread, About::Other(child), Carried::Token(token, era), |out, _| out.raw(request));
        let answered = self.seq_send(thread, About::Other(child), parent.pid, |out, _| out.raw(reply));
        self.seq_receive(thread, About::Current, answered, |out, _| out.raw(reply));
        // the reply does not change the parent's token; its counters advance as with any other message
        parent.seq.with(era, |standing| standing.token = left);
    }
}
