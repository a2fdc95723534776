//! Every outcome with every change, and a record as text: what the guest `plain` answers in its world. Compiled into the
//! tests as well, which hold both against it.

use tidegate_record::{BatchView, Change, OutcomesBuilder, Pairs, PatchBuilder, RecordView};

/// Every outcome in turn, by the offset of the record, and samples of each kind.
pub(crate) fn every(batch: &BatchView<'_>) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
    let same = PatchBuilder::default();
    let set = |value: &str| {
        let mut patch = PatchBuilder::default();
        patch.set_value(Some(value.into()));
        patch
    };
    for (index, record) in batch.records().enumerate() {
        match record.id().offset % 12 {
            0 => outcomes.pass(),
            1 => outcomes.drop_record(),
            2 => outcomes.replace(&same),
            3 => {
                let mut patch = set("");
                patch.set_key(None);
                patch.set_event_time(None);
                outcomes.replace(&patch);
            }
            4 => outcomes.replace(&changed()),
            5 => outcomes.split([].into_iter()),
            6 => {
                let (two, all) = (set("two"), changed());
                outcomes.split([(0, &same), (2, &two), (1, &all)].into_iter());
            }
            7 => outcomes.route(1, &set("routed")),
            8 => outcomes.route(0, &same),
            9 => outcomes.retry(250, "later"),
            10 => outcomes.retry(u32::MAX, ""),
            _ => outcomes.dead_letter("not for me"),
        }
        let index = index as u32;
        outcomes.sample(index, 0, 2, &[]);
        outcomes.sample(index, 1, (-1.5f64).to_bits(), &["dé"]);
        outcomes.sample(index, 2, 0.75f64.to_bits(), &[]);
    }
    outcomes.finish()
}

/// A change of everything there is.
fn changed() -> PatchBuilder {
    let mut patch = PatchBuilder::default();
    patch.set_key(Some(vec![0, 255]));
    patch.set_value(None);
    patch.set_event_time(Some(-7));
    let value: Option<&[u8]> = Some(b"new");
    patch.header(Change::Set { name: "h", value });
    patch.header(Change::Add {
        name: "h",
        value: None,
    });
    patch.header(Change::Remove { name: "gone" });
    patch.attribute(Change::Set {
        name: "ä",
        value: Some(b""),
    });
    patch
}

/// A record with all that its batch says of it.
pub(crate) fn rendered(batch: &BatchView<'_>, record: &RecordView<'_>) -> String {
    let pairs = |pairs: Pairs<'_>| -> Vec<(String, Option<Vec<u8>>)> {
        pairs
            .map(|pair| (pair.name.to_owned(), pair.value.map(<[u8]>::to_vec)))
            .collect()
    };
    let (id, seed) = (record.id(), u128::from_le_bytes(batch.seed()));
    format!(
        "{:?}",
        (
            (id.origin as u8, id.source, id.partition, id.offset, id.emit),
            record.event_time(),
            record.key(),
            record.value(),
            pairs(record.headers()),
            pairs(record.attributes()),
            (batch.clock(), (seed as u64, (seed >> 64) as u64)),
        )
    )
}
