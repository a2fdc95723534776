//! Where a group begins that is to begin at the end of its topic, or at a time.
//!
//! A group that has no position of a topic begins there when its first member comes, and its positions are committed
//! before any member reads. So a member that is killed before a record came skips nothing when it comes again, and a
//! partition without a position is known to be younger than the group: it is read from its first record.

use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_contract::{LARGEST_MARK, Mark};

use super::client::patiently;
use super::code_of;
use super::options::{KafkaSourceOptions, KafkaStart};
use super::rebalance::Context;
use super::source::ASK;

/// Commits where each partition begins as the position of a group that has none. The group must not have members yet: the
/// coordinator takes the commit of somebody who is none only then, so that it never moves a position that is in use.
pub(super) fn begin_group(
    config: &ClientConfig,
    options: &KafkaSourceOptions,
    place: &str,
) -> Result<(), String> {
    // Asks as nobody: the name of a static member belongs to the one who reads.
    let mut config = config.clone();
    config.remove("group.instance.id");
    let asker: BaseConsumer<Context> = config
        .create_with_context(Context::default())
        .map_err(|error| error.to_string())?;
    patiently(place, options.patience, || {
        try_begin(&asker, options, place)
    })
}

fn try_begin(
    asker: &BaseConsumer<Context>,
    options: &KafkaSourceOptions,
    place: &str,
) -> KafkaResult<()> {
    let positions = positions(asker, &options.topic)?;
    if has_any(&positions) {
        return Ok(());
    }
    let begun = begin_of(asker, &positions, options.start)?;
    let mark = begun_mark();
    let begun = begun.iter();
    let begun = begun.map(|(number, begin)| (*number, *begin, mark.as_str()));
    let begun = to_commit(&options.topic, begun)?;
    match asker.commit(&begun, CommitMode::Sync) {
        Ok(()) => {
            tracing::info!(
                place,
                group = options.group,
                partitions = begun.count(),
                "the group is new and begins {}",
                options.start
            );
            Ok(())
        }
        // Somebody was faster.
        Err(error) if has_members(code_of(&error)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a commit by somebody who is no member was refused because there are members.
fn has_members(code: Option<RDKafkaErrorCode>) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Some(Code::UnknownMemberId | Code::IllegalGeneration | Code::RebalanceInProgress)
    )
}

/// Every partition of a topic.
pub(super) fn partitions_of(
    consumer: &BaseConsumer<Context>,
    topic: &str,
) -> KafkaResult<TopicPartitionList> {
    let metadata = consumer.fetch_metadata(Some(topic), ASK)?;
    let mut list = TopicPartitionList::new();
    for found in metadata.topics() {
        for partition in found.partitions() {
            list.add_partition(found.name(), partition.id());
        }
    }
    Ok(list)
}

/// The group's position in every partition of a topic.
pub(super) fn positions(
    consumer: &BaseConsumer<Context>,
    topic: &str,
) -> KafkaResult<TopicPartitionList> {
    let positions = consumer.committed_offsets(partitions_of(consumer, topic)?, ASK)?;
    for element in positions.elements() {
        element.error()?;
    }
    Ok(positions)
}

/// The first offset that each of these partitions still has.
pub(super) fn first_of(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
) -> KafkaResult<Vec<(i32, i64)>> {
    known_at(consumer, partitions, Offset::Beginning, ASK)
}

/// Where these partitions begin for a group that has no position in the topic.
pub(super) fn begin_of(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
    start: KafkaStart,
) -> KafkaResult<Vec<(i32, i64)>> {
    // Asked first: what comes between the two questions lies behind the end, and is not gone past.
    let mut begun = ends_of(consumer, partitions)?;
    if let KafkaStart::At(millis) = start {
        let found = offsets_at(consumer, partitions, Offset::Offset(millis), ASK)?;
        for (number, begin) in &mut begun {
            let of = found.iter().find(|(found, _)| found == number);
            *begin = of.and_then(|(_, offset)| *offset).unwrap_or(*begin);
        }
    }
    Ok(begun)
}

/// Where these partitions end.
pub(super) fn ends_of(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
) -> KafkaResult<Vec<(i32, i64)>> {
    ends_within(consumer, partitions, ASK)
}

/// The same, asked for no longer than this.
pub(super) fn ends_within(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
    wait: Duration,
) -> KafkaResult<Vec<(i32, i64)>> {
    known_at(consumer, partitions, Offset::End, wait)
}

/// Beginning or end, which librdkafka takes in place of a time: every partition has them.
fn known_at(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
    place: Offset,
    wait: Duration,
) -> KafkaResult<Vec<(i32, i64)>> {
    let offsets = offsets_at(consumer, partitions, place, wait)?;
    let known = |(number, offset): (i32, Option<i64>)| match offset {
        Some(offset) => Ok((number, offset)),
        None => Err(KafkaError::OffsetFetch(
            RDKafkaErrorCode::OffsetNotAvailable,
        )),
    };
    offsets.into_iter().map(known).collect()
}

/// The first offset of each partition at this time or later, if there is one. The partitions are asked after together,
/// however many there are: their brokers answer each once.
fn offsets_at(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
    time: Offset,
    wait: Duration,
) -> KafkaResult<Vec<(i32, Option<i64>)>> {
    if partitions.count() == 0 {
        return Ok(Vec::new());
    }
    let mut list = partitions.clone();
    list.set_all_offsets(time)?;
    let answer = consumer.offsets_for_times(list, wait)?;
    let mut offsets = Vec::with_capacity(answer.count());
    for element in answer.elements() {
        element.error()?;
        let offset = match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        offsets.push((element.partition(), offset));
    }
    Ok(offsets)
}

/// These positions in a topic, to be committed, each with what is kept beside it.
pub(super) fn to_commit<'a>(
    topic: &str,
    positions: impl IntoIterator<Item = (i32, i64, &'a str)>,
) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (number, position, metadata) in positions {
        let mut offset = list.add_partition(topic, number);
        offset.set_offset(Offset::Offset(position))?;
        offset.set_metadata(metadata);
    }
    Ok(list)
}

/// What is kept beside a position at which a group begins, before any cut: nobody else has set it.
pub(super) fn begun_mark() -> String {
    Mark::default().write(LARGEST_MARK)
}

/// Whether the group has begun with a topic whose positions these are.
pub(super) fn has_any(positions: &TopicPartitionList) -> bool {
    let mut positions = positions.elements().into_iter();
    positions.any(|element| has_position(element.offset()))
}

/// Whether this is a position, and not that there is none.
pub(super) fn has_position(offset: Offset) -> bool {
    matches!(offset, Offset::Offset(_))
}
