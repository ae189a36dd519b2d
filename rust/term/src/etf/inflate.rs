//! Compressed terms: a size, then the term in zlib's format.
//!
//! Erlang writes them on request (`term_to_binary/2`, `compressed`), and only for whole terms. So there is no compressed term
//! inside another term.

use super::decode::DecodeError;
use flate2::{Decompress, FlushDecompress, Status};

/// The largest growth of the buffer in one step, in bytes. The claimed size is not trusted.
const STEP: usize = 64 << 10;

/// The bytes of the term, without a version byte, and the length of the compressed bytes. The term must have exactly `size`
/// bytes.
pub(super) fn inflate(compressed: &[u8], size: usize) -> Result<(Vec<u8>, usize), DecodeError> {
    let mut zlib = Decompress::new(true);
    let mut term = Vec::new();
    loop {
        let (read, made) = (zlib.total_in(), term.len());
        // one byte more than allowed, to notice a longer term
        term.reserve_exact(STEP.min(size + 1 - made));
        let rest = usize::try_from(read).ok().and_then(|read| compressed.get(read..)).unwrap_or_default();
        let status = zlib.decompress_vec(rest, &mut term, FlushDecompress::None);
        if term.len() > size {
            return Err(DecodeError::Compressed);
        }
        match status {
            Ok(Status::StreamEnd) if term.len() == size => return Ok((term, zlib.total_in() as usize)),
            Ok(Status::Ok | Status::BufError) if zlib.total_in() > read || term.len() > made => {}
            Ok(Status::Ok | Status::BufError) if rest.is_empty() => return Err(DecodeError::Short),
            _ => return Err(DecodeError::Compressed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{write::ZlibEncoder, Compression};
    use std::io::Write;

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut out = ZlibEncoder::new(Vec::new(), Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn a_term_has_exactly_its_size() {
        for size in [0, 1, 2, STEP - 1, STEP, STEP + 1, 3 * STEP, 1 << 20] {
            let bytes: Vec<u8> = (0..size).map(|n| (n / 7) as u8).collect();
            let mut compressed = deflate(&bytes);
            let length = compressed.len();
            compressed.extend([1, 2, 3]);
            assert_eq!(inflate(&compressed, size), Ok((bytes, length)), "{size}");
            assert_eq!(inflate(&compressed, size + 1), Err(DecodeError::Compressed), "{size}");
            if size > 0 {
                assert_eq!(inflate(&compressed, size - 1), Err(DecodeError::Compressed), "{size}");
            }
        }
    }

    #[test]
    fn a_cut_is_short_and_damage_is_damage() {
        let compressed = deflate(b"a term, a term, a term");
        for length in 0..compressed.len() {
            assert_eq!(inflate(&compressed[..length], 22), Err(DecodeError::Short), "{length}");
        }
        for at in 0..compressed.len() {
            let mut damaged = compressed.clone();
            damaged[at] ^= 0x55;
            assert!(inflate(&damaged, 22).is_err(), "{at}");
        }
    }

    #[test]
    fn a_claimed_size_takes_no_memory() {
        let (term, _) = inflate(&deflate(&[0; 100]), 100).unwrap();
        assert!(term.capacity() < STEP);
        assert_eq!(inflate(&deflate(&[0; 100]), usize::MAX - 1), Err(DecodeError::Compressed));
    }
}
