//! The CPython host of inviso: `inviso._native`.

mod api;
mod control;
mod convert;
mod delivery;
mod directory;
mod door;
mod entry;
mod host;
mod instrument;
mod library;
mod processes;
mod state;
mod thread;

/// The native half of inviso. Its names are private to the package.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::state::above::give(crate::host::above::above());
        crate::door::keep_panics();
        inviso_cpython::interpreter::again::set_inside(crate::door::is_inside);
        // without the C module there is none of its queues
        let _missing = crate::library::queues::simple_queue::take_waits(module.py());
        Ok(())
    }

    #[pymodule_export]
    use crate::api::descriptor::{descriptor_file, descriptor_write};
    #[pymodule_export]
    use crate::api::etf::{etf_dumps, etf_loads};
    #[pymodule_export]
    use crate::api::export::{ArrowRows, Exporter};
    #[pymodule_export]
    use crate::api::fork::after_fork_in_child;
    #[pymodule_export]
    use crate::api::library::Library;
    #[pymodule_export]
    use crate::api::log::{log_connect, log_write, LogReader};
    #[pymodule_export]
    use crate::api::match_spec::{match_compile, match_spec_test, MatchProgram};
    #[pymodule_export]
    use crate::api::merge::{etf_text, log_stats, LogMerge};
    #[pymodule_export]
    use crate::api::pickles::{pickle_failed, pickled, seq_start, seq_started, unpickled};
    #[pymodule_export]
    use crate::api::processes::{
        announce_thread, become_process, call_soon, control_word, enter_process, hide, hide_thread, is_ready,
        mailbox_leave, mailbox_peek, mailbox_put, mailbox_receive, mailbox_wait, new_process, node_name, object_of,
        pid_of, pid_of_made, process_names, processes, renounce_thread, resign, self_pid, set_control_word,
        set_node_name, set_process_name, timed_out,
    };
    #[pymodule_export]
    use crate::api::relations_api::{
        demonitor, exit_signal, leaving, link, linking, links_of, monitor, note_exit, put_in, register, registered,
        send, send_by_clock, trap_exit, unlink, unregister, whereis,
    };
    #[pymodule_export]
    use crate::api::run::{call_at_bottom, cover};
    #[pymodule_export]
    use crate::api::seq::{
        seq_carrier, seq_clear, seq_label_limits, seq_overflows, seq_print, seq_reset, seq_set_flags, seq_set_label,
        seq_set_serial, seq_set_tracer, seq_token, seq_tracer,
    };
    #[pymodule_export]
    use crate::api::session::Session;
    #[pymodule_export]
    use crate::api::session_create::{function_exists, has_cpu_clock, port_exists, session_create, sessions};
    #[pymodule_export]
    use crate::api::table::table_stream;
    #[pymodule_export]
    use crate::api::trace_port::{
        port_to_file, port_to_set, port_to_socket, ports_end, ports_pause, ports_rest, ports_resume, set_program,
        thread_numbers, LogPort,
    };
    #[pymodule_export]
    use crate::api::tracer::{tracer_pairs, TracerFunction};
    #[pymodule_export]
    use crate::api::wire::{
        binary_to_term, seq_exchange, seq_extract, seq_inject, term_to_binary, SeqAside, SeqSending,
    };
    #[pymodule_export]
    use crate::convert::errors::{LimitReached, ProcessDead, SessionDead};
    #[pymodule_export]
    use crate::convert::pid::{origin, origin_is, origin_of, pid_of_node, show_first_as_here, Pid};
    #[pymodule_export]
    use crate::entry::builtin::take_builtin;
    #[pymodule_export]
    use crate::entry::ending::{ending_follow, ending_give, ending_take, ending_wait, ending_wake};
    #[pymodule_export]
    use crate::entry::fault::fail_at;
    #[pymodule_export]
    use crate::library::collector::set_max_heap_size;
    #[pymodule_export]
    use crate::library::loops::loop_lag::{event_loops, LoopProbe};
    #[pymodule_export]
    use crate::library::ports::functions::{new_port, port_name, port_object, port_of, ports};
}
