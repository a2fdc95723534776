//! Records to bytes.

use tidegate_record::PublicRecord;

use crate::OptionError;
use crate::csv::write_field;
use crate::decode::Format;
use crate::json::{Paths, Scalar, Span, scalar, scan, write_compact};
use crate::text::{write_base64, write_bytes_member, write_string};
use crate::time::format_time;

/// How records become bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderOptions {
    /// The format.
    pub format: Format,
    /// `json` only: the record as `{"id", "key", "value", "headers", "event_time"}` and not its value alone.
    pub envelope: bool,
    /// `csv` only: the columns, dotted paths into the value.
    pub columns: Vec<String>,
    /// Names of the pipeline's sources, for the id in an envelope; a source without one is given by its index.
    pub sources: Vec<String>,
    /// The byte between CSV fields.
    pub delimiter: u8,
}

impl Default for EncoderOptions {
    fn default() -> EncoderOptions {
        EncoderOptions {
            format: Format::Json,
            envelope: false,
            columns: Vec::new(),
            sources: Vec::new(),
            delimiter: b',',
        }
    }
}

/// A record that a format cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record cannot be written as {format}: {why}")]
pub struct EncodeError {
    /// The format.
    pub format: &'static str,
    /// What is wrong with the record.
    pub why: String,
}

/// Writes records, each with its line end.
#[derive(Clone, Debug)]
pub struct Encoder {
    options: EncoderOptions,
    paths: Paths,
    found: Vec<Span>,
    slots: Vec<usize>,
}

impl Encoder {
    /// An encoder with these options.
    pub fn new(options: EncoderOptions) -> Result<Encoder, OptionError> {
        let fail = |option, why: &str| {
            Err(OptionError {
                option,
                why: why.into(),
            })
        };
        match options.format {
            Format::Csv if options.columns.is_empty() => {
                return fail("columns", "csv output needs them");
            }
            Format::Json | Format::Raw if !options.columns.is_empty() => {
                return fail("columns", "only csv output has columns");
            }
            Format::Csv | Format::Raw if options.envelope => {
                return fail("envelope", "only json output has an envelope");
            }
            _ => {}
        }
        if matches!(options.delimiter, b'"' | b'\n' | b'\r') || !options.delimiter.is_ascii() {
            return fail("delimiter", "this byte cannot stand between fields");
        }
        let mut paths = Paths::default();
        let slots = options
            .columns
            .iter()
            .map(|column| paths.add(column))
            .collect();
        let found = vec![None; paths.len()];
        Ok(Encoder {
            options,
            paths,
            found,
            slots,
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &EncoderOptions {
        &self.options
    }

    /// What stands first in an empty file: the header row of CSV, else nothing.
    pub fn write_header(&self, out: &mut Vec<u8>) {
        if self.options.format == Format::Csv {
            for (index, column) in self.options.columns.iter().enumerate() {
                if index > 0 {
                    out.push(self.options.delimiter);
                }
                write_field(out, column, self.options.delimiter);
            }
            out.push(b'\n');
        }
    }

    /// Appends the record and a line end; on error nothing is appended.
    pub fn encode(
        &mut self,
        record: PublicRecord<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let before = out.len();
        let written = match self.options.format {
            Format::Raw => raw(record, out),
            Format::Json if self.options.envelope => self.envelope(record, out),
            Format::Json => json(record.value(), out),
            Format::Csv => self.row(record, out),
        };
        match written {
            Ok(()) => {
                out.push(b'\n');
                Ok(())
            }
            Err(why) => {
                out.truncate(before);
                Err(EncodeError {
                    format: self.options.format.name(),
                    why,
                })
            }
        }
    }

    fn envelope(&self, record: PublicRecord<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let id = record.id();
        let mut name = match self.options.sources.get(usize::from(id.source)) {
            Some(source) => format!("{source}/{}/{}", id.partition, id.offset),
            None => format!("{}/{}/{}", id.source, id.partition, id.offset),
        };
        if id.emit != 0 {
            name.push_str(&format!("/{}", id.emit));
        }
        out.extend_from_slice(b"{\"id\":");
        write_string(out, &name);
        out.push(b',');
        write_bytes_member(out, "key", record.key());
        out.extend_from_slice(b",\"value\":");
        json(record.value(), out)?;
        out.extend_from_slice(b",\"headers\":[");
        for (index, header) in record.headers().enumerate() {
            out.extend_from_slice(if index == 0 { b"[" } else { b",[" });
            write_string(out, header.name);
            out.push(b',');
            match header
                .value
                .map(|value| std::str::from_utf8(value).map_err(|_| value))
            {
                None => out.extend_from_slice(b"null"),
                Some(Ok(text)) => write_string(out, text),
                Some(Err(bytes)) => {
                    out.extend_from_slice(b"{\"base64\":\"");
                    write_base64(out, bytes);
                    out.extend_from_slice(b"\"}");
                }
            }
            out.push(b']');
        }
        out.extend_from_slice(b"],\"event_time\":");
        match record.event_time() {
            Some(time) => write_string(out, &format_time(time)),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
        Ok(())
    }

    fn row(&mut self, record: PublicRecord<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let value = record
            .value()
            .ok_or("value is null, columns need an object")?;
        self.found.fill(None);
        let text = check(value, &self.paths, &mut self.found)?;
        if !text.trim_start().starts_with('{') {
            return Err("value is not an object".into());
        }
        for (index, &slot) in self.slots.iter().enumerate() {
            if index > 0 {
                out.push(self.options.delimiter);
            }
            let field = self.found[slot].map_or(Scalar::Null, |span| scalar(text, span));
            match field {
                Scalar::Text(text) => write_field(out, &text, self.options.delimiter),
                Scalar::Plain(text) => write_field(out, text, self.options.delimiter),
                Scalar::Null => {}
                Scalar::Compound(json) | Scalar::Broken(json) => {
                    let mut compact = Vec::new();
                    write_compact(&mut compact, json);
                    let compact = String::from_utf8_lossy(&compact);
                    write_field(out, &compact, self.options.delimiter);
                }
            }
        }
        Ok(())
    }
}

fn raw(record: PublicRecord<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let value = record
        .value()
        .ok_or("value is null, a raw line cannot say so")?;
    // A carriage return is part of a line end only before its line feed, which is to come.
    let line_end = memchr::memchr(b'\n', value).or(match value {
        [.., b'\r'] => Some(value.len() - 1),
        _ => None,
    });
    match line_end {
        Some(at) => Err(format!("value has a line end at byte {at}")),
        None => {
            out.extend_from_slice(value);
            Ok(())
        }
    }
}

/// Appends the value on one line: as it is, or without white space if it stood on several.
fn json(value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), String> {
    let Some(value) = value else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    let text = check(value, &Paths::default(), &mut [])?;
    // Checked JSON has no raw line end within a string, so one can only stand between tokens.
    if memchr::memchr2(b'\n', b'\r', value).is_some() {
        write_compact(out, text);
    } else {
        out.extend_from_slice(value);
    }
    Ok(())
}

fn check<'a>(value: &'a [u8], paths: &Paths, found: &mut [Span]) -> Result<&'a str, String> {
    let text = std::str::from_utf8(value).map_err(|error| {
        let at = error.valid_up_to();
        format!("value is not UTF-8: byte 0x{:02x} at {at}", value[at])
    })?;
    match scan(text, paths, found) {
        Ok(()) => Ok(text),
        Err(fault) => Err(format!("value is not JSON: {}", fault.describe(text))),
    }
}
