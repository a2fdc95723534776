//! Input to records.

use std::borrow::Cow;
use std::collections::HashSet;

use tidegate_record::{BatchBuilder, NewRecord, RecordId};

use crate::OptionError;
use crate::csv::{Columns, MAX_COLUMN_NAME, MAX_COLUMNS, Rows};
use crate::cut::Rule;
use crate::json::{Paths, Scalar, Span, scalar, scan};
use crate::time::parse_time;

/// A format of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON document a line; the value is the line as it is.
    #[default]
    Json,
    /// Rows under a header row; the value is a JSON object of strings, in the order of the columns.
    Csv,
    /// The line, or the message, is the value: any bytes.
    Raw,
}

impl Format {
    /// The format of this name: `json`, `csv` or `raw`.
    pub fn named(name: &str) -> Option<Format> {
        match name {
            "json" => Some(Format::Json),
            "csv" => Some(Format::Csv),
            "raw" => Some(Format::Raw),
            _ => None,
        }
    }

    /// The format's name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Raw => "raw",
        }
    }
}

/// How input becomes records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecoderOptions {
    /// The format.
    pub format: Format,
    /// Field whose scalar becomes the key: a dotted path (`json`) or a column (`csv`). It must be there.
    pub key: Option<String>,
    /// Field with the event time, RFC 3339 text or integer milliseconds since the Unix epoch. It must be there.
    pub event_time: Option<String>,
    /// Fields that must be there and not null (in CSV: not empty).
    pub required: Vec<String>,
    /// The longest record in bytes; at most 256 MiB.
    pub max_record: usize,
    /// The byte between CSV fields.
    pub delimiter: u8,
}

impl Default for DecoderOptions {
    fn default() -> DecoderOptions {
        DecoderOptions {
            format: Format::Json,
            key: None,
            event_time: None,
            required: Vec::new(),
            max_record: 1 << 20,
            delimiter: b',',
        }
    }
}

impl DecoderOptions {
    /// Where pieces of this format end.
    pub fn rule(&self) -> Rule {
        match self.format {
            Format::Csv => Rule::Rows {
                delimiter: self.delimiter,
            },
            Format::Json | Format::Raw => Rule::Lines,
        }
    }
}

/// Why input cannot become a record: a sentence for a person, with the place and the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Malformed {
    /// The sentence.
    pub reason: String,
}

fn malformed<T>(reason: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed {
        reason: reason.into(),
    })
}

/// What a source knows of one record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input<'a> {
    /// Where it comes from.
    pub id: RecordId,
    /// The key it came with; a configured key field stands before it.
    pub key: Option<&'a [u8]>,
    /// The bytes, or none for a tombstone, which is a record of every format.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    /// The time it came with, microseconds since the Unix epoch; a configured field stands before it.
    pub event_time: Option<i64>,
}

/// Turns input into records of a batch.
#[derive(Debug)]
pub struct Decoder {
    options: DecoderOptions,
    /// Slots of key, event time and required fields in `paths` and `found`, or columns in CSV.
    key: Option<usize>,
    event_time: Option<usize>,
    required: Vec<usize>,
    paths: Paths,
    found: Vec<Span>,
    rows: Rows,
    columns: Option<Columns>,
    /// The JSON object made of a row.
    object: Vec<u8>,
}

const MAX_MAX_RECORD: usize = 256 << 20;

impl Decoder {
    /// A decoder with these options.
    pub fn new(options: DecoderOptions) -> Result<Decoder, OptionError> {
        let wants_fields =
            options.key.is_some() || options.event_time.is_some() || !options.required.is_empty();
        if options.format == Format::Raw && wants_fields {
            return Err(OptionError {
                option: "format",
                why: "raw records have no fields: key, event_time and required need json or csv"
                    .into(),
            });
        }
        if options.max_record == 0 || options.max_record > MAX_MAX_RECORD {
            return Err(OptionError {
                option: "max-record",
                why: format!(
                    "{} bytes is not between 1 byte and 256 MiB",
                    options.max_record
                ),
            });
        }
        if matches!(options.delimiter, b'"' | b'\n' | b'\r') || !options.delimiter.is_ascii() {
            return Err(OptionError {
                option: "delimiter",
                why: format!(
                    "byte 0x{:02x} cannot stand between fields",
                    options.delimiter
                ),
            });
        }
        let mut paths = Paths::default();
        let key = options.key.as_deref().map(|path| paths.add(path));
        let event_time = options.event_time.as_deref().map(|path| paths.add(path));
        let required = options
            .required
            .iter()
            .map(|path| paths.add(path))
            .collect();
        let found = vec![None; paths.len()];
        Ok(Decoder {
            rows: Rows::new(options.delimiter),
            options,
            key,
            event_time,
            required,
            paths,
            found,
            columns: None,
            object: Vec::new(),
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &DecoderOptions {
        &self.options
    }

    /// Takes the header row of CSV: the names of the columns.
    pub fn header(&mut self, row: &[u8]) -> Result<(), Malformed> {
        let row = text(row)?;
        let Some(count) = self.rows.read(row) else {
            return malformed(format!("header row has more than {MAX_COLUMNS} columns"));
        };
        let names: Vec<String> = (0..count)
            .map(|index| self.rows.field(index).to_owned())
            .collect();
        let mut known = HashSet::with_capacity(count);
        for (index, name) in names.iter().enumerate() {
            if name.is_empty() {
                return malformed(format!("header row has no name for column {}", index + 1));
            }
            if name.len() > MAX_COLUMN_NAME {
                return malformed(format!(
                    "header row has a name of {} bytes for column {}, at most {MAX_COLUMN_NAME} are taken: {}",
                    name.len(),
                    index + 1,
                    cut(name)
                ));
            }
            if !known.insert(name) {
                return malformed(format!("header row names column {} twice", cut(name)));
            }
        }
        let column = |wanted: &String| {
            names
                .iter()
                .position(|name| name == wanted)
                .ok_or_else(|| Malformed {
                    reason: format!(
                        "header row has no column {wanted}; it has {}",
                        listed(&names)
                    ),
                })
        };
        let options = &self.options;
        self.key = options.key.as_ref().map(column).transpose()?;
        self.event_time = options.event_time.as_ref().map(column).transpose()?;
        self.required = options
            .required
            .iter()
            .map(column)
            .collect::<Result<_, _>>()?;
        self.columns = Some(Columns::new(names));
        Ok(())
    }

    /// Adds the input to the batch as one record, or says why it is none.
    pub fn decode(&mut self, input: &Input<'_>, batch: &mut BatchBuilder) -> Result<(), Malformed> {
        let Some(value) = input.value else {
            return push(batch, input, input.key, None, input.event_time);
        };
        match self.options.format {
            Format::Raw => push(batch, input, input.key, Some(value), input.event_time),
            Format::Json => self.decode_json(input, value, batch),
            Format::Csv => self.decode_row(input, value, batch),
        }
    }

    fn decode_json(
        &mut self,
        input: &Input<'_>,
        value: &[u8],
        batch: &mut BatchBuilder,
    ) -> Result<(), Malformed> {
        let text = text(value)?;
        self.found.fill(None);
        if let Err(fault) = scan(text, &self.paths, &mut self.found) {
            if value.is_empty() {
                return malformed("empty value");
            }
            return malformed(format!("not JSON: {}", fault.describe(text)));
        }
        let field = |slot: usize| match self.found[slot].map(|span| scalar(text, span)) {
            None => malformed(format!("field {} is missing", self.paths.name(slot))),
            Some(Scalar::Null) => malformed(format!("field {} is null", self.paths.name(slot))),
            Some(scalar) => Ok(scalar),
        };
        for &slot in &self.required {
            field(slot)?;
        }
        let field_key;
        let mut key = input.key;
        if let Some(slot) = self.key {
            field_key = match field(slot)? {
                Scalar::Text(text) => text,
                Scalar::Plain(text) => Cow::Borrowed(text),
                Scalar::Compound(found) | Scalar::Broken(found) => {
                    let name = self.paths.name(slot);
                    return malformed(format!("field {name} cannot be a key: {}", cut(found)));
                }
                Scalar::Null => Cow::Borrowed(""),
            };
            key = Some(field_key.as_bytes());
        }
        let mut event_time = input.event_time;
        if let Some(slot) = self.event_time {
            let name = self.paths.name(slot);
            event_time = Some(match field(slot)? {
                Scalar::Text(text) => parse_time(&text).ok_or_else(|| no_time(name, &text))?,
                Scalar::Plain(text) => parse_millis(text).ok_or_else(|| no_time(name, text))?,
                Scalar::Compound(text) | Scalar::Broken(text) => return Err(no_time(name, text)),
                Scalar::Null => return Err(no_time(name, "null")),
            });
        }
        push(batch, input, key, Some(value), event_time)
    }

    fn decode_row(
        &mut self,
        input: &Input<'_>,
        value: &[u8],
        batch: &mut BatchBuilder,
    ) -> Result<(), Malformed> {
        let text = text(value)?;
        let Some(columns) = &self.columns else {
            return malformed("row came before its header row");
        };
        if text.is_empty() {
            return malformed("empty row");
        }
        let expected = columns.names.len();
        let Some(count) = self.rows.read(text) else {
            return malformed(format!(
                "row has more than {MAX_COLUMNS} fields, the header row has {expected}"
            ));
        };
        if count != expected {
            return malformed(format!(
                "row has {count} fields, the header row has {expected}"
            ));
        }
        let field = |column: usize| match self.rows.field(column) {
            "" => malformed(format!("field {} is missing", columns.names[column])),
            field => Ok(field),
        };
        for &column in &self.required {
            field(column)?;
        }
        let key = match self.key {
            Some(column) => Some(field(column)?.as_bytes()),
            None => input.key,
        };
        let event_time = match self.event_time {
            Some(column) => {
                let time = field(column)?;
                let parsed = parse_time(time).or_else(|| parse_millis(time));
                Some(parsed.ok_or_else(|| no_time(&columns.names[column], time))?)
            }
            None => input.event_time,
        };
        self.object.clear();
        columns.write_object(&self.rows, &mut self.object);
        push(batch, input, key, Some(&self.object), event_time)
    }
}

fn push(
    batch: &mut BatchBuilder,
    input: &Input<'_>,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    event_time: Option<i64>,
) -> Result<(), Malformed> {
    let record = NewRecord {
        id: input.id,
        event_time,
        key,
        value,
        headers: input.headers,
        attributes: &[],
    };
    batch.push(&record).map_err(|full| Malformed {
        reason: full.to_string(),
    })
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).or_else(|error| {
        let at = error.valid_up_to();
        malformed(format!("not UTF-8: byte 0x{:02x} at {at}", bytes[at]))
    })
}

/// Integer milliseconds as microseconds.
fn parse_millis(text: &str) -> Option<i64> {
    text.parse::<i64>().ok()?.checked_mul(1000)
}

fn no_time(name: &str, found: &str) -> Malformed {
    Malformed {
        reason: format!(
            "field {name} is no time: {}, expected RFC 3339 text or integer milliseconds",
            cut(found)
        ),
    }
}

/// The first 20 names, for a sentence.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| cut(name)).collect();
    let shown = shown.join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// At most 100 bytes of a value, for a sentence.
fn cut(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 100;
    if text.len() <= SHOWN {
        return Cow::Borrowed(text);
    }
    let mut end = SHOWN;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}...", &text[..end]))
}
