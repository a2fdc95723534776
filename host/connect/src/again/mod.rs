//! Dead letters that are sent again: what the log of a source keeps of each, and the source that reads it.
//!
//! A letter is one batch of an ingest log, under its record's death: so it is kept once, whoever asks how often and from which
//! copy of it. Its key is the mark that it was sent, and stays when the log has let go of the letter.

mod source;

use sha2::{Digest as _, Sha256};
use tidegate_codec::{Decoder, Input, PREVIEW, SENT_FROM, StoredLetter};
use tidegate_contract::{
    IdempotencyKey, IngestBatch, IngestRecord, LetterForm, LetterSeal, Rejected, SealedFor,
};
use tidegate_record::{BatchBuilder, NewRecord, RecordId};

pub use self::source::LetterSource;

/// Bytes of an id at the most.
pub const MAX_LETTER_ID: usize = 1024;
/// What stands in the log before a record's own headers, of which the first is from which letter it was sent: when, as what,
/// and, of one that has them, its private attributes with what they are sealed for.
const AT: &str = "at";
const FORM: &str = "form";
const SEALED_FOR: &str = "sealed-for";
const SEALED: &str = "sealed";
/// Why a record does not come again with what is private to it.
const NOT_OPENED: &str = "its private attributes do not open: they are sealed with another key than TIDEGATE_STATE_KEY or the \
                          state directory has now, or the letter was altered";

/// By what the death of a record is known, in how many letters ever it is written down. A record that is read again after a
/// kill dies the same death; one that is sent again is another record, and so is one that has the same place in another
/// input: another run's standard input, or a topic that was made anew.
pub fn letter_death(letter: &StoredLetter) -> [u8; 32] {
    let time = letter.event_time.map(i64::to_le_bytes);
    let text = |text: &'_ Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let parts = [
        text(&letter.pipeline),
        Some(letter.id.as_bytes().to_vec()),
        Some(letter.stage.as_bytes().to_vec()),
        text(&letter.sent_from),
        letter.key.clone(),
        time.map(|time| time.to_vec()),
    ];
    let mut digest = Sha256::new();
    for part in parts
        .into_iter()
        .chain(letter.input.as_ref().map(|_| text(&letter.input)))
    {
        let length = part.as_ref().map_or(u64::MAX, |part| part.len() as u64);
        digest.update(length.to_le_bytes());
        digest.update(part.unwrap_or_default());
    }
    digest.finalize().into()
}

/// Why a letter cannot be sent again with the private attributes that its record had; none if it can, or had none. Without
/// who opens them it is not known whether they open.
pub fn unsealable(letter: &StoredLetter, seal: Option<&LetterSeal>) -> Option<&'static str> {
    if letter.private == 0 {
        return None;
    }
    let Some(sealed) = &letter.private_sealed else {
        return Some("its record had private attributes, and they are not in the letter");
    };
    let name = letter.sealed_name();
    let place = SealedFor {
        letter: &name,
        key: letter.key.as_deref(),
        value: letter.value.as_deref(),
    };
    match seal {
        Some(seal) if seal.open(&place, sealed).is_none() => Some(NOT_OPENED),
        _ => None,
    }
}

/// Why a letter cannot be sent again; none if it can.
pub fn unsendable(letter: &StoredLetter) -> Option<&'static str> {
    let cut_key = letter.key.as_ref().is_some_and(|key| key.len() >= PREVIEW);
    match (letter.form, letter.at) {
        (None, _) | (_, None) => {
            Some("it was written by an earlier version, without its headers and event time")
        }
        _ if !letter.cut.is_empty() => {
            Some("it was cut to fit its message: the record is not all there")
        }
        (Some(LetterForm::Output), _) => {
            Some("it is a record as its sink was to write it, and not as it was read")
        }
        (Some(LetterForm::Input), _) if cut_key => Some("its key is cut: only its begin is there"),
        (Some(LetterForm::Input), _)
            if letter.value.as_ref().map_or(0, |value| value.len() as u64) < letter.length =>
        {
            Some("its input is cut: only its begin is there")
        }
        _ if letter.headers.is_none() => {
            Some("its headers are not there: they exceed 64 KiB, or are no text")
        }
        _ => None,
    }
}

/// Private attributes, and the letter for which they are sealed.
#[derive(Debug)]
struct Sealed {
    letter: String,
    bytes: Vec<u8>,
}

/// A letter on its way again: a record as it was, or the input that it was.
#[derive(Debug)]
pub(crate) struct Again {
    private: Option<Sealed>,
    form: LetterForm,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    event_time: Option<i64>,
}

impl Again {
    /// The letter with this id.
    pub(crate) fn of(id: &str, letter: StoredLetter) -> Again {
        let letter_name = letter.sealed_name();
        let mut headers = vec![(SENT_FROM.to_owned(), Some(id.as_bytes().to_vec()))];
        let own = letter.headers.unwrap_or_default().into_iter();
        headers.extend(own.filter(|(name, _)| name != SENT_FROM));
        Again {
            private: letter.private_sealed.map(|bytes| Sealed {
                letter: letter_name,
                bytes,
            }),
            form: letter.form.unwrap_or_default(),
            key: letter.key,
            value: letter.value,
            headers,
            event_time: letter.event_time,
        }
    }

    /// What a log has of it.
    fn logged(mut record: IngestRecord) -> Again {
        let mut headers = record.headers.iter();
        let first = headers.position(|(name, _)| name == SENT_FROM);
        let headers = record
            .headers
            .split_off(first.unwrap_or(record.headers.len()));
        let form = own(&record, FORM).and_then(LetterForm::named);
        let letter = own(&record, SEALED_FOR).map(str::to_owned);
        let mut sealed = record.headers.into_iter();
        let sealed = sealed.find(|(name, _)| name == SEALED);
        let private = letter.zip(sealed.and_then(|(_, value)| value));
        Again {
            private: private.map(|(letter, bytes)| Sealed { letter, bytes }),
            form: form.unwrap_or_default(),
            headers,
            key: record.key,
            value: record.value,
            event_time: record.event_time,
        }
    }

    /// The record as it was, or what is decoded of the input that it was. The error says why it is none.
    pub(crate) fn take(
        &self,
        decoder: &mut Decoder,
        seal: &LetterSeal,
        id: RecordId,
        batch: &mut BatchBuilder,
    ) -> Result<(), String> {
        let headers = self.headers.iter();
        let headers: Vec<_> = headers
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect();
        let (key, value) = (self.key.as_deref(), self.value.as_deref());
        let event_time = self.event_time;
        if self.form == LetterForm::Input {
            let input = Input {
                id,
                key,
                value,
                headers: &headers,
                event_time,
            };
            return decoder
                .decode(&input, batch)
                .map_err(|error| error.to_string());
        }
        let private = match &self.private {
            None => Vec::new(),
            Some(Sealed { letter, bytes }) => seal
                .open(&SealedFor { letter, key, value }, bytes)
                .ok_or_else(|| NOT_OPENED.to_owned())?,
        };
        let attributes = private.iter();
        let attributes: Vec<_> = attributes
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect();
        let new = NewRecord {
            id,
            event_time,
            key,
            value,
            headers: &headers,
            attributes: &attributes,
        };
        batch.push(&new).map_err(|error| error.to_string())
    }

    /// As input that is no record, for this reason.
    pub(crate) fn rejected(self, offset: u64, reason: String) -> Rejected {
        Rejected {
            private: u64::from(self.private.is_some()),
            offset,
            reason,
            length: self.value.as_ref().map_or(0, |value| value.len() as u64),
            key: self.key.map(first),
            preview: self.value.map(first).unwrap_or_default(),
            headers: Some(self.headers),
            event_time: self.event_time,
        }
    }
}

/// What the log keeps of a letter, of this death.
pub fn letter_batch(id: &str, letter: StoredLetter, death: [u8; 32], at: i64) -> IngestBatch {
    let mut again = Again::of(id, letter);
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let mut headers = vec![
        (AT.to_owned(), text(&at.to_string())),
        (FORM.to_owned(), text(again.form.name())),
    ];
    if let Some(Sealed { letter, bytes }) = again.private.take() {
        headers.push((SEALED_FOR.to_owned(), text(&letter)));
        headers.push((SEALED.to_owned(), Some(bytes)));
    }
    headers.extend(again.headers);
    IngestBatch {
        records: vec![IngestRecord {
            key: again.key,
            value: again.value,
            headers,
            event_time: again.event_time,
        }],
        idempotency: Some(IdempotencyKey {
            key: death,
            // Each copy has a time of its own.
            body: death,
        }),
    }
}

/// When a letter was sent again, microseconds since the Unix epoch.
pub fn letter_sent(record: &IngestRecord) -> Option<i64> {
    own(record, AT)?.parse().ok()
}

/// What the log notes of a record under a name.
fn own<'r>(record: &'r IngestRecord, name: &str) -> Option<&'r str> {
    let mut notes = record
        .headers
        .iter()
        .take_while(|(found, _)| found != SENT_FROM);
    let (_, value) = notes.find(|(found, _)| found == name)?;
    std::str::from_utf8(value.as_deref()?).ok()
}

fn first(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(PREVIEW);
    bytes
}
