//! A plain model of a record, and strategies that make records, changes and outcomes.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tidegate_record::{
    BatchBuilder, Change, NewRecord, Origin, Pairs, PatchBuilder, RecordId, RecordView,
};

/// Bytes or null.
pub(crate) type Field = Option<Vec<u8>>;
/// Headers or attributes.
pub(crate) type OwnedPairs = Vec<(String, Field)>;

/// A record that owns its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) id: RecordId,
    pub(crate) event_time: Option<i64>,
    pub(crate) key: Field,
    pub(crate) value: Field,
    pub(crate) headers: OwnedPairs,
    pub(crate) attributes: OwnedPairs,
}

impl Model {
    /// Adds the record to a batch.
    pub(crate) fn push(&self, builder: &mut BatchBuilder) {
        let headers = borrowed(&self.headers);
        let attributes = borrowed(&self.attributes);
        builder
            .push(&NewRecord {
                id: self.id,
                event_time: self.event_time,
                key: self.key.as_deref(),
                value: self.value.as_deref(),
                headers: &headers,
                attributes: &attributes,
            })
            .unwrap();
    }

    /// What a view shows.
    pub(crate) fn of(view: RecordView<'_>) -> Model {
        Model {
            id: view.id(),
            event_time: view.event_time(),
            key: view.key().map(<[u8]>::to_vec),
            value: view.value().map(<[u8]>::to_vec),
            headers: owned(view.headers()),
            attributes: owned(view.attributes()),
        }
    }

    /// The record with changes made one after the other, as their names say.
    pub(crate) fn changed(mut self, changes: &Changes, emit: u64) -> Model {
        self.id.emit = emit;
        if let Some(key) = &changes.key {
            self.key.clone_from(key);
        }
        if let Some(value) = &changes.value {
            self.value.clone_from(value);
        }
        if let Some(time) = changes.event_time {
            self.event_time = time;
        }
        for change in &changes.headers {
            change.apply(&mut self.headers);
        }
        for change in &changes.attributes {
            change.apply(&mut self.attributes);
        }
        self
    }
}

fn borrowed(pairs: &OwnedPairs) -> Vec<(&str, Option<&[u8]>)> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect()
}

fn owned(pairs: Pairs<'_>) -> OwnedPairs {
    pairs
        .map(|pair| (pair.name.to_owned(), pair.value.map(<[u8]>::to_vec)))
        .collect()
}

/// A change to headers or attributes that owns its parts.
#[derive(Clone, Debug)]
pub(crate) enum OwnedChange {
    Set(String, Field),
    Add(String, Field),
    Remove(String),
}

impl OwnedChange {
    pub(crate) fn borrowed(&self) -> Change<'_> {
        match self {
            OwnedChange::Set(name, value) => Change::Set {
                name,
                value: value.as_deref(),
            },
            OwnedChange::Add(name, value) => Change::Add {
                name,
                value: value.as_deref(),
            },
            OwnedChange::Remove(name) => Change::Remove { name },
        }
    }

    fn apply(&self, pairs: &mut OwnedPairs) {
        match self {
            OwnedChange::Set(name, value) => {
                pairs.retain(|(known, _)| known != name);
                pairs.push((name.clone(), value.clone()));
            }
            OwnedChange::Add(name, value) => pairs.push((name.clone(), value.clone())),
            OwnedChange::Remove(name) => pairs.retain(|(known, _)| known != name),
        }
    }
}

/// Changes to a record that own their parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) key: Option<Field>,
    pub(crate) value: Option<Field>,
    pub(crate) headers: Vec<OwnedChange>,
    pub(crate) attributes: Vec<OwnedChange>,
    pub(crate) event_time: Option<Option<i64>>,
}

impl Changes {
    pub(crate) fn patch(&self) -> PatchBuilder {
        let mut patch = PatchBuilder::default();
        if let Some(key) = &self.key {
            patch.set_key(key.clone());
        }
        if let Some(value) = &self.value {
            patch.set_value(value.clone());
        }
        if let Some(time) = self.event_time {
            patch.set_event_time(time);
        }
        self.headers
            .iter()
            .for_each(|change| patch.header(change.borrowed()));
        self.attributes
            .iter()
            .for_each(|change| patch.attribute(change.borrowed()));
        patch
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn field() -> impl Strategy<Value = Field> {
    prop::option::of(bytes())
}

/// Few names, so that they meet.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[abc]", 1 => Just(String::new()), 1 => "\\PC{1,12}"]
}

fn pairs() -> impl Strategy<Value = OwnedPairs> {
    prop::collection::vec((name(), field()), 0..6)
}

pub(crate) fn record() -> impl Strategy<Value = Model> {
    let origin = prop_oneof![Just(Origin::Source), Just(Origin::Timer)];
    let id = (
        origin,
        any::<u16>(),
        any::<u32>(),
        any::<u64>(),
        any::<u64>(),
    );
    // The smallest i64 stands for none.
    let event_time = prop::option::of(i64::MIN + 1..=i64::MAX);
    (id, event_time, field(), field(), pairs(), pairs()).prop_map(
        |(
            (origin, source, partition, offset, emit),
            event_time,
            key,
            value,
            headers,
            attributes,
        )| Model {
            id: RecordId {
                origin,
                source,
                partition,
                offset,
                emit,
            },
            event_time,
            key,
            value,
            headers,
            attributes,
        },
    )
}

pub(crate) fn records() -> impl Strategy<Value = Vec<Model>> {
    prop::collection::vec(record(), 0..8)
}

fn change() -> impl Strategy<Value = OwnedChange> {
    prop_oneof![
        (name(), field()).prop_map(|(name, value)| OwnedChange::Set(name, value)),
        (name(), field()).prop_map(|(name, value)| OwnedChange::Add(name, value)),
        name().prop_map(OwnedChange::Remove),
    ]
}

pub(crate) fn changes() -> impl Strategy<Value = Changes> {
    // Few changes and many are applied in different ways.
    let some = || {
        prop_oneof![
            3 => prop::collection::vec(change(), 0..8),
            1 => prop::collection::vec(change(), 17..40),
        ]
    };
    (
        prop::option::of(field()),
        prop::option::of(field()),
        some(),
        some(),
        prop::option::of(prop::option::of(i64::MIN + 1..=i64::MAX)),
    )
        .prop_map(|(key, value, headers, attributes, event_time)| Changes {
            key,
            value,
            headers,
            attributes,
            event_time,
        })
}

/// The same cases on every run.
pub(crate) fn seeded(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(0x7265_636f_7264),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn batch(records: &[Model], clock: i64) -> tidegate_record::Batch {
    let mut builder = BatchBuilder::default();
    records.iter().for_each(|record| record.push(&mut builder));
    builder.finish(clock)
}
