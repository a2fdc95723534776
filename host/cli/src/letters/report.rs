//! A letter as it was written, as the admin API shows it.

use std::time::Instant;

use tidegate_codec::{StoredLetter, base64_text, decode_dead_letter, format_time};
use tidegate_connect::{MAX_LETTER_ID, unsendable};
use tidegate_contract::{LetterError, LetterStore, WrittenLetter};
use tidegate_control::{LetterHeader, LetterQuery, LetterReport};

use crate::wire::again::SUFFIX;

/// Most bytes of a member in a page.
const PREVIEW: usize = 2048;
/// Most bytes of a member of a whole letter.
const WHOLE: usize = 8 << 20;

/// How much of a letter is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Preview,
    Whole,
}

/// What a page is asked for.
pub(super) struct Wanted<'q> {
    query: &'q LetterQuery,
    text: Option<String>,
}

impl<'q> Wanted<'q> {
    pub(super) fn of(query: &'q LetterQuery) -> Wanted<'q> {
        let text = query.text.as_ref().map(|text| text.to_lowercase());
        Wanted { query, text }
    }

    /// Whether it is one of these. What is no letter is shown where nothing is asked for.
    pub(super) fn has(&self, letter: &Result<StoredLetter, String>) -> bool {
        let query = self.query;
        let (stage, source) = (query.stage.as_ref(), query.source.as_ref());
        let Ok(letter) = letter else {
            return stage.is_none() && source.is_none() && self.text.is_none();
        };
        stage.is_none_or(|stage| *stage == letter.stage)
            && source.is_none_or(|source| {
                letter.source == *source || letter.source.strip_suffix(SUFFIX) == Some(source)
            })
            && self
                .text
                .as_ref()
                .is_none_or(|text| letter.reason.to_lowercase().contains(text))
    }
}

/// The letter, or why it is none.
pub(super) fn parsed(written: &WrittenLetter) -> Result<StoredLetter, String> {
    let length = written.length;
    match &written.bytes {
        None => Err(format!(
            "a letter of {length} bytes is longer than what is looked at"
        )),
        Some(bytes) => decode_dead_letter(bytes)
            .ok_or_else(|| format!("these {length} bytes are no dead letter of Tidegate")),
    }
}

/// A letter where it was written, and what it says or why that cannot be read.
pub(super) type Found = (WrittenLetter, Result<StoredLetter, String>);

/// The letter with this id. What cannot be read has its place alone.
pub(super) fn find(
    store: &dyn LetterStore,
    id: &str,
    until: Instant,
) -> Result<Option<Found>, LetterError> {
    let Some((record, place)) = id.rsplit_once('@').filter(|_| id.len() <= MAX_LETTER_ID) else {
        return Ok(None);
    };
    let Some(written) = store.find(place, until)? else {
        return Ok(None);
    };
    let letter = parsed(&written);
    let is_meant = match &letter {
        Ok(letter) => letter.id == record,
        Err(_) => record.is_empty(),
    };
    Ok(is_meant.then_some((written, letter)))
}

/// Bytes of what is shown.
pub(super) fn size(shown: &LetterReport) -> usize {
    let sizes = [
        &shown.key,
        &shown.key_base64,
        &shown.value,
        &shown.value_base64,
    ];
    let sizes = sizes.into_iter().flatten().map(String::len);
    256 + shown.reason.len() + shown.id.len() + sizes.sum::<usize>()
}

/// The letter as it is shown.
pub(super) fn report(
    written: &WrittenLetter,
    letter: Result<StoredLetter, String>,
    room: Room,
) -> LetterReport {
    let place = &written.place;
    let most = match room {
        Room::Preview => PREVIEW,
        Room::Whole => WHOLE,
    };
    let mut letter = match letter {
        Ok(letter) => letter,
        Err(reason) => {
            let bytes = written.bytes.as_deref();
            let (value, value_base64, is_whole) =
                bytes.map_or((None, None, false), |bytes| shown(bytes, most));
            return LetterReport {
                id: format!("@{place}"),
                unsendable: Some(reason.clone()),
                reason,
                value,
                value_base64,
                length: written.length,
                truncated: !is_whole,
                ..LetterReport::default()
            };
        }
    };
    let why = unsendable(&letter).map(str::to_owned);
    let mut truncated = !letter.cut.is_empty()
        || letter.value.as_ref().map_or(0, |value| value.len() as u64) < letter.length;
    let mut bytes = |bytes: Option<Vec<u8>>| {
        let (text, base64, whole) = bytes.map_or((None, None, true), |bytes| shown(&bytes, most));
        truncated |= !whole;
        (text, base64)
    };
    let (key, key_base64) = bytes(letter.key.take());
    let (value, value_base64) = bytes(letter.value.take());
    let (reason, _) = bytes(Some(std::mem::take(&mut letter.reason).into_bytes()));
    let (mut headers, mut backtrace) = (Vec::new(), None);
    if room == Room::Whole {
        headers.extend(letter.headers.into_iter().flatten().map(|(name, value)| {
            let (value, value_base64) = bytes(value);
            LetterHeader {
                name,
                value,
                value_base64,
            }
        }));
        backtrace = letter.backtrace;
    }
    LetterReport {
        id: format!("{}@{place}", short(letter.id)),
        at: letter.at.map(format_time),
        stage: short(letter.stage),
        reason: reason.unwrap_or_default(),
        source: short(letter.source),
        partition: letter.partition,
        offset: letter.offset,
        attempts: letter.attempts,
        component: letter.component.map(short),
        backtrace,
        event_time: letter.event_time.map(format_time),
        key,
        key_base64,
        value,
        value_base64,
        headers,
        length: letter.length,
        truncated,
        unsendable: why,
        input: letter.input.map(short),
        sent_from: letter.sent_from.map(short),
        private_kept: letter.private_sealed.is_some(),
        private: letter.private,
        sent: None,
    }
}

/// A name. In a topic anybody may have written it.
fn short(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(MAX_LETTER_ID));
    name
}

/// The first bytes as text, or in base64 where they are none, and whether they are all.
fn shown(bytes: &[u8], most: usize) -> (Option<String>, Option<String>, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let kept = &text[..text.floor_char_boundary(most)];
            (Some(kept.to_owned()), None, kept.len() == text.len())
        }
        Err(_) => {
            let kept = &bytes[..bytes.len().min(most)];
            (None, Some(base64_text(kept)), kept.len() == bytes.len())
        }
    }
}
