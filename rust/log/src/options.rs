//! The options of a file, below its buffer.

/// Options of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its form.
    pub form: Form,
    /// The size of the buffer in bytes. A longer record is written alone. For blocks, 16 MiB at most.
    pub room: usize,
    /// Whether an existing file is an error. Else it is emptied.
    pub new: bool,
}

impl Default for Options {
    /// Erlang's form, 64 KiB, an existing file is emptied.
    fn default() -> Self {
        Options { form: Form::Erlang, room: 64 << 10, new: false }
    }
}

/// The form of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The form of Erlang's trace ports.
    #[default]
    Erlang,
    /// Compressed, for the readers of this crate only ([`crate::blocks`]).
    Blocks,
}
