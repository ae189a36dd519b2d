//! Tokens of processes: whether they are in use; reading, setting, exchanging and clearing them.
#![forbid(unsafe_code)]

use crate::{
    state::{
        node::Node,
        token::{flags, label, Carried, Label, Token, TokenGuard, TokenState, FAR},
        tracee::Tracee,
    },
    sync::{Ordering::Relaxed, Unpoisoned},
};
use inviso_term::term::Term;

/// A new token of a process that has none.
fn fresh(tracee: &Tracee, standing: &mut TokenState) -> Token {
    standing.begin();
    Token { flags: 0, label: vec![97, 0].into(), serial: (standing.previous, 0), from: tracee.pid, away: None }
}

/// A process takes a token, by the algorithm.
pub(super) fn take(tracee: &Tracee, era: u64, token: Token) {
    tracee.seq.with(era, |standing| {
        standing.count(token.serial.1);
        standing.previous = token.serial.1;
        standing.token = Some(token);
    });
}

impl Node {
    /// Whether tokens are in use: from the first that is set until a reset or [`Node::seq_end`]. While they are not, a host may skip all
    /// work for tokens.
    #[inline(always)]
    #[must_use]
    pub fn seq_in_use(&self) -> bool {
        self.seq.liveness.is_in_use()
    }

    pub(super) fn seq_era(&self) -> u64 {
        self.seq.liveness.era()
    }

    /// A token is about to be set: tokens are in use at least until the guard is dropped.
    #[must_use]
    pub fn seq_begin(&self) -> TokenGuard {
        self.seq.liveness.token()
    }

    /// A token has left this node, or may come from outside: tokens are in use until a reset, even if no process of this node has one.
    pub fn seq_go_abroad(&self) {
        self.seq.liveness.go_abroad();
    }

    /// Sets the function to call when the last token of this node is dropped, see [`Node::seq_end`]. Any thread may call it, at any
    /// point, so it may only request the end. Once for a node.
    pub fn seq_on_last(&self, gone: fn()) {
        self.seq.liveness.on_last_released(gone);
    }

    /// Whether tokens are in use although there is none.
    pub fn seq_is_idle(&self) -> bool {
        self.seq.liveness.is_idle()
    }

    /// Ends the use of tokens, if there is none in this node and none has left it; `true` if it has ended.
    pub fn seq_end(&self) -> bool {
        self.seq.liveness.end()
    }

    /// Whether a process may have a token. A first check, for the thread that runs the process.
    #[inline(always)]
    #[must_use]
    pub fn seq_may_have(&self, tracee: &Tracee) -> bool {
        self.seq_in_use() && tracee.seq.maybe.load(Relaxed)
    }

    /// The token of a process and its era, for work that another process will do for it.
    #[must_use]
    pub fn seq_copy(&self, tracee: &Tracee) -> Carried {
        if !self.seq_may_have(tracee) {
            return Carried::Empty;
        }
        tracee.seq.with(self.seq_era(), |standing| match &standing.token {
            Some(token) => Carried::Token(token.clone(), standing.era),
            None => Carried::Empty,
        })
    }

    /// A process takes such a token, as with a message, but without an event.
    pub fn seq_lend(&self, tracee: &Tracee, lent: Carried) {
        match lent {
            Carried::Token(token, era) if era == self.seq_era() => take(tracee, era, token),
            _ => drop(self.seq_clear(tracee)),
        }
    }

    /// The token of a process.
    #[must_use]
    pub fn seq_token(&self, tracee: &Tracee) -> Option<Token> {
        if !self.seq_in_use() {
            return None;
        }
        tracee.seq.with(self.seq_era(), |standing| standing.token.clone())
    }

    /// Clears the token of a process; answers the token before.
    pub fn seq_clear(&self, tracee: &Tracee) -> Option<Token> {
        if !self.seq_may_have(tracee) {
            return None;
        }
        tracee.seq.with(self.seq_era(), |standing| standing.token.take())
    }

    /// A process has ended, and no call runs in it any more: its token is dropped.
    pub fn seq_leave(&self, tracee: &Tracee) {
        if self.seq_in_use() {
            let _let_go_of_outside_the_lock = tracee.seq.standing.lock().unpoisoned().take();
            tracee.seq.maybe.store(false, Relaxed);
        }
    }

    /// Changes the token of a process. A process without one gets a new one.
    pub fn seq_change<R>(&self, tracee: &Tracee, change: impl FnOnce(&mut Token) -> R) -> R {
        self.seq_set_with(tracee, |_, token| change(token))
    }

    /// Sets the label of a process's token; answers the label before.
    pub fn seq_set_label(&self, tracee: &Tracee, label: Label) -> Label {
        self.seq_set_with(tracee, |standing, token| {
            if standing.current >= FAR && token.label != label {
                standing.begin();
                token.serial = (0, 0);
            }
            std::mem::replace(&mut token.label, label)
        })
    }

    /// Sets the serial of a process's token, and the process's counters; answers the serial before. For an empty token that is the serial
    /// of a new one: the last that the process received, and 0.
    pub fn seq_set_serial(&self, tracee: &Tracee, serial: (i64, i64)) -> (i64, i64) {
        self.seq_set_with(tracee, |standing, token| {
            (standing.previous, standing.current) = serial;
            standing.was_below = serial.1 < 0;
            std::mem::replace(&mut token.serial, serial)
        })
    }

    fn seq_set_with<R>(&self, tracee: &Tracee, change: impl FnOnce(&mut TokenState, &mut Token) -> R) -> R {
        let living = self.seq_begin();
        tracee.seq.with(living.era, |standing| {
            let mut token = standing.token.take().unwrap_or_else(|| fresh(tracee, standing));
            let answer = change(standing, &mut token);
            let label = token.label.living(living);
            standing.token = Some(Token { label, ..token });
            answer
        })
    }

    /// Sets a component of a process's token, as `set_token/2` does; `None` if there is no such component, or if the value is wrong for
    /// it.
    pub fn seq_set(&self, tracee: &Tracee, component: &Term, value: &Term) -> Option<()> {
        let name: &str = match component {
            Term::Atom(name) => name,
            Term::Str(name) => name,
            _ => return None,
        };
        match name {
            "label" => {
                let label = label(value.clone())?;
                self.seq_set_label(tracee, label);
            }
            "serial" => {
                let Term::Tuple(pair) = value else { return None };
                let [Term::Int(previous), Term::Int(serial)] = &pair[..] else { return None };
                self.seq_set_serial(tracee, (previous.try_into().ok()?, serial.try_into().ok()?));
            }
            _ => {
                let (_, bit) = flags::NAMES.into_iter().find(|(known, _)| *known == name)?;
                let on = match value {
                    Term::Atom(word) if &**word == "true" => true,
                    Term::Atom(word) if &**word == "false" => false,
                    _ => return None,
                };
                self.seq_change(tracee, |token| token.flags = if on { token.flags | bit } else { token.flags & !bit });
            }
        }
        Some(())
    }

    /// Replaces a process's token by that of a message, without changing the process's counters; answers the token before.
    pub fn seq_exchange(&self, tracee: &Tracee, carried: Carried) -> Carried {
        if !self.seq_in_use() {
            return Carried::Empty;
        }
        let era = self.seq_era();
        let token = match carried {
            Carried::Token(token, sent) if sent == era => Some(token),
            _ => None,
        };
        let was = tracee.seq.with(era, |standing| {
            if let Some(token) = token.as_ref().filter(|token| standing.current.max(token.serial.1) >= FAR) {
                standing.count(token.serial.1);
                standing.previous = token.serial.0;
            }
            std::mem::replace(&mut standing.token, token)
        });
        was.map_or(Carried::Empty, |token| Carried::Token(token, era))
    }

    /// The token of a message from another node.
    pub fn seq_arrived(&self, token: Token) -> Carried {
        self.seq_go_abroad();
        self.seq_came(token, self.seq_begin())
    }

    /// The token of a message that comes back from outside with a token of this node, of that era.
    pub fn seq_returned(&self, token: Token, era: u64) -> Carried {
        self.seq.liveness.token_of(era).map_or(Carried::Empty, |living| self.seq_came(token, living))
    }

    fn seq_came(&self, token: Token, living: TokenGuard) -> Carried {
        let era = living.era;
        Carried::Token(Token { label: token.label.living(living), ..token }, era)
    }

    /// Clears all tokens, also those of messages that are not received yet, and sets all counters to 0.
    pub fn seq_reset(&self) {
        self.seq.liveness.reset();
    }

    /// Drops a token that was made before a reset: it counts as an empty one.
    pub fn seq_empty(&self, carried: &mut Carried) {
        if matches!(carried, Carried::Token(_, era) if *era != self.seq_era()) {
            *carried = Carried::Empty;
        }
    }
}
