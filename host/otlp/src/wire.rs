//! Protobuf's wire format, as much of it as spans need.
//!
//! A span is written from where it is, without a message that is made first: of what an exported span costs, the messages
//! of OpenTelemetry's crate, a few allocations for each attribute, were three quarters.

/// Bytes of a message.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

/// How the value of a field is written.
#[derive(Clone, Copy)]
enum Form {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

impl Message {
    /// With room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Message {
        Message(Vec::with_capacity(bytes))
    }

    /// The message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn begin(&mut self, field: u32, form: Form) {
        self.varint(u64::from(field << 3 | form as u32));
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A number; zero is left out, as protobuf has it.
    pub(crate) fn number(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.always(field, number);
        }
    }

    /// A number that is one of several values a field may have: it is written also if it is zero.
    pub(crate) fn always(&mut self, field: u32, number: u64) {
        self.begin(field, Form::Varint);
        self.varint(number);
    }

    /// A number of eight bytes.
    pub(crate) fn fixed64(&mut self, field: u32, number: u64) {
        self.begin(field, Form::Fixed64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A number of four bytes.
    pub(crate) fn fixed32(&mut self, field: u32, number: u32) {
        self.begin(field, Form::Fixed32);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Bytes, or a text; empty ones are left out.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.bytes_always(field, bytes);
        }
    }

    /// The same where a field may have one of several values: written also if empty.
    pub(crate) fn bytes_always(&mut self, field: u32, bytes: &[u8]) {
        self.begin(field, Form::Bytes);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A message within this one.
    pub(crate) fn nested(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        self.begin(field, Form::Bytes);
        let at = self.0.len();
        // Most are short: their length takes this one byte.
        self.0.push(0);
        write(self);
        let length = self.0.len() - at - 1;
        if length < 0x80 {
            self.0[at] = length as u8;
            return;
        }
        let mut front = Message::with_capacity(10);
        front.varint(length as u64);
        let more = front.0.len() - 1;
        self.0.resize(at + 1 + length + more, 0);
        self.0.copy_within(at + 1..at + 1 + length, at + 1 + more);
        self.0[at..=at + more].copy_from_slice(&front.0);
    }
}
