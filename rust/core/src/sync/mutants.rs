//! The bugs that the models of this crate's own protocols must find; the ring has a table of its own.
//!
//! `tests/loom.sh` reads this table, runs the model named here with `INVISO_MUTANT=<name>` and demands that it fails. Every
//! name that the code knows must stand in a table. A mutant is chosen when the models run, so one build serves all; a build
//! without loom has none of them: `mutant!` is false there when it is compiled.
//!
//! | mutant | what is planted | found by |
//! | --- | --- | --- |
//! | `load_relaxed` | the current snapshot is loaded without Acquire | `current::who_sees_the_pointer_sees_the_value` |
//! | `swap_relaxed` | a snapshot is published without Release | `current::who_sees_the_pointer_sees_the_value` |
//! | `free_early` | a grace period is over at once | `current::no_reader_after_the_grace_period` |
//! | `section_unfenced` | a thread enters without the light barrier | `section::either_it_is_seen_inside_or_it_sees_the_new_value` |
//! | `section_unwaited` | nobody waits for sections | `section::either_it_is_seen_inside_or_it_sees_the_new_value` |
//! | `section_leave_relaxed` | a thread leaves without Release | `section::either_it_is_seen_inside_or_it_sees_the_new_value` |
//! | `publish_piecewise` | each function of a change is published by itself | `node::a_change_is_one_point_in_time` |
//! | `armed_late` | new events are asked for when they are wanted already | `node::the_end_of_a_call_that_is_waited_for_is_seen` |
//! | `restart_unsettled` | a restart doesn't wait for a grace period | `node::a_restart_loses_no_call` |
//! | `pause_unsettled` | a pause doesn't wait for a grace period | `node::no_call_is_counted_after_a_pause` |
//! | `fold_unlocked` | a thread leaves the list before its counts are taken over | `node::a_thread_that_ends_is_counted_once` |
//! | `take_without_base` | a counter that is used again goes on from where it stood | `counters::a_number_used_again_starts_from_zero` |
//! | `cell_relaxed` | a cell's generation is published without Release | `counters::a_reading_is_of_one_generation` |
//! | `cell_unfenced` | a cell's old generation may be seen beside the new one's zeroes | `counters::a_reading_is_of_one_generation` |
//! | `cell_unchecked` | a reading doesn't look at the generation again | `counters::a_reading_is_of_one_generation` |
//! | `end_twice` | ALIVE to CLEARING is a load and a store | `life::one_destroyer_wins` |
//! | `dead_relaxed` | DEAD is stored without Release | `life::dead_says_that_all_is_done` |
//! | `closes_unlocked` | DEAD is stored after the list of rings was let go of | `life::no_ring_is_left_open` |
//! | `destroy_keeps_flags` | the flags of a session that ends stay with the processes | `node::an_index_used_again_brings_no_flags` |
//! | `flags_unlocked` | a change of flags looks whether the session lives before it holds the processes | `node::an_index_used_again_brings_no_flags` |
//! | `process_ends_unlocked` | who ends a process is found out before the processes are held | `node::a_process_ends_once` |
//! | `first_spawn_split` | `set_on_first_spawn` is taken by a load and a store | `life::the_first_child_is_one` |
//! | `drains_mix` | a second drain goes on while the first hands its records over | `delivery::two_drains_keep_the_order` |
//! | `drain_uncut` | a drain takes what is written while it looks at one ring after the other | `delivery::a_cause_is_taken_with_what_came_of_it` |
//! | `drain_lists_early` | a drain asks which rings there are before it notes the time | `delivery::a_cause_is_taken_with_what_came_of_it` |
//! | `delivered_early` | records count as delivered before the taker has them | `delivery::delivered_means_taken` |
//! | `delivered_relaxed` | `delivered` is stored without Release | `delivery::delivered_means_taken` |
//! | `spilled_delivered` | what is spilled counts as delivered before the taker has it | `delivery::what_is_spilled_is_taken_once_and_delivered_when_it_is` |
//! | `turn_read_early` | the counter is read before the turn is taken | `order::what_comes_after_has_more_ticks` |
//! | `turn_kept_unseen` | a turn that another thread took meanwhile is kept | `order::a_turn_that_was_taken_meanwhile_is_taken_back` |
//! | `turn_unlooked` | a thread goes on by its own count, whoever had the turn | `order::what_comes_after_has_more_ticks` |
//! | `call_leaves_relaxed` | a call of a tracer module ends without Release | `tracer_calls::no_call_outlasts_the_end` |
//! | `call_looks_first` | who calls a tracer module looks whether it is closed before coming in | `tracer_calls::no_call_outlasts_the_end` |
//! | `close_unwaited` | the end of a session doesn't wait for calls of its tracer module | `tracer_calls::no_call_outlasts_the_end` |
//! | `seq_revived` | what stands in a process is not looked at for its era | `seq::a_reset_reaches_what_is_under_way` |
//! | `seq_life_of_before` | a token of before a reset is taken from the count after it | `seq::a_token_of_before_a_reset_takes_none_of_after_it_away` |
//! | `seq_ends_unseen` | tokens go out of use by a load and a store | `seq::a_token_that_comes_as_they_go_out_of_use_is_in_use` |

use crate::sync::Ordering;

/// Whether this run of the models has the named bug.
macro_rules! mutant {
    ($name:literal) => {
        cfg!(loom) && $crate::sync::mutants::is_planted($name)
    };
}
pub(crate) use mutant;

/// Whether `INVISO_MUTANT` is `name`.
pub(crate) fn is_planted(name: &str) -> bool {
    // std's, which loom doesn't see: no model may explore it.
    static PLANTED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("INVISO_MUTANT").unwrap_or_default()) == name
}

/// An ordering, and the mutant that relaxes it.
pub(crate) struct Edge(pub Ordering, pub &'static str);

impl Edge {
    #[inline(always)]
    pub(crate) fn order(&self) -> Ordering {
        if cfg!(loom) && is_planted(self.1) {
            Ordering::Relaxed
        } else {
            self.0
        }
    }
}
