//! Every outcome with every change, and a record as text.

use crate::bindings::exports::tidegate::operator::plain::{
    Answer, Batch, Emission, FieldChange, Message, Origin, Outcome, Pair, PairChange, Patch, Retry,
    Sample, TimeChange,
};
use crate::same;

/// Every outcome in turn, by the offset of the record, and samples of each kind.
pub(crate) fn every(batch: &Batch) -> Answer {
    let set = |value: &str| Patch {
        value: FieldChange::Set(value.into()),
        ..same()
    };
    let to = |output: Option<&str>, patch| Emission {
        output: output.map(str::to_owned),
        patch,
    };
    let outcome = |message: &Message| match message.id.offset % 12 {
        0 => Outcome::Pass,
        1 => Outcome::Drop,
        2 => Outcome::Replace(same()),
        3 => Outcome::Replace(Patch {
            key: FieldChange::Null,
            event_time: TimeChange::None,
            ..set("")
        }),
        4 => Outcome::Replace(changed()),
        5 => Outcome::Split(Vec::new()),
        6 => Outcome::Split(vec![
            to(None, same()),
            to(Some("other"), set("two")),
            to(Some("side"), changed()),
        ]),
        7 => Outcome::Route(to(Some("side"), set("routed"))),
        8 => Outcome::Route(to(None, same())),
        9 => Outcome::Retry(Retry {
            delay_ms: 250,
            reason: "later".into(),
        }),
        10 => Outcome::Retry(Retry {
            delay_ms: u32::MAX,
            reason: String::new(),
        }),
        _ => Outcome::DeadLetter("not for me".into()),
    };
    let samples = batch.messages.iter().enumerate().flat_map(|(index, _)| {
        let sample = |metric, labels: &[&str], value| Sample {
            message: index as u32,
            metric,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            value,
        };
        [
            sample(0, &[], 2.0),
            sample(1, &["dé"], -1.5),
            sample(2, &[], 0.75),
        ]
    });
    Answer {
        outcomes: batch.messages.iter().map(outcome).collect(),
        samples: samples.collect(),
    }
}

/// A change of everything there is.
fn changed() -> Patch {
    let pair = |name: &str, value: Option<&str>| Pair {
        name: name.into(),
        value: value.map(Into::into),
    };
    Patch {
        key: FieldChange::Set(vec![0, 255]),
        value: FieldChange::Null,
        event_time: TimeChange::At(-7),
        headers: vec![
            PairChange::Set(pair("h", Some("new"))),
            PairChange::Add(pair("h", None)),
            PairChange::Remove("gone".into()),
        ],
        attributes: vec![PairChange::Set(pair("ä", Some("")))],
    }
}

/// A record with all that its batch says of it.
pub(crate) fn rendered(batch: &Batch, message: &Message) -> String {
    let pairs = |pairs: &[Pair]| -> Vec<(String, Option<Vec<u8>>)> {
        pairs
            .iter()
            .map(|pair| (pair.name.clone(), pair.value.clone()))
            .collect()
    };
    let id = message.id;
    let origin = match id.origin {
        Origin::Source => 0u8,
        Origin::Timer => 1,
    };
    format!(
        "{:?}",
        (
            (origin, id.source, id.partition, id.offset, id.emit),
            message.event_time,
            &message.key,
            &message.value,
            pairs(&message.headers),
            pairs(&message.attributes),
            (batch.clock, batch.seed),
        )
    )
}
