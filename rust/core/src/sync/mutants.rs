//! The bugs that the models of this crate must find. The ring has its own table.
//!
//! `tests/loom.sh` reads this table, runs each model with `INVISO_MUTANT=<name>` and requires that it fails. Every name in the code
//! must be in a table. A run of the models chooses its mutant, so one build serves all. A build without loom has no mutants: `mutant!`
//! is false at compile time.
//!
//! | mutant | what is planted | found by |
//! | --- | --- | --- |
//! | `load_relaxed` | the current snapshot is loaded without Acquire | `current::who_sees_the_pointer_sees_the_value` |
//! | `swap_relaxed` | a snapshot is published without Release | `current::who_sees_the_pointer_sees_the_value` |
//! | `free_early` | a grace period is over at once | `current::no_reader_after_the_grace_period` |
//! | `section_unfenced` | a thread enters without the light barrier | `section::either_it_is_seen_inside_or_it_sees_the_new_value` |
//! | `section_unwaited` | the control side doesn't wait for sections | `section::either_it_is_seen_inside_or_it_sees_the_new_value` |
//! | `section_leave_relaxed` | a thread leaves without Release | `section::either_it_is_seen_inside_or_it_sees_the_new_value` |
//! | `publish_piecewise` | each function of a change is published by itself | `node::a_change_is_one_point_in_time` |
//! | `armed_late` | new events are armed after the plan that needs them is published | `node::the_end_of_a_call_that_is_waited_for_is_seen` |
//! | `restart_unsettled` | a restart doesn't wait for a grace period | `node::a_restart_loses_no_call` |
//! | `pause_unsettled` | a pause doesn't wait for a grace period | `node::no_call_is_counted_after_a_pause` |
//! | `fold_unlocked` | a thread leaves the list before its counts are folded | `node::a_thread_that_ends_is_counted_once` |
//! | `take_without_base` | a reused counter keeps its old value | `counters::a_number_used_again_starts_from_zero` |
//! | `cell_relaxed` | a cell's generation is published without Release | `counters::a_reading_is_of_one_generation` |
//! | `cell_unfenced` | a reader may see a cell's old generation with the zeroes of the new one | `counters::a_reading_is_of_one_generation` |
//! | `cell_unchecked` | a reading doesn't check the generation again | `counters::a_reading_is_of_one_generation` |
//! | `end_twice` | ALIVE to CLEARING is a load and a store | `life::one_destroyer_wins` |
//! | `dead_relaxed` | DEAD is stored without Release | `life::dead_says_that_all_is_done` |
//! | `closes_unlocked` | DEAD is stored after the list of rings is unlocked | `life::no_ring_is_left_open` |
//! | `destroy_keeps_flags` | the flags of an ended session stay in the processes | `node::an_index_used_again_brings_no_flags` |
//! | `flags_unlocked` | a change of flags checks whether the session lives before it locks the registry | `node::an_index_used_again_brings_no_flags` |
//! | `process_ends_unlocked` | the first of two callers that end a process is chosen before the registry is locked | `node::a_process_ends_once` |
//! | `first_spawn_split` | `set_on_first_spawn` is taken by a load and a store | `life::the_first_child_is_one` |
//! | `drains_mix` | a second drain runs while the first hands over its records | `delivery::two_drains_keep_the_order` |
//! | `drain_uncut` | a drain takes records that are written while it visits the rings | `delivery::a_cause_is_taken_with_what_came_of_it` |
//! | `drain_lists_early` | a drain lists the rings before it reads the time | `delivery::a_cause_is_taken_with_what_came_of_it` |
//! | `delivered_early` | records count as delivered before the consumer has them | `delivery::delivered_means_taken` |
//! | `delivered_relaxed` | `delivered` is stored without Release | `delivery::delivered_means_taken` |
//! | `spilled_delivered` | spilled records count as delivered before the consumer has them | `delivery::what_is_spilled_is_taken_once_and_delivered_when_it_is` |
//! | `call_leaves_relaxed` | a call of a tracer module ends without Release | `tracer_calls::no_call_outlasts_the_end` |
//! | `call_looks_first` | a caller of a tracer module checks whether the gate is closed before it enters | `tracer_calls::no_call_outlasts_the_end` |
//! | `close_unwaited` | the end of a session doesn't wait for the calls of its tracer module | `tracer_calls::no_call_outlasts_the_end` |
//! | `seq_revived` | the era of a process's token is not checked | `seq::a_reset_reaches_what_is_under_way` |
//! | `seq_life_of_before` | a token from before a reset reduces the count after it | `seq::a_token_of_before_a_reset_takes_none_of_after_it_away` |
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
    // std's type, which loom doesn't see: models must not explore it
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
