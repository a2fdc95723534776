//! A dead letter as a Kafka message, made to fit.

use std::borrow::Cow;

use rdkafka::message::{Header, OwnedHeaders};
use tidegate_codec::{PREVIEW, encode_dead_letter_cut};
use tidegate_contract::{DeadLetter, LetterForm, LetterHeader};
use tidegate_record::RecordId;

/// Most bytes that key, value, reason and backtrace keep each, from one try to the next. At the last a letter has a few
/// hundred bytes, most of them the names of its source and stage.
const KEPT: [usize; 5] = [usize::MAX, PREVIEW, 4096, 512, 32];

/// A dead letter, kept until the broker has it.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    id: RecordId,
    pipeline: String,
    source: String,
    input: Option<String>,
    stage: String,
    reason: String,
    component: Option<String>,
    backtrace: Option<String>,
    attempts: u32,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    length: u64,
    at: i64,
    form: LetterForm,
    event_time: Option<i64>,
    headers: Option<Vec<(String, Option<Vec<u8>>)>>,
    private: u64,
    private_sealed: Option<Vec<u8>>,
    /// Bytes that key, value, reason and backtrace had. More than a message can hold is not kept.
    lengths: [usize; 4],
    /// Which of [`KEPT`] it is cut to.
    step: usize,
    /// Whether the message's key is the record's place instead of its key.
    by_place: bool,
}

/// A letter's message.
pub(super) struct Written<'a> {
    pub(super) key: Option<Cow<'a, [u8]>>,
    pub(super) value: Vec<u8>,
    pub(super) headers: OwnedHeaders,
}

impl Letter {
    /// A letter of this pipeline; `largest` is the most that a message holds.
    pub(super) fn of(letter: &DeadLetter<'_>, pipeline: &str, largest: usize) -> Letter {
        Letter {
            lengths: [
                letter.key.map_or(0, <[u8]>::len),
                letter.value.map_or(0, <[u8]>::len),
                letter.reason.len(),
                letter.backtrace.map_or(0, str::len),
            ],
            id: letter.id,
            pipeline: pipeline.to_owned(),
            source: letter.source.to_owned(),
            input: letter.input.map(str::to_owned),
            stage: letter.stage.to_owned(),
            reason: cut_text(letter.reason, largest).to_owned(),
            component: letter.component.map(str::to_owned),
            backtrace: letter
                .backtrace
                .map(|text| cut_text(text, largest).to_owned()),
            attempts: letter.attempts,
            key: letter.key.map(|key| cut_bytes(key, largest).to_vec()),
            value: letter.value.map(|value| cut_bytes(value, largest).to_vec()),
            length: letter.length,
            at: letter.at,
            form: letter.form,
            event_time: letter.event_time,
            headers: letter.headers.map(|headers| {
                let headers = headers.iter();
                let owned =
                    headers.map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec)));
                owned.collect()
            }),
            private: letter.private,
            private_sealed: letter.private_sealed.map(<[u8]>::to_vec),
            step: 0,
            by_place: false,
        }
    }

    /// Gives the message a key of its own, `support-bot/tickets/3/77@redact`: a compacted topic takes none without, and
    /// keeps only the last letter of a key. The record's key is in the value. False if it had one already.
    pub(super) fn key_by_place(&mut self) -> bool {
        !std::mem::replace(&mut self.by_place, true)
    }

    fn place(&self) -> Vec<u8> {
        let RecordId {
            partition,
            offset,
            emit,
            ..
        } = self.id;
        let piece = if emit == 0 {
            String::new()
        } else {
            format!("/{emit}")
        };
        let (pipeline, source, stage) = (&self.pipeline, &self.source, &self.stage);
        format!("{pipeline}/{source}/{partition}/{offset}{piece}@{stage}").into_bytes()
    }

    /// What is sealed of its private attributes. It opens for the whole key and value alone.
    fn sealed(&self) -> Option<&[u8]> {
        self.private_sealed.as_deref().filter(|_| self.step == 0)
    }

    /// Which input its source read, while it can be sent again.
    fn input(&self) -> Option<&str> {
        self.input.as_deref().filter(|_| self.step == 0)
    }

    fn header_bytes(&self) -> Option<usize> {
        let size = |(name, value): &(String, Option<Vec<u8>>)| {
            name.len() + value.as_ref().map_or(0, Vec::len)
        };
        let sizes = self.headers.as_ref()?.iter().map(size);
        Some(sizes.sum())
    }

    /// Cuts it further. False if it is as short as it gets.
    pub(super) fn shorten(&mut self) -> bool {
        let longest = [
            self.key.as_ref().map_or(0, Vec::len),
            self.value.as_ref().map_or(0, Vec::len),
            self.reason.len(),
            self.backtrace.as_ref().map_or(0, String::len),
            // These are left out at the first step.
            self.header_bytes().filter(|_| self.step == 0).unwrap_or(0),
            self.input().map_or(0, str::len),
            self.sealed().map_or(0, <[u8]>::len),
        ];
        let longest = longest.into_iter().max().unwrap_or(0);
        // A step that cuts nothing would be refused as the one before it was.
        let next = (self.step + 1..KEPT.len()).find(|step| KEPT[*step] < longest);
        self.step = next.unwrap_or(self.step);
        next.is_some()
    }

    /// The message, with the lengths of what was cut.
    pub(super) fn write(&self) -> Written<'_> {
        let most = KEPT[self.step];
        let key = self.key.as_deref().map(|key| cut_bytes(key, most));
        let shown = self.value.as_deref().map(|value| cut_bytes(value, most));
        let reason = cut_text(&self.reason, most);
        let backtrace = self.backtrace.as_deref().map(|text| cut_text(text, most));
        let [key_length, value_length, reason_length, backtrace_length] = self.lengths;
        let kept = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let cut: Vec<(&str, u64)> = [
            ("key", kept(key), key_length, key_length as u64),
            ("value", kept(shown), value_length, self.length),
            ("reason", reason.len(), reason_length, reason_length as u64),
            (
                "backtrace",
                kept(backtrace.map(str::as_bytes)),
                backtrace_length,
                backtrace_length as u64,
            ),
        ]
        .into_iter()
        .filter(|(_, kept, had, _)| kept < had)
        .map(|(name, _, _, length)| (name, length))
        .collect();
        // A letter that is cut does without them: it cannot be sent again either way.
        let headers = self.headers.as_ref().filter(|_| self.step == 0);
        let headers: Option<Vec<LetterHeader<'_>>> = headers.map(|headers| {
            let headers = headers.iter();
            headers
                .map(|(name, value)| (name.as_str(), value.as_deref()))
                .collect()
        });
        let mut value = Vec::new();
        encode_dead_letter_cut(
            &mut value,
            &DeadLetter {
                pipeline: &self.pipeline,
                id: self.id,
                source: &self.source,
                input: self.input(),
                stage: &self.stage,
                reason,
                component: self.component.as_deref(),
                backtrace,
                attempts: self.attempts,
                key,
                value: shown,
                length: self.length,
                at: self.at,
                form: self.form,
                event_time: self.event_time,
                headers: headers.as_deref(),
                private: self.private,
                private_sealed: self.sealed(),
            },
            &cut,
        );
        let text = |key, value| Header {
            key,
            value: Some(value),
        };
        let headers = OwnedHeaders::new()
            .insert(text("tidegate-source", self.source.as_str()))
            .insert(text("tidegate-stage", self.stage.as_str()))
            .insert(text("tidegate-reason", reason));
        Written {
            key: if self.by_place {
                Some(Cow::Owned(self.place()))
            } else {
                key.map(Cow::Borrowed)
            },
            value,
            headers,
        }
    }
}

/// The first bytes, of UTF-8 no half character.
fn cut_bytes(bytes: &[u8], most: usize) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Ok(text) => cut_text(text, most).as_bytes(),
        Err(_) => &bytes[..bytes.len().min(most)],
    }
}

fn cut_text(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_of_a_long_path_alone_can_be_cut_and_then_no_further() {
        let path = format!("/{}", "long/".repeat(800));
        let of = DeadLetter {
            source: "in",
            stage: "out",
            reason: "why",
            input: Some(&path),
            value: Some(b"1"),
            length: 1,
            ..DeadLetter::default()
        };
        let mut letter = Letter::of(&of, "tests", 1000);
        assert!(letter.write().value.len() > path.len());
        assert!(letter.shorten(), "its input can be left out");
        assert!(letter.write().value.len() < 1000);
        assert!(!letter.shorten());
    }
}
