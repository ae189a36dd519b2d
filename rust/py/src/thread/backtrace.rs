//! Callers and stacks as terms, for match specs that request them. Uses the interpreter's own frame objects, which run
//! no code of the program.

use inviso_core::host::{matching, tracee::Tracee};
use inviso_term::{
    etf::{self, Encoder},
    term::Term,
};
use pyo3::ffi::{self, PyObject};

use inviso_cpython::{
    capture::frame_names::write_name,
    frames::{code, frame::Frame},
    interpreter::Uncollected,
    object::held::Held,
};

extern "C" {
    fn PyThreadState_GetFrame(tstate: *mut ffi::PyThreadState) -> *mut PyObject;
    fn PyFrame_GetBack(frame: *mut PyObject) -> *mut PyObject;
    fn PyFrame_GetLineNumber(frame: *mut PyObject) -> std::ffi::c_int;
}

/// `{M, F, A}`, or with its current line `{M, F, A, {File, Line}}`; `undefined` if there is no caller.
pub fn caller(frame: Option<Frame>, line: bool) -> Term {
    let Some(frame) = frame else { return Term::atom("undefined") };
    let mut parts = name(frame);
    if line {
        let line = Walk::from(frame).next().map_or(0, |(_, line)| line);
        parts.push(Term::Tuple(vec![file(frame), Term::from(line)]));
    }
    Term::Tuple(parts)
}

/// `[{M, F, A, [{file, File}, {line, Line}]}]`, beginning with `first`, at most `depth` entries.
pub fn calls(first: Option<Frame>, depth: usize) -> Term {
    let Some(first) = first else { return Term::List(Vec::new()) };
    let place = |(frame, line): (Frame, i64)| {
        let mut parts = name(frame);
        let file = Term::Tuple(vec![Term::atom("file"), file(frame)]);
        let line = Term::Tuple(vec![Term::atom("line"), Term::from(line)]);
        parts.push(Term::List(vec![file, line]));
        Term::Tuple(parts)
    };
    Term::List(Walk::from(first).take(depth).map(place).collect())
}

/// A description of the running process for people, as a binary. `begins` is a call that is just beginning; on 3.11 it
/// is not yet among the interpreter's frames.
pub fn describe(current: &Tracee, begins: Option<Frame>, caller: Option<Frame>) -> Term {
    const MOST: usize = 64;
    const LARGEST: usize = 3000; // fits a message by the limits that a session has unless told otherwise
    let mut text = matching::headline(current) + &format!("Kind: {:?}\nState: running\nStack:\n", current.kind);
    // SAFETY: the event's frame runs, and its code lives as long.
    let begins = begins.map(|frame| (frame, i64::from(unsafe { code::code_first_line(frame.code()) })));
    for (frame, line) in begins.into_iter().chain(caller.into_iter().flat_map(Walk::from)).take(MOST) {
        let parts: Vec<String> = name(frame).iter().map(Term::to_string).collect();
        let line = format!("  {}, {}:{line}\n", parts.join(":"), file(frame));
        if text.len() + line.len() > LARGEST {
            text += "  ...\n";
            break;
        }
        text += &line;
    }
    Term::str(&text)
}

/// Module, function and arity.
fn name(frame: Frame) -> Vec<Term> {
    let mut buffer = [0; 2048];
    let mut out = Encoder::new(&mut buffer);
    let written = write_name(frame, &mut out);
    match written.ok().and_then(|()| etf::decode(out.written()).ok()) {
        Some(Term::Tuple(parts)) => parts,
        _ => vec![Term::atom("undefined"), Term::atom("undefined"), Term::from(0)],
    }
}

fn file(frame: Frame) -> Term {
    // SAFETY: the frame runs, or waits for one that runs. Its code and the code's file name live as long.
    unsafe { inviso_cpython::capture::text_of(code::code_filename(frame.code())) }
        .map_or_else(|| Term::str(""), |text| Term::str(&text))
}

/// The frames of this thread, beginning with `first`, each with its current line.
struct Walk {
    object: Held,
    first: Option<Frame>,
    _uncollected: Uncollected,
}

impl Walk {
    fn from(first: Frame) -> Walk {
        // SAFETY: attached, as in every event. On 3.11 making a frame object may start a collection, which runs code;
        // `Uncollected` prevents that.
        unsafe {
            Walk {
                _uncollected: Uncollected::new(),
                object: Held::owned(PyThreadState_GetFrame(inviso_cpython::interpreter::tstate())),
                first: Some(first),
            }
        }
    }
}

impl Iterator for Walk {
    type Item = (Frame, i64);

    fn next(&mut self) -> Option<(Frame, i64)> {
        loop {
            if self.object.is_null() {
                return None;
            }
            // SAFETY: `object` is a held frame object, whose frame runs or waits.
            unsafe {
                let object = self.object.as_ptr();
                let frame = Frame::of_object(object);
                let line = PyFrame_GetLineNumber(object);
                self.object = Held::owned(PyFrame_GetBack(object));
                let frame = frame?;
                if self.first.is_some_and(|first| first.address() != frame.address()) {
                    continue;
                }
                self.first = None;
                return Some((frame, i64::from(line)));
            }
        }
    }
}
