//! Bodies to records.

use hyper::StatusCode;
use tidegate_codec::{Decoder, DecoderOptions, Format, Input};
use tidegate_contract::IngestRecord;
use tidegate_record::{BatchBuilder, RecordView};

use super::Refusal;

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    /// A JSON document a line.
    Lines,
    /// One JSON document.
    Json,
    /// One record of UTF-8 text.
    Text,
    /// One record of any bytes.
    Bytes,
}

impl Media {
    /// What a `Content-Type` says.
    pub(super) fn of(content_type: Option<&str>) -> Result<Media, Refusal> {
        let unsupported = |found: &str| {
            let message = format!(
                "Content-Type {found} is not taken: application/x-ndjson, application/json, text/plain and \
                 application/octet-stream are"
            );
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            Refusal::new(status, "unsupported_media_type", message).of("Content-Type")
        };
        let Some(content_type) = content_type else {
            return Err(unsupported("(none)"));
        };
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            "application/x-ndjson" | "application/jsonl" | "application/x-jsonlines" => {
                Ok(Media::Lines)
            }
            "application/json" => Ok(Media::Json),
            "text/plain" => Ok(Media::Text),
            "application/octet-stream" => Ok(Media::Bytes),
            _ => Err(unsupported(content_type)),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Media::Lines => "lines",
            Media::Json => "json",
            Media::Text => "text",
            Media::Bytes => "bytes",
        }
    }

    fn format(self) -> Format {
        match self {
            Media::Lines | Media::Json => Format::Json,
            Media::Text | Media::Bytes => Format::Raw,
        }
    }
}

/// What records of a body have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) headers: &'a [(&'a str, Option<&'a [u8]>)],
    /// When it came, microseconds since the Unix epoch: the event time of records that have none of their own.
    pub(super) arrived: i64,
}

/// All records of a body, or what is wrong with one of them.
pub(super) fn records(
    media: Media,
    body: &[u8],
    shared: Shared<'_>,
    options: &DecoderOptions,
    most: usize,
) -> Result<Vec<IngestRecord>, Refusal> {
    let limit = options.max_record;
    let options = DecoderOptions {
        format: media.format(),
        ..options.clone()
    };
    let mut decoder = Decoder::new(options).map_err(|error| {
        let message = format!("this source takes JSON only ({error})");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Refusal::new(status, "unsupported_media_type", message).of("Content-Type")
    })?;
    if media == Media::Text
        && let Err(error) = std::str::from_utf8(body)
    {
        let message = format!("the body is not UTF-8: byte {}", error.valid_up_to());
        return Err(Refusal::bad("invalid_record", message));
    }
    let mut batch = BatchBuilder::default();
    let mut add = |number: usize, line: &[u8], batch: &mut BatchBuilder| {
        let place = match media {
            Media::Lines => format!("line {number}"),
            _ => "the record".to_owned(),
        };
        if line.len() > limit {
            let message = format!(
                "{place} has {} bytes, at most {limit} are taken",
                line.len()
            );
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return Err(Refusal::new(status, "record_too_large", message));
        }
        if batch.len() == most {
            let message = format!("{place} is one more than the {most} records of a request");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return Err(Refusal::new(status, "too_many_records", message));
        }
        let input = Input {
            key: shared.key,
            value: Some(line),
            headers: shared.headers,
            event_time: Some(shared.arrived),
            ..Input::default()
        };
        let decoded = decoder.decode(&input, batch);
        decoded.map_err(|why| Refusal::bad("invalid_record", format!("{place}: {why}")))
    };
    if media == Media::Lines {
        for (index, line) in body.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                add(index + 1, line, &mut batch)?;
            }
        }
    } else if !body.is_empty() {
        add(1, body, &mut batch)?;
    }
    if batch.is_empty() {
        return Err(Refusal::bad("no_records", "the body has no record"));
    }
    let batch = batch.finish(shared.arrived);
    Ok(batch.view().records().map(own).collect())
}

fn own(record: RecordView<'_>) -> IngestRecord {
    let headers = record.headers();
    IngestRecord {
        key: record.key().map(<[u8]>::to_vec),
        value: record.value().map(<[u8]>::to_vec),
        headers: headers
            .map(|header| (header.name.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect(),
        event_time: record.event_time(),
    }
}
