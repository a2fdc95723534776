//! What lies unread in the partitions that are read here.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::Offset;
use tidegate_contract::{Lag, Unread};

use super::rebalance::Context;
use super::source::{ASK, KafkaSource};

/// How often the brokers are asked where partitions end: one question to each, however many there are.
const INTERVAL: Duration = Duration::from_secs(10);

/// Where partitions ended when the brokers were asked last. Asked by a thread of its own: the worker waits for no answer.
/// Declared before what lets the consumer leave its group: that waits until nobody asks any more.
#[derive(Debug, Default)]
pub(super) struct KnownEnds {
    asked: Option<Instant>,
    asker: Option<Asker>,
}

#[derive(Debug)]
struct Asker {
    /// Breaks off when the source ends.
    asks: Option<SyncSender<TopicPartitionList>>,
    ends: Arc<Mutex<Ends>>,
    thread: Option<JoinHandle<()>>,
}

/// Of each partition where it ended, and when. An answer that does not come leaves the older one with its age.
type Ends = BTreeMap<i32, (u64, Instant)>;

impl Asker {
    fn start(consumer: &Arc<BaseConsumer<Context>>, place: &str) -> Option<Asker> {
        let (asks, asked) = sync_channel(0);
        let ends = Arc::<Mutex<Ends>>::default();
        let thread = {
            let (consumer, place) = (Arc::downgrade(consumer), place.to_owned());
            let ends = ends.clone();
            let thread = Builder::new().name("tidegate-ends".to_owned());
            thread.spawn(move || answer(&asked, &consumer, &ends, &place))
        };
        Some(Asker {
            asks: Some(asks),
            ends,
            thread: Some(thread.ok()?),
        })
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // One question more at most. A panic has ended nothing but the lag.
            let _ = thread.join();
        }
    }
}

fn answer(
    asked: &Receiver<TopicPartitionList>,
    consumer: &Weak<BaseConsumer<Context>>,
    ends: &Mutex<Ends>,
    place: &str,
) {
    while let Ok(list) = asked.recv()
        && let Some(consumer) = consumer.upgrade()
    {
        let now = Instant::now();
        match ask(&consumer, list) {
            Ok(found) => {
                let found = found.into_iter().map(|(number, end)| (number, (end, now)));
                lock(ends).extend(found);
            }
            Err(error) => tracing::debug!(place, %error, "where the topic ends is not known"),
        }
    }
}

/// Where those of the partitions end whose leaders say so.
fn ask(
    consumer: &BaseConsumer<Context>,
    mut list: TopicPartitionList,
) -> KafkaResult<Vec<(i32, u64)>> {
    list.set_all_offsets(Offset::End)?;
    let answer = consumer.offsets_for_times(list, ASK)?;
    let mut ends = Vec::with_capacity(answer.count());
    for element in answer.elements() {
        if element.error().is_ok()
            && let Offset::Offset(end) = element.offset()
        {
            ends.push((element.partition(), end.max(0) as u64));
        }
    }
    Ok(ends)
}

fn lock(ends: &Mutex<Ends>) -> MutexGuard<'_, Ends> {
    // The map is whole after any panic.
    ends.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KafkaSource {
    /// By what the brokers said last, with its age. A partition that is not fetched for now tells no end by itself, so that
    /// they are asked.
    pub(super) fn unread(&mut self) -> Vec<Lag> {
        let known = &mut self.known_ends;
        let is_due = known.asked.is_none_or(|asked| asked.elapsed() >= INTERVAL);
        if is_due && !self.partitions.is_empty() {
            if known.asker.is_none() {
                known.asker = Asker::start(&self.consumer, &self.place);
            }
            let mut list = TopicPartitionList::new();
            for number in self.partitions.keys() {
                list.add_partition(&self.options.topic, *number);
            }
            let asks = known.asker.as_ref().and_then(|asker| asker.asks.as_ref());
            // While an answer is awaited nothing more is asked: again with the next look.
            if asks.is_some_and(|asks| asks.try_send(list).is_ok()) {
                known.asked = Some(Instant::now());
            }
        }
        let Some(asker) = &known.asker else {
            return Vec::new();
        };
        let mut ends = lock(&asker.ends);
        ends.retain(|number, _| self.partitions.contains_key(number));
        let of = |(number, reading): (&i32, &super::reading::Reading)| {
            let (end, known) = *ends.get(number)?;
            let unread = end.saturating_sub(reading.next) + reading.gathered.len() as u64;
            Some(Lag {
                partition: *number as u32,
                unread: Unread::Records(unread),
                known,
            })
        };
        self.partitions.iter().filter_map(of).collect()
    }
}
