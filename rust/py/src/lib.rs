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

/// The native half of inviso, in modules by topic. Its names are private to the package.
#[pyo3::pymodule(gil_used = false, module = "inviso")]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::state::above::give(crate::host::above::above());
        crate::door::keep_panics();
        inviso_cpython::interpreter::again::set_inside(crate::door::is_inside);
        // without the C module there is none of its queues
        let _missing = crate::library::queues::simple_queue::take_waits(module.py());
        let modules = module.py().import("sys")?.getattr("modules")?;
        for (_, inner) in module.dict() {
            if let Ok(inner) = inner.cast::<PyModule>() {
                modules.set_item(inner.name()?, inner)?;
            }
        }
        Ok(())
    }

    /// Processes: threads, tasks, queues, and their pids.
    #[pymodule]
    mod process {
        #[pymodule_export]
        use crate::api::processes::{
            announce_thread, become_process, enter_process, hide, hide_thread, new_process, node_name, object_of,
            pid_of, pid_of_made, process_names, processes, renounce_thread, resign, self_pid, set_node_name,
            set_process_name,
        };
        #[pymodule_export]
        use crate::convert::errors::ProcessDead;
        #[pymodule_export]
        use crate::convert::pid::{origin, origin_is, origin_of, pid_of_node, show_first_as_here, Pid};
        #[pymodule_export]
        use crate::library::collector::set_max_heap_size;
    }

    /// Mailboxes of processes.
    #[pymodule]
    mod mailbox {
        #[pymodule_export]
        use crate::api::mailbox::{leave, peek, put, receive, timed_out, wait};
    }

    /// Links, monitors, names of processes, messages to them.
    #[pymodule]
    mod relations {
        #[pymodule_export]
        use crate::api::relations_api::{
            demonitor, exit_signal, leaving, link, linking, links_of, monitor, note_exit, put_in, register, registered,
            send, send_by_clock, trap_exit, unlink, unregister, whereis,
        };
    }

    /// The token of `seq_trace`.
    #[pymodule]
    mod seq {
        #[pymodule_export]
        use crate::api::pickles::{fail_at_pickles, pickle_failed, pickled, start, started, unpickled};
        #[pymodule_export]
        use crate::api::seq::{
            carrier, clear, label_limits, overflows, print, reset, set_flags, set_label, set_serial, set_tracer, token,
            tracer,
        };
        #[pymodule_export]
        use crate::api::wire::{exchange, extract, inject, SeqAside, SeqSending};
    }

    /// Trace sessions and tracers.
    #[pymodule]
    mod trace {
        #[pymodule_export]
        use crate::api::library::Library;
        #[pymodule_export]
        use crate::api::session::Session;
        #[pymodule_export]
        use crate::api::session_create::{function_exists, has_cpu_clock, port_exists, session_create, sessions};
        #[pymodule_export]
        use crate::api::tracer::{tracer_pairs, TracerFunction};
        #[pymodule_export]
        use crate::convert::errors::{LimitReached, SessionDead};
    }

    /// Match specifications.
    #[pymodule]
    mod match_spec {
        #[pymodule_export]
        use crate::api::match_spec::{compile, control_word, set_control_word, test, MatchProgram};
    }

    /// Ports: files, sockets and other objects that are traced as ports.
    #[pymodule]
    mod port {
        #[pymodule_export]
        use crate::library::ports::functions::{new_port, port_name, port_object, port_of, ports};
    }

    /// Trace ports, which write a session's messages.
    #[pymodule]
    mod trace_port {
        #[pymodule_export]
        use crate::api::trace_port::{
            port_to_file, port_to_set, port_to_socket, ports_end, ports_pause, ports_rest, ports_resume, set_program,
            thread_numbers, LogPort,
        };
    }

    /// Logs, read and merged.
    #[pymodule]
    mod log {
        #[pymodule_export]
        use crate::api::log::{connect, write, LogReader};
        #[pymodule_export]
        use crate::api::merge::{stats, LogMerge};
    }

    /// Logs and messages in the formats of other tools, and in tables.
    #[pymodule]
    mod export {
        #[pymodule_export]
        use crate::api::export::{ArrowRows, Exporter};
        #[pymodule_export]
        use crate::api::table::table_stream;
    }

    /// Erlang's external term format.
    #[pymodule]
    mod etf {
        #[pymodule_export]
        use crate::api::etf::{dumps, loads};
        #[pymodule_export]
        use crate::api::merge::text;
        #[pymodule_export]
        use crate::api::wire::{binary_to_term, term_to_binary};
    }

    /// What the package needs of the interpreter and its process.
    #[pymodule]
    mod interpreter {
        #[pymodule_export]
        use crate::api::about::facts;
        #[pymodule_export]
        use crate::api::descriptor::{descriptor_file, descriptor_write};
        #[pymodule_export]
        use crate::api::fork::after_fork_in_child;
        #[pymodule_export]
        use crate::api::interpreter::{call_at_bottom, call_soon, cover, is_ready};
        #[pymodule_export]
        use crate::entry::builtin::take_builtin;
        #[pymodule_export]
        use crate::entry::fault::fail_at;
        #[pymodule_export]
        use crate::library::loops::loop_lag::{event_loops, LoopProbe};
    }

    /// Signals that end the program, which wait until results are written.
    #[pymodule]
    mod ending {
        #[pymodule_export]
        use crate::entry::ending::{follow, give, take, wait, wake};
    }
}
