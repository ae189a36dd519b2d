//! The parts of Protobuf's wire format that the writers need.

/// A message that is being built.
///
/// ```
/// use inviso_export::proto::Message;
/// let mut message = Message::default();
/// message.int(1, 300);
/// message.bytes(2, b"a");
/// let mut out = Vec::new();
/// message.add_to(3, &mut out);
/// assert_eq!(out, [26, 6, 8, 172, 2, 18, 1, b'a']);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Removes all fields.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether it has no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a field of a number, a boolean or an enumeration.
    #[inline]
    pub fn int(&mut self, field: u32, value: u64) {
        varint(u64::from(field) << 3, &mut self.0);
        varint(value, &mut self.0);
    }

    /// Adds a field of 8 bytes.
    pub fn fixed(&mut self, field: u32, value: u64) {
        varint(u64::from(field) << 3 | 1, &mut self.0);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a field of text or bytes.
    #[inline]
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        put(field, bytes, &mut self.0);
    }

    /// Adds a field of a message.
    #[inline]
    pub fn message(&mut self, field: u32, message: &Message) {
        put(field, &message.0, &mut self.0);
    }

    /// Appends this message as a field.
    #[inline]
    pub fn add_to(&self, field: u32, out: &mut Vec<u8>) {
        put(field, &self.0, out);
    }
}

#[inline]
fn put(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(field) << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[inline]
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}
