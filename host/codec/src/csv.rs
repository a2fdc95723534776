//! CSV rows (RFC 4180) to JSON objects of strings, in the order of the columns.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use crate::text::write_string;

/// Most columns of a row, as many as a spreadsheet has.
pub const MAX_COLUMNS: usize = 16_384;

/// Longest name of a column, bytes: it stands in every record.
pub const MAX_COLUMN_NAME: usize = 1 << 10;

/// Splits rows into fields.
#[derive(Debug)]
pub(crate) struct Rows {
    reader: Reader,
    /// Bytes of the fields one after the other, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Rows {
    pub(crate) fn new(delimiter: u8) -> Rows {
        // Rows are cut before: only a line feed could end one, and there is none outside quotes.
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .terminator(Terminator::Any(b'\n'))
            .build();
        Rows {
            reader,
            fields: Vec::new(),
            ends: vec![0; 16],
            count: 0,
        }
    }

    /// Reads one row without its line end; returns the number of fields, or none if there are more than
    /// [`MAX_COLUMNS`].
    pub(crate) fn read(&mut self, row: &str) -> Option<usize> {
        self.reader.reset();
        self.count = 0;
        if self.fields.len() < row.len() {
            self.fields.resize(row.len(), 0);
        }
        let (mut input, mut written) = (row.as_bytes(), 0);
        // The second pass, with nothing, tells the reader that the row has ended.
        loop {
            let (result, read, wrote, ended) = self.reader.read_record(
                input,
                &mut self.fields[written..],
                &mut self.ends[self.count..],
            );
            input = &input[read..];
            written += wrote;
            self.count += ended;
            match result {
                ReadRecordResult::OutputFull => self.fields.resize(2 * self.fields.len() + 64, 0),
                // What more fields would hold is not looked at, however many there are.
                ReadRecordResult::OutputEndsFull if self.ends.len() > MAX_COLUMNS => return None,
                ReadRecordResult::OutputEndsFull => {
                    let room = (2 * self.ends.len()).min(MAX_COLUMNS + 1);
                    self.ends.resize(room, 0);
                }
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record | ReadRecordResult::End => {
                    return Some(self.count).filter(|count| *count <= MAX_COLUMNS);
                }
            }
        }
    }

    /// A field of the row read last; nothing past its end.
    pub(crate) fn field(&self, index: usize) -> &str {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        let bytes = self.fields.get(begin..self.ends[index]).unwrap_or_default();
        // The row is text and fields begin and end at ASCII bytes.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// Writes rows as JSON objects.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) names: Vec<String>,
    /// For each column `{"name":` or `,"name":`.
    prefixes: Vec<Vec<u8>>,
}

impl Columns {
    pub(crate) fn new(names: Vec<String>) -> Columns {
        let prefix = |(index, name): (usize, &String)| {
            let mut prefix = vec![if index == 0 { b'{' } else { b',' }];
            write_string(&mut prefix, name);
            prefix.push(b':');
            prefix
        };
        let prefixes = names.iter().enumerate().map(prefix).collect();
        Columns { names, prefixes }
    }

    /// Appends the row read last as an object.
    pub(crate) fn write_object(&self, rows: &Rows, out: &mut Vec<u8>) {
        for (index, prefix) in self.prefixes.iter().enumerate() {
            out.extend_from_slice(prefix);
            write_string(out, rows.field(index));
        }
        out.push(b'}');
    }
}

/// Appends a field, in quotes if it needs them.
pub(crate) fn write_field(out: &mut Vec<u8>, field: &str, delimiter: u8) {
    let special = |byte: u8| matches!(byte, b'"' | b'\n' | b'\r') || byte == delimiter;
    if !field.bytes().any(special) {
        out.extend_from_slice(field.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in field.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}
