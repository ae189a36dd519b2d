//! Counts live tokens of sequential tracing, by era. The host's instruments that carry tokens stay installed while tokens are in use.
//!
//! A *reset* begins a new era and forgets all tokens of the old one.
//!
//! # Roles
//! Any thread creates, copies and drops tokens; all copies of a token count once. Any thread resets. The callback for the last dropped
//! token requests the end of their use.
//!
//! # States
//! One word, so each change is one step:
//!
//! | bits | are |
//! | --- | --- |
//! | 32 to 63 | the era |
//! | 31 | `IN_USE`: tokens are in use |
//! | 30 | `ABROAD`: a token may be outside the node |
//! | 0 to 29 | the number of live tokens |
//!
//! Tokens go out of use by a step that fails if another token was created.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `word` | the creator of a token, a reset, `SeqCst` | the thread that begins or ends their use, `SeqCst` | the creator finds the instruments installed, or the thread that removes them finds the token |
//! | `word` | as above | hosts, `Relaxed` | a thread with a token got it after it was created |
//!
//! # Checked by
//! `models::seq` (loom); mutants `seq_life_of_before`, `seq_ends_unseen`; the tests below.
#![forbid(unsafe_code)]

use crate::sync::{
    mutants::mutant,
    AtomicU64,
    Ordering::{Acquire, Relaxed, SeqCst},
};
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

const ERA: u32 = 32;
const IN_USE: u64 = 1 << 31;
const ABROAD: u64 = 1 << 30;
const TOKENS: u64 = ABROAD - 1;

/// The era, and the count of live tokens.
#[derive(Default)]
pub(crate) struct TokenLiveness {
    word: AtomicU64,
    /// Called after the last token of an era was dropped.
    gone: OnceLock<fn()>,
}

impl TokenLiveness {
    #[inline(always)]
    pub(crate) fn is_in_use(&self) -> bool {
        self.word.load(Relaxed) as u32 != 0
    }

    pub(crate) fn era(&self) -> u64 {
        self.word.load(Acquire) >> ERA
    }

    /// Sets the callback for the last dropped token. Any thread calls it, at any place, so it may only note a request.
    pub(crate) fn on_last_released(&self, gone: fn()) {
        let _ = self.gone.set(gone);
    }

    /// Creates a token in the present era.
    pub(crate) fn token(self: &Arc<Self>) -> TokenGuard {
        let word = self.change(|word| Some((word | IN_USE) + 1)).unwrap_or_default();
        TokenGuard { liveness: self.clone(), era: word >> ERA }
    }

    /// Creates a token in an era. `None` if that era is over.
    pub(crate) fn token_of(self: &Arc<Self>, era: u64) -> Option<TokenGuard> {
        self.change(|word| (word >> ERA == era).then_some((word | IN_USE) + 1))?;
        Some(TokenGuard { liveness: self.clone(), era })
    }

    /// Notes that a token may be outside the node, where it can't be counted.
    pub(crate) fn go_abroad(&self) {
        self.change(|word| Some(word | IN_USE | ABROAD));
    }

    /// Whether tokens are in use and none is left.
    pub(crate) fn is_idle(&self) -> bool {
        u64::from(self.word.load(Relaxed) as u32) == IN_USE
    }

    /// Ends the use of tokens if none is left. Answers whether it did.
    pub(crate) fn end(&self) -> bool {
        let unseen = mutant!("seq_ends_unseen") && self.is_idle();
        let idle = |word: u64| u64::from(word as u32) == IN_USE;
        self.change(|word| (idle(word) || unseen).then_some(word & u64::MAX << ERA)).is_some()
    }

    /// Begins another era, without tokens.
    pub(crate) fn reset(&self) {
        self.change(|word| Some(((word >> ERA) + 1) << ERA));
    }

    /// Counts a dropped token of an era.
    fn release(&self, era: u64) {
        let left = self.change(|word| (word >> ERA == era || mutant!("seq_life_of_before")).then(|| word - 1));
        if left.is_some_and(|word| (word - 1) & (ABROAD | TOKENS) == 0) {
            if let Some(gone) = self.gone.get() {
                gone();
            }
        }
    }

    fn change(&self, to: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        self.word.fetch_update(SeqCst, SeqCst, to).ok()
    }
}

/// A live token, counted in its era until this is dropped.
pub struct TokenGuard {
    liveness: Arc<TokenLiveness>,
    pub(crate) era: u64,
}

impl Drop for TokenGuard {
    fn drop(&mut self) {
        self.liveness.release(self.era);
    }
}

/// The label of a token, created by [`label`](super::token::label). A token is live as long as a copy of its label exists.
#[derive(Clone)]
pub struct Label(Arc<(Box<[u8]>, Option<TokenGuard>)>);

impl Label {
    /// The same label, with the guard of a live token.
    pub(crate) fn living(self, living: TokenGuard) -> Self {
        if self.0 .1.as_ref().is_some_and(|has| has.era == living.era) {
            return self;
        }
        let bytes = Arc::try_unwrap(self.0).map_or_else(|shared| shared.0.clone(), |own| own.0);
        Self(Arc::new((bytes, Some(living))))
    }
}

impl From<Vec<u8>> for Label {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new((bytes.into(), None)))
    }
}

impl Deref for Label {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0 .0
    }
}

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Label {}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0 .0.fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn tokens_are_in_use_until_the_last_has_gone_and_that_is_asked_for() {
        static GONE: AtomicU32 = AtomicU32::new(0);
        let gone = || GONE.load(Ordering::Relaxed);
        let liveness = Arc::new(TokenLiveness::default());
        liveness.on_last_released(|| {
            GONE.fetch_add(1, Ordering::Relaxed);
        });
        assert!(!liveness.is_in_use() && !liveness.end());
        let (one, other) = (liveness.token(), liveness.token());
        drop(one);
        assert!(liveness.is_in_use() && !liveness.end() && gone() == 0);
        drop(other);
        assert!(liveness.is_in_use() && gone() == 1);
        assert!(liveness.end() && !liveness.is_in_use() && !liveness.end());
    }

    #[test]
    fn a_token_counts_in_its_own_era_only() {
        let liveness = Arc::new(TokenLiveness::default());
        let before = liveness.token();
        liveness.reset();
        assert!(!liveness.is_in_use() && liveness.era() == 1 && liveness.token_of(0).is_none());
        let (now, back) = (liveness.token(), liveness.token_of(1));
        drop((before, back));
        assert!(!liveness.end());
        drop(now);
        assert!(liveness.end());
    }

    #[test]
    fn one_that_may_be_outside_keeps_them_in_use_until_a_reset() {
        let liveness = Arc::new(TokenLiveness::default());
        liveness.go_abroad();
        drop(liveness.token());
        assert!(liveness.is_in_use() && !liveness.end());
        liveness.reset();
        assert!(!liveness.is_in_use());
    }

    #[test]
    fn a_label_lives_once_and_is_the_same_with_or_without() {
        let liveness = Arc::new(TokenLiveness::default());
        let label = Label::from(vec![97, 7]);
        let living = label.clone().living(liveness.token());
        assert_eq!((&label, &*living), (&living, &[97, 7][..]));
        let again = living.clone().living(liveness.token());
        drop(living);
        assert!(!liveness.end());
        drop(again);
        assert!(liveness.end());
    }
}
