//! Whether a frame of CPython 3.11 catches what the function raises that it has called: there is no event for it, but the
//! code's table of handlers says so.
//!
//! The table (`co_exceptiontable`) is a run of entries of four numbers: first instruction, how many, where the handler is,
//! and how deep its stack. Numbers are in base 64, the high digit first; a byte's bit 6 says that there is a further digit,
//! bit 7 that an entry begins. Instructions count two bytes each; the entries are in the order of their beginnings and do
//! not overlap.

use pyo3::ffi::{self, PyObject};

use super::frame::Frame;
use crate::layout::{self, at, eval};

const ENTRY: u8 = 0x80;
const MORE: u8 = 0x40;
const DIGIT: u8 = 0x3f;

/// `PUSH_EXC_INFO`, which begins every handler of the program's own, and `RERAISE`, which ends the compiler's. Neither has a
/// specialised form.
const PUSH_EXC_INFO: u8 = 35;
const RERAISE: u8 = 119;

/// Whether an exception that comes out of the call that `frame` makes now will find a handler there: an `except` that may
/// match or not, a `finally`, the end of a `with`. Those that the compiler makes to tidy up raise it again, and don't count.
///
/// # Safety
/// The frame is running a call, is no shim, and the offsets are checked.
#[cold]
#[inline(never)]
pub unsafe fn catches(frame: Frame) -> bool {
    // SAFETY: the code object and its table are alive as long as the frame; the instruction lies in the code.
    unsafe {
        let code = frame.code();
        let first = code as usize + eval::INSTRUCTIONS;
        let opcode = |instruction: usize| at::<u8>(code.cast(), eval::INSTRUCTIONS + instruction * 2);
        let length = ffi::Py_SIZE(code) as usize;
        let mut instruction = frame.last_instruction().wrapping_sub(first) / 2;
        // handlers lie behind what they are for
        while let Some(handler) = handler(table(code), instruction).filter(|h| (instruction + 1..length).contains(h)) {
            if opcode(handler) == PUSH_EXC_INFO {
                return true;
            }
            match (handler..length).find(|i| opcode(*i) == RERAISE) {
                Some(again) => instruction = again,
                None => return false,
            }
        }
        false
    }
}

/// The table of a code object.
///
/// # Safety
/// `code` is a code object that outlives the result, and the offsets are checked.
pub(crate) unsafe fn table<'a>(code: *mut PyObject) -> &'a [u8] {
    // SAFETY: a bytes object that the code owns and never changes.
    unsafe {
        let bytes: *mut PyObject = at(code.cast(), eval::EXCEPTION_TABLE);
        let data = bytes.cast::<u8>().add(layout::BYTES_DATA);
        std::slice::from_raw_parts(data, ffi::PyBytes_Size(bytes) as usize)
    }
}

/// The handler of an instruction.
fn handler(table: &[u8], instruction: usize) -> Option<usize> {
    let mut rest = table.iter().copied().peekable();
    while rest.peek().is_some() {
        let mut number = || {
            let mut sum = 0;
            for byte in rest.by_ref() {
                sum = sum << 6 | usize::from(byte & !ENTRY & DIGIT);
                if byte & MORE == 0 {
                    break;
                }
            }
            sum
        };
        let (first, length, handler, _depth) = (number(), number(), number(), number());
        if instruction < first {
            return None;
        }
        if instruction - first < length {
            return Some(handler);
        }
    }
    None
}
