//! The plain world of 1.0.0: a batch as typed records. What comes back is written as a packed answer, so that it is
//! checked and taken where all are.

use tidegate_record::{
    BatchView, Change, Fields, Origin, OutcomesBuilder, Pairs, PatchBuilder, RecordId,
};
use tidegate_telemetry::plain as shown;
use wasmtime::component::{ComponentType, Lift, Lower};

use crate::limits::NAME_BYTES;
use crate::metrics::{Kind, LABEL_BYTES, Metric};

#[derive(Clone, Copy, ComponentType, Lower)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum WitOrigin {
    #[component(name = "source")]
    Source,
    #[component(name = "timer")]
    Timer,
}

#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
pub(crate) struct WitIdentity {
    origin: WitOrigin,
    source: u16,
    partition: u32,
    offset: u64,
    emit: u64,
}

impl From<RecordId> for WitIdentity {
    fn from(id: RecordId) -> WitIdentity {
        WitIdentity {
            origin: match id.origin {
                Origin::Source => WitOrigin::Source,
                Origin::Timer => WitOrigin::Timer,
            },
            source: id.source,
            partition: id.partition,
            offset: id.offset,
            emit: id.emit,
        }
    }
}

#[derive(Clone, ComponentType, Lower)]
#[component(record)]
pub(crate) struct WitPairRef<'a> {
    name: &'a str,
    value: Option<&'a [u8]>,
}

#[derive(Clone, ComponentType, Lower)]
#[component(record)]
pub(crate) struct WitMessage<'a> {
    id: WitIdentity,
    #[component(name = "event-time")]
    event_time: Option<i64>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Vec<WitPairRef<'a>>,
    attributes: Vec<WitPairRef<'a>>,
}

/// `batch` of the WIT.
#[derive(Clone, ComponentType, Lower)]
#[component(record)]
pub(crate) struct WitBatch<'a> {
    clock: i64,
    seed: (u64, u64),
    messages: Vec<WitMessage<'a>>,
}

impl<'a> WitBatch<'a> {
    /// These fields of a batch.
    pub(crate) fn of(view: BatchView<'a>, reads: Fields, seed: [u8; 16]) -> WitBatch<'a> {
        let pairs = |field: Fields, pairs: Pairs<'a>| match reads.contains(field) {
            true => pairs
                .map(|pair| WitPairRef {
                    name: pair.name,
                    value: pair.value,
                })
                .collect(),
            false => Vec::new(),
        };
        let field =
            |field: Fields, bytes: Option<&'a [u8]>| bytes.filter(|_| reads.contains(field));
        let bits = u128::from_le_bytes(seed);
        WitBatch {
            clock: view.clock(),
            seed: (bits as u64, (bits >> 64) as u64),
            messages: view
                .records()
                .map(|record| WitMessage {
                    id: record.id().into(),
                    event_time: record.event_time(),
                    key: field(Fields::KEY, record.key()),
                    value: field(Fields::VALUE, record.value()),
                    headers: pairs(Fields::HEADERS, record.headers()),
                    attributes: pairs(Fields::ATTRIBUTES, record.attributes()),
                })
                .collect(),
        }
    }
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitPair {
    name: String,
    value: Option<Vec<u8>>,
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum WitFieldChange {
    #[component(name = "keep")]
    Keep,
    #[component(name = "null")]
    Null,
    #[component(name = "set")]
    Set(Vec<u8>),
}

#[derive(Clone, Copy, Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum WitTimeChange {
    #[component(name = "keep")]
    Keep,
    #[component(name = "none")]
    None,
    #[component(name = "at")]
    At(i64),
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum WitPairChange {
    #[component(name = "set")]
    Set(WitPair),
    #[component(name = "add")]
    Add(WitPair),
    #[component(name = "remove")]
    Remove(String),
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitPatch {
    key: WitFieldChange,
    value: WitFieldChange,
    #[component(name = "event-time")]
    event_time: WitTimeChange,
    headers: Vec<WitPairChange>,
    attributes: Vec<WitPairChange>,
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitEmission {
    output: Option<String>,
    patch: WitPatch,
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitRetry {
    #[component(name = "delay-ms")]
    delay_ms: u32,
    reason: String,
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum WitOutcome {
    #[component(name = "pass")]
    Pass,
    #[component(name = "drop")]
    Drop,
    #[component(name = "replace")]
    Replace(WitPatch),
    #[component(name = "split")]
    Split(Vec<WitEmission>),
    #[component(name = "route")]
    Route(WitEmission),
    #[component(name = "retry")]
    Retry(WitRetry),
    #[component(name = "dead-letter")]
    DeadLetter(String),
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitSample {
    message: u32,
    metric: u16,
    labels: Vec<String>,
    value: f64,
}

/// `answer` of the WIT.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitAnswer {
    outcomes: Vec<WitOutcome>,
    samples: Vec<WitSample>,
}

impl WitAnswer {
    /// The same as a packed answer. An error says what is wrong, and in which record's outcome if it is in one.
    pub(crate) fn pack(
        self,
        outputs: &[String],
        metrics: &[Metric],
    ) -> Result<Vec<u8>, (Option<usize>, String)> {
        let mut builder = OutcomesBuilder::with_capacity(self.outcomes.len());
        for (record, outcome) in self.outcomes.into_iter().enumerate() {
            write(&mut builder, outcome, outputs)
                .map_err(|why| (Some(record), format!("outcome of record {record}: {why}")))?;
        }
        for (index, sample) in self.samples.iter().enumerate() {
            let of_record = |why| (Some(sample.message as usize), why);
            let labels: Vec<&str> = sample.labels.iter().map(String::as_str).collect();
            // Longer ones would not fit into a packed answer.
            if let Some(long) = labels.iter().find(|label| label.len() > LABEL_BYTES) {
                let bytes = long.len();
                return Err(of_record(format!(
                    "sample {index} has a label of {bytes} bytes, limit {LABEL_BYTES}"
                )));
            }
            let is_counter = metrics
                .get(usize::from(sample.metric))
                .is_some_and(|metric| metric.kind == Kind::Counter);
            let bits = match is_counter {
                true => amount(sample.value).ok_or_else(|| {
                    let value = sample.value;
                    of_record(format!(
                        "sample {index} adds {value} to a counter, which takes whole numbers from 0 to 2^53"
                    ))
                })?,
                false => sample.value.to_bits(),
            };
            builder.sample(sample.message, sample.metric, bits, &labels);
        }
        Ok(builder.finish())
    }
}

/// A whole number that a double holds exactly.
fn amount(value: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && (0.0..=EXACT).contains(&value)).then_some(value as u64)
}

fn write(
    builder: &mut OutcomesBuilder,
    outcome: WitOutcome,
    outputs: &[String],
) -> Result<(), String> {
    let emission = |emission: WitEmission| {
        let output = match &emission.output {
            None => 0,
            Some(name) => match outputs.iter().position(|known| known == name) {
                Some(index) => index as u16 + 1,
                None => {
                    let name = shown(name, NAME_BYTES);
                    return Err(format!(
                        "it goes to the output \"{name}\", which the operator does not describe"
                    ));
                }
            },
        };
        Ok((output, patch(emission.patch)?))
    };
    match outcome {
        WitOutcome::Pass => builder.pass(),
        WitOutcome::Drop => builder.drop_record(),
        WitOutcome::Replace(changes) => builder.replace(&patch(changes)?),
        WitOutcome::Split(pieces) => {
            let pieces = pieces
                .into_iter()
                .map(emission)
                .collect::<Result<Vec<_>, String>>()?;
            builder.split(pieces.iter().map(|(output, patch)| (*output, patch)));
        }
        WitOutcome::Route(piece) => {
            let (output, patch) = emission(piece)?;
            builder.route(output, &patch);
        }
        WitOutcome::Retry(retry) => builder.retry(retry.delay_ms, &retry.reason),
        WitOutcome::DeadLetter(reason) => builder.dead_letter(&reason),
    }
    Ok(())
}

/// Most changes of headers or attributes, and longest name of one in bytes: what fits into a packed answer.
const MOST: usize = u16::MAX as usize;

fn patch(changes: WitPatch) -> Result<PatchBuilder, String> {
    let mut patch = PatchBuilder::default();
    match changes.key {
        WitFieldChange::Keep => {}
        WitFieldChange::Null => patch.set_key(None),
        WitFieldChange::Set(key) => patch.set_key(Some(key)),
    }
    match changes.value {
        WitFieldChange::Keep => {}
        WitFieldChange::Null => patch.set_value(None),
        WitFieldChange::Set(value) => patch.set_value(Some(value)),
    }
    match changes.event_time {
        WitTimeChange::Keep => {}
        WitTimeChange::None => patch.set_event_time(None),
        WitTimeChange::At(time) => patch.set_event_time(Some(time)),
    }
    for (what, found) in [
        ("headers", &changes.headers),
        ("attributes", &changes.attributes),
    ] {
        if found.len() > MOST {
            let found = found.len();
            return Err(format!("it makes {found} changes to {what}, limit {MOST}"));
        }
    }
    for change in &changes.headers {
        patch.header(pair_change(change)?);
    }
    for change in &changes.attributes {
        patch.attribute(pair_change(change)?);
    }
    Ok(patch)
}

fn pair_change(change: &WitPairChange) -> Result<Change<'_>, String> {
    let (WitPairChange::Set(WitPair { name, .. })
    | WitPairChange::Add(WitPair { name, .. })
    | WitPairChange::Remove(name)) = change;
    if name.len() > MOST {
        let (bytes, shown) = (name.len(), shown(name, NAME_BYTES));
        return Err(format!(
            "a header or attribute has a name of {bytes} bytes, limit {MOST}: \"{shown}\""
        ));
    }
    Ok(match change {
        WitPairChange::Set(WitPair { name, value }) => Change::Set {
            name,
            value: value.as_deref(),
        },
        WitPairChange::Add(WitPair { name, value }) => Change::Add {
            name,
            value: value.as_deref(),
        },
        WitPairChange::Remove(name) => Change::Remove { name },
    })
}
