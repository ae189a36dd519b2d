//! Numbered messages. A reader can check their order and count losses.

/// A binary of at least four bytes, which begin with the number.
pub fn message(n: u32, bytes: usize) -> Vec<u8> {
    let mut term = vec![131, 109];
    term.extend((bytes as u32).to_be_bytes());
    term.extend(n.to_be_bytes());
    term.resize(6 + bytes.max(4), 7);
    term
}
