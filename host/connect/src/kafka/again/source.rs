//! The source that reads what is sent again: a member of its group, once there is a topic.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rdkafka::admin::AdminClient;
use tidegate_contract::{LetterSeal, Partition, Source, SourceError, SourceEvent};
use tracing::warn;

use super::super::member::Member;
use super::super::options::KafkaSourceOptions;
use super::super::source::{ASK, KafkaSource};
use super::super::topic::{self, Asker};
use super::super::{LOG_INTERVAL, Properties};
use super::{Bell, KafkaAgain};

/// How often it is asked whether another process has made the topic.
const INTERVAL: Duration = Duration::from_secs(15);

/// Reads the topic of letters that are sent again, decoded as the records that they were. Most pipelines never have one: it
/// is asked for now and then, and the group is joined when it is there.
pub struct KafkaLetterSource {
    topic: String,
    member: Arc<Member>,
    arriving: Arc<Arriving>,
    source: Option<KafkaSource>,
    spoken: bool,
}

/// What a thread has opened, until it is taken.
struct Arriving {
    opened: Mutex<Option<KafkaSource>>,
    bell: Arc<Bell>,
}

impl fmt::Debug for KafkaLetterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaLetterSource")
            .field("topic", &self.topic)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl KafkaAgain {
    /// Reads what is sent again, as this source, group and member, with these settings of librdkafka, and opens private
    /// attributes. One that ends at the
    /// end of the topic has nothing to read where there is none when it is opened.
    pub fn source(
        &self,
        mut options: KafkaSourceOptions,
        properties: Properties,
        seal: LetterSeal,
    ) -> Result<KafkaLetterSource, SourceError> {
        options.brokers.clone_from(&self.options.brokers);
        options.topic.clone_from(&self.options.topic);
        options.properties = properties;
        options.letters = Some(seal);
        let fail = |why: String| SourceError::Read {
            place: self.place.clone(),
            why,
        };
        let asker = topic::asker(&self.plain().map_err(fail)?).map_err(fail)?;
        let member = Member::nobody();
        let mut source = KafkaLetterSource {
            topic: options.topic.clone(),
            member: Arc::clone(&member),
            arriving: Arc::new(Arriving {
                opened: Mutex::default(),
                bell: Arc::clone(&self.bell),
            }),
            source: None,
            spoken: false,
        };
        if options.until_end {
            if is_there(&asker, &options.topic).map_err(fail)? {
                source.source = Some(KafkaSource::open_as(options, member)?);
            }
            return Ok(source);
        }
        let arriving = Arc::clone(&source.arriving);
        std::thread::Builder::new()
            .name("tidegate-again".into())
            .spawn(move || arriving.wait_for(&asker, &options, &member))
            .map_err(|error| fail(format!("cannot start a thread: {error}")))?;
        Ok(source)
    }
}

fn is_there(asker: &AdminClient<Asker>, topic: &str) -> Result<bool, String> {
    let metadata = asker.inner().fetch_metadata(Some(topic), ASK);
    let metadata = metadata.map_err(|error| error.to_string())?;
    let mut topics = metadata.topics().iter();
    Ok(topics.any(|found| found.name() == topic && !found.partitions().is_empty()))
}

impl Arriving {
    /// Opens the source when its topic is there. A group that cannot be joined stops no pipeline: its letters wait.
    fn wait_for(
        &self,
        asker: &AdminClient<Asker>,
        options: &KafkaSourceOptions,
        member: &Arc<Member>,
    ) {
        loop {
            // Brokers that are away are the trouble of others.
            if is_there(asker, &options.topic).unwrap_or(false) {
                match KafkaSource::open_as(options.clone(), Arc::clone(member)) {
                    Ok(source) => {
                        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
                        *opened = Some(source);
                        return;
                    }
                    Err(error) => warn!("letters that were sent again wait: {error}"),
                }
                sleep(LOG_INTERVAL);
            }
            if !self.bell.wait(INTERVAL) {
                return;
            }
        }
    }
}

impl KafkaLetterSource {
    /// The topic, for the committer that follows it.
    pub(in super::super) fn followed(&self) -> (&str, &Arc<Member>) {
        (&self.topic, &self.member)
    }

    fn opened(&mut self) -> Option<&mut KafkaSource> {
        if self.source.is_none() {
            let opened = self.arriving.opened.lock();
            self.source = opened.unwrap_or_else(PoisonError::into_inner).take();
        }
        self.source.as_mut()
    }

    /// Nobody asks for a partition before one was assigned.
    fn own(&mut self) -> Result<&mut KafkaSource, SourceError> {
        let place = &self.topic;
        self.source.as_mut().ok_or_else(|| SourceError::Read {
            place: format!("topic {place}"),
            why: "nothing of it is assigned".into(),
        })
    }
}

impl Source for KafkaLetterSource {
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        if let Some(source) = self.opened() {
            return source.poll(records, bytes, wait);
        }
        if !self.spoken {
            self.spoken = true;
            return Ok(SourceEvent::Assigned(Vec::new()));
        }
        sleep(wait);
        Ok(SourceEvent::Idle)
    }

    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        self.own()?.seek(partition, position)
    }

    fn pause(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.own()?.pause(partition)
    }

    fn resume(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.own()?.resume(partition)
    }

    fn close(&mut self) -> Result<(), SourceError> {
        self.arriving.bell.end();
        match self.opened() {
            Some(source) => source.close(),
            None => Ok(()),
        }
    }
}

impl Drop for KafkaLetterSource {
    fn drop(&mut self) {
        self.arriving.bell.end();
    }
}
