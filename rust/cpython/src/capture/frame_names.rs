//! The name of a frame's function, and its arguments, as terms.

use super::{atom_of_str, encode, Limits};
use crate::{
    frames::frame::{self, CodeLayout, Frame},
    object::held::Held,
};
use inviso_term::etf::{Encoder, Full};

/// Writes `(module, function, arity)` of a frame's function.
pub fn write_name(frame: Frame, out: &mut Encoder<'_>) -> Result<(), Full> {
    out.tuple(3)?;
    write_module_and_function(frame, out)?;
    // SAFETY: the frame runs or is the caller of a frame that runs. Its code lives as long.
    out.int(unsafe { frame::arity(frame.code()) } as i64)
}

/// Writes the module and the qualified name of a frame's function, as two atoms.
pub fn write_module_and_function(frame: Frame, out: &mut Encoder<'_>) -> Result<(), Full> {
    let (module, function) = module_and_function(frame);
    // SAFETY: `object` is held; the thread is attached.
    unsafe {
        atom_of_str(module.as_ptr(), out)?;
        atom_of_str(function.as_ptr(), out)
    }
}

/// The module of a frame's function (or its file if it has no module), and its qualified name. Both live as long as the
/// frame runs, waits in a generator, or is the caller of a frame that runs.
#[inline(always)]
pub fn module_and_function(frame: Frame) -> (Held, Held) {
    // SAFETY: the frame's code, function and globals live as long as the frame.
    unsafe {
        let code = frame.code();
        let mut module = frame::module_of(frame.globals());
        if module.is_null() {
            module = Held::borrowed(frame::code_filename(code));
        }
        (module, frame::name_of(frame.function(), code))
    }
}

/// Writes the arguments of a frame that has just begun, as a list in the order of the signature.
pub fn write_arguments(frame: Frame, out: &mut Encoder<'_>, limits: &Limits) -> Result<(), Full> {
    // SAFETY: the frame's code lives as long as the frame. When a call begins, the first slots of the frame hold its
    // arguments.
    unsafe {
        let layout = CodeLayout::read(frame.code());
        let arity = layout.arity();
        if arity > 0 {
            out.list(arity)?;
        }
        for n in 0..arity {
            let value = frame.argument(&layout, n);
            encode(value.as_ptr(), out, limits)?;
        }
        out.nil()
    }
}
