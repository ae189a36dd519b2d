//! The ring's memory orderings by name, and the bugs that its models must find.
//!
//! `tests/loom.sh` plants each mutant of this table and requires that the named model fails (`crate::sync::mutants`). Other models find
//! most of them, too.
//!
//! | mutant | what is planted | found by |
//! | --- | --- | --- |
//! | `commit_relaxed` | `head` is stored without Release | `drop_keeps_the_oldest_and_marks_the_loss` |
//! | `commit_seen_relaxed` | `head` is loaded without Acquire | `overwrite_keeps_the_newest` |
//! | `commit_early` | `head` is stored before the record is written | `records_have_any_length` |
//! | `turn_relaxed` | `current` is stored without Release | `drop_keeps_the_oldest_and_marks_the_loss` |
//! | `turn_seen_relaxed` | `current` is loaded without Acquire | `overwrite_keeps_the_newest` |
//! | `turn_early` | `current` is stored before the page is live | `drop_keeps_the_oldest_and_marks_the_loss` |
//! | `give_back_relaxed` | the reader releases a page without Release ordering | `overwrite_keeps_the_newest` |
//! | `give_back_seen_relaxed` | the producer takes a page without Acquire | `overwrite_keeps_the_newest` |
//! | `give_back_early` | the reader releases the page before the closure has read the record | `overwrite_keeps_the_newest` |
//! | `took_relaxed` | `tail` is stored without Release | `delivered_means_that_the_tracer_has_it` |
//! | `took_seen_relaxed` | `tail` is loaded without Acquire | `delivered_means_that_the_tracer_has_it` |
//! | `took_early` | `tail` is moved before the closure took the record | `delivered_means_that_the_tracer_has_it` |
//! | `ended_relaxed` | `ended` is stored without Release | `nothing_comes_after_the_end` |
//! | `ended_seen_relaxed` | `ended` is loaded without Acquire | `nothing_comes_after_the_end` |
//! | `unsealed` | a full page isn't sealed | `records_have_any_length` |
//! | `takes_held` | an overwriting producer takes a page that a reader holds | `overwrite_keeps_the_newest` |
//! | `takes_live` | a dropping producer takes a page that wasn't read | `drop_keeps_the_oldest_and_marks_the_loss` |
//! | `never_skips` | an overwriting producer loses the new record when a reader holds the oldest page | `overwrite_passes_by_the_page_that_a_reader_holds` |
//! | `tries_once` | an overwriting producer doesn't try again a page that a reader held and then left | `overwrite_finds_a_page_behind_a_reader_that_goes_on` |
//! | `counts_read` | records of an overwritten page count as lost although they were read | `overwrite_keeps_the_newest` |
//! | `counts_none` | records of an overwritten page aren't counted | `overwrite_keeps_the_newest` |
//! | `counts_twice` | a lost record counts twice in `lost` | `block_gives_up_after_its_limit` |
//! | `loses_silently` | a lost record isn't counted in `head` | `drop_keeps_the_oldest_and_marks_the_loss` |
//! | `hides_gap` | the reader moves over a gap without a drop record | `overwrite_passes_by_the_page_that_a_reader_holds` |
//! | `frees_open` | a drain that ends frees its page although it isn't sealed and read to its end | `drop_keeps_the_oldest_and_marks_the_loss` |
//! | `forgets_read` | the reader releases a page as if no record had been read | `drop_keeps_the_oldest_and_marks_the_loss` |
//! | `never_frees` | the reader doesn't free a page that it read to its end | `drop_keeps_the_oldest_and_marks_the_loss` |
//! | `waits_its_turn` | a second drain waits for the first one | `two_drains_take_each_record_once` |
//! | `ignores_close` | a push doesn't check `closed` | `closing_refuses_what_comes_later_and_keeps_the_rest` |
//! | `close_wakes_nobody` | closing doesn't wake a push that waits | `closing_ends_a_wait` |
//! | `room_wakes_nobody` | freeing a page doesn't wake a push that waits | `block_loses_nothing_while_it_may_wait` |
//! | `wakes_unlocked` | the waker doesn't pass through the lock | `block_loses_nothing_while_it_may_wait` |
//! | `waits_unchecked` | a push waits without a check under the lock | `block_loses_nothing_while_it_may_wait` |

/// The edges of the table in `ring`: the writer's and the reader's ordering of each.
pub(super) mod edge {
    use crate::sync::{
        mutants::Edge,
        Ordering::{Acquire, Release},
    };

    pub(in crate::ring) const COMMIT: Edge = Edge(Release, "commit_relaxed");
    pub(in crate::ring) const COMMIT_SEEN: Edge = Edge(Acquire, "commit_seen_relaxed");
    pub(in crate::ring) const TURN: Edge = Edge(Release, "turn_relaxed");
    pub(in crate::ring) const TURN_SEEN: Edge = Edge(Acquire, "turn_seen_relaxed");
    pub(in crate::ring) const GIVE_BACK: Edge = Edge(Release, "give_back_relaxed");
    pub(in crate::ring) const GIVE_BACK_SEEN: Edge = Edge(Acquire, "give_back_seen_relaxed");
    pub(in crate::ring) const TOOK: Edge = Edge(Release, "took_relaxed");
    pub(in crate::ring) const TOOK_SEEN: Edge = Edge(Acquire, "took_seen_relaxed");
    pub(in crate::ring) const ENDED: Edge = Edge(Release, "ended_relaxed");
    pub(in crate::ring) const ENDED_SEEN: Edge = Edge(Acquire, "ended_seen_relaxed");
}
