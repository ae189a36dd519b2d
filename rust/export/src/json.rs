//! The parts of JSON that the writers need.

use std::io::Write;

/// Appends a text in quotes.
///
/// ```
/// let mut out = Vec::new();
/// inviso_export::json::text("a \"b\"\n", &mut out);
/// assert_eq!(out, br#""a \"b\"\n""#);
/// ```
pub fn text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        match special.as_bytes().first().copied().unwrap_or_default() {
            b'\n' => out.extend_from_slice(b"\\n"),
            byte @ (b'"' | b'\\') => out.extend([b'\\', byte]),
            byte => drop(write!(out, "\\u{byte:04x}")),
        }
        rest = special.get(1..).unwrap_or_default();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Appends `"name":` and a text.
pub fn field(name: &str, value: &str, out: &mut Vec<u8>) {
    text(name, out);
    out.push(b':');
    text(value, out);
}
