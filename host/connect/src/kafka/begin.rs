//! Where a group begins that is to begin at the end of its topic.
//!
//! A group that has no position of a topic begins there when its first member comes, and its positions are committed
//! before any member reads. So a member that is killed before a record came skips nothing when it comes again, and a
//! partition without a position is known to be younger than the group: it is read from its first record.

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode;

use super::options::KafkaSourceOptions;
use super::rebalance::Context;
use super::source::ASK;
use super::{Trouble, code_of, is_transient};

/// Commits the end of each partition as the position of a group that has none. The group must not have members yet: the
/// coordinator takes the commit of somebody who is none only then, so that it never moves a position that is in use.
pub(super) fn begin_at_end(
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
    let mut trouble = Trouble::new(options.patience);
    loop {
        match try_begin(&asker, options, place) {
            Ok(()) => return Ok(()),
            Err(error) if is_transient(&error) => trouble.note(place, &error.to_string())?,
            Err(error) => return Err(error.to_string()),
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
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
    let ends = to_commit(&options.topic, &ends_of(asker, &positions)?)?;
    match asker.commit(&ends, CommitMode::Sync) {
        Ok(()) => {
            tracing::info!(
                place,
                group = options.group,
                partitions = ends.count(),
                "the group is new and begins at the end of the topic"
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

/// The group's position in every partition of a topic.
pub(super) fn positions(
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
    let positions = consumer.committed_offsets(list, ASK)?;
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
    offsets_of(consumer, partitions, Offset::Beginning)
}

/// Where these partitions end. They are asked after together, however many there are: their brokers answer each once.
pub(super) fn ends_of(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
) -> KafkaResult<Vec<(i32, i64)>> {
    offsets_of(consumer, partitions, Offset::End)
}

/// `place` is asked for in place of a time.
fn offsets_of(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
    place: Offset,
) -> KafkaResult<Vec<(i32, i64)>> {
    if partitions.count() == 0 {
        return Ok(Vec::new());
    }
    let mut list = partitions.clone();
    list.set_all_offsets(place)?;
    let answer = consumer.offsets_for_times(list, ASK)?;
    let mut ends = Vec::with_capacity(answer.count());
    for element in answer.elements() {
        element.error()?;
        let Offset::Offset(end) = element.offset() else {
            let unknown = RDKafkaErrorCode::OffsetNotAvailable;
            return Err(KafkaError::OffsetFetch(unknown));
        };
        ends.push((element.partition(), end));
    }
    Ok(ends)
}

/// These positions in a topic, to be committed.
pub(super) fn to_commit(topic: &str, positions: &[(i32, i64)]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (number, position) in positions {
        list.add_partition_offset(topic, *number, Offset::Offset(*position))?;
    }
    Ok(list)
}

/// Whether the group has begun with a topic whose positions these are.
pub(super) fn has_any(positions: &TopicPartitionList) -> bool {
    let known = |offset| matches!(offset, Offset::Offset(_));
    positions
        .elements()
        .iter()
        .any(|element| known(element.offset()))
}
