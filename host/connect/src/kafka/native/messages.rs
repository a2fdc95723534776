//! Messages of assigned partitions, by the batch.
//!
//! rdkafka 0.39 gives one message a call, and each call reads the clock some six times and counts an event: a third of
//! what reading costs. librdkafka's own call for many messages works on a queue, and must not be made on the group's:
//! there it would carry out assignments by itself, behind our back. So the messages of each partition are led to a queue
//! of their own, and the group's has nothing but assignments and errors, which are polled as before, by the same thread
//! and between two batches.
//!
//! That keeps what a change of assignment promises. A message has the version of its partition's assignment (or seek, or
//! pause), librdkafka leaves out those of an older one when they are taken, and what was taken is used up before the
//! group is asked again. A partition that is given up loses its way to this queue, and must be led here again with each
//! assignment, before it: the group begins no other one while one is being given up.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as librdkafka;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{IsError as _, KafkaError};
use rdkafka::types::RDKafkaRespErr;

use super::super::rebalance::Context;
use super::{millis, text};

/// Most messages that are taken at once.
const MOST: usize = 512;

/// Name and value of each header of a message.
type HeaderList<'a> = Vec<(&'a str, Option<&'a [u8]>)>;

/// The queue that messages are led to.
pub(in super::super) struct Messages {
    /// Destroyed before the consumer is let go.
    queue: *mut librdkafka::rd_kafka_queue_t,
    /// Empty between calls.
    taken: Vec<Message>,
    consumer: Arc<BaseConsumer<Context>>,
}

// SAFETY: librdkafka's queues are locked by themselves and made to be used from any thread; nothing else here is a pointer
// while no call is under way.
unsafe impl Send for Messages {}

impl Messages {
    pub(in super::super) fn new(consumer: Arc<BaseConsumer<Context>>) -> Messages {
        // SAFETY: the client lives as long as the consumer, which is held here until the queue is destroyed.
        let queue = unsafe { librdkafka::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Messages {
            queue,
            taken: Vec::new(),
            consumer,
        }
    }

    /// Leads the messages of a partition here: before each time that it is assigned.
    pub(in super::super) fn lead_here(&self, topic: &str, partition: i32) -> Result<(), String> {
        let name = CString::new(topic).map_err(|error| error.to_string())?;
        // SAFETY: client and queue live, see `new`. The partition's queue is made by the first call, checked, and let go
        // by the last one; librdkafka keeps it, and ours while messages are led to it.
        unsafe {
            let client = self.consumer.client().native_ptr();
            let from = librdkafka::rd_kafka_queue_get_partition(client, name.as_ptr(), partition);
            if from.is_null() {
                return Err(format!("partition {partition} has no queue"));
            }
            librdkafka::rd_kafka_queue_forward(from, self.queue);
            librdkafka::rd_kafka_queue_destroy(from);
        }
        Ok(())
    }

    /// Gives what is at hand to `each`, in order, at most so many messages; waits for the first if there is none. Errors
    /// of a partition come among its messages, with librdkafka's words.
    pub(in super::super) fn take(
        &mut self,
        most: usize,
        wait: Duration,
        mut each: impl FnMut(Result<&Message, (KafkaError, String)>),
    ) {
        let mut most = most.clamp(1, MOST);
        // The call waits until it has all that it was asked for.
        if !wait.is_zero() && self.fill(1, wait) > 0 {
            most -= 1;
        }
        if wait.is_zero() || !self.taken.is_empty() {
            self.fill(most, Duration::ZERO);
        }
        for message in self.taken.drain(..) {
            each(message.checked());
        }
    }

    /// Takes at most so many messages; how many.
    fn fill(&mut self, most: usize, wait: Duration) -> usize {
        if most == 0 {
            return 0;
        }
        self.taken.reserve(most);
        let place = self.taken.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: the queue lives. There is room for `most` pointers, `Message` is nothing but one, and librdkafka writes
        // as many, from the first, as it says: each is a message that is ours to destroy, once.
        unsafe {
            let wait = millis(wait);
            let count =
                librdkafka::rd_kafka_consume_batch_queue(self.queue, wait, place, most).max(0);
            let count = (count as usize).min(most);
            self.taken.set_len(self.taken.len() + count);
            count
        }
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.taken.clear();
        // SAFETY: made by `new`, used by nobody later; the consumer still lives. Partitions that lead here keep what is
        // behind it until they are given up.
        unsafe { librdkafka::rd_kafka_queue_destroy(self.queue) };
    }
}

/// A message, or an error of its partition.
#[repr(transparent)]
pub(in super::super) struct Message(*mut librdkafka::rd_kafka_message_t);

impl Message {
    fn raw(&self) -> &librdkafka::rd_kafka_message_t {
        // SAFETY: a message that librdkafka gave, not null, that is destroyed with this.
        unsafe { &*self.0 }
    }

    fn checked(&self) -> Result<&Message, (KafkaError, String)> {
        let raw = self.raw();
        let error = match raw.err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__PARTITION_EOF => {
                KafkaError::PartitionEOF(raw.partition)
            }
            error if error.is_error() => KafkaError::MessageConsumption(error.into()),
            _ => return Ok(self),
        };
        // SAFETY: the text is the message's own, or one that lives for ever.
        let why = unsafe { text(librdkafka::rd_kafka_message_errstr(self.0)) };
        Err((error, why))
    }

    pub(in super::super) fn partition(&self) -> i32 {
        self.raw().partition
    }

    pub(in super::super) fn offset(&self) -> i64 {
        self.raw().offset
    }

    pub(in super::super) fn key(&self) -> Option<&[u8]> {
        let raw = self.raw();
        // SAFETY: librdkafka's own pointer and length, into what lives as long as the message.
        unsafe { bytes(raw.key, raw.key_len) }
    }

    pub(in super::super) fn value(&self) -> Option<&[u8]> {
        let raw = self.raw();
        // SAFETY: as for the key.
        unsafe { bytes(raw.payload, raw.len) }
    }

    /// Milliseconds since 1970, if it has a time.
    pub(in super::super) fn millis(&self) -> Option<i64> {
        let mut kind = librdkafka::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: it only reads the message, and writes to `kind`.
        let millis = unsafe { librdkafka::rd_kafka_message_timestamp(self.0, &mut kind) };
        let none = librdkafka::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        (millis != -1 && kind != none).then_some(millis)
    }

    /// An error where the name of a header is not UTF-8.
    pub(in super::super) fn headers(&self) -> Result<HeaderList<'_>, ()> {
        let mut list = ptr::null_mut();
        let mut headers = Vec::new();
        // SAFETY: the first call reads the headers from the message's bytes once and keeps them with it: list, names and
        // values live as long as the message. Names end with a zero byte; no pointer is used unless its call succeeded.
        unsafe {
            if librdkafka::rd_kafka_message_headers(self.0, &mut list).is_error() {
                return Ok(headers);
            }
            for index in 0..librdkafka::rd_kafka_header_cnt(list) {
                let (mut name, mut value, mut length): (*const c_char, *const c_void, usize) =
                    (ptr::null(), ptr::null(), 0);
                let got = librdkafka::rd_kafka_header_get_all(
                    list,
                    index,
                    &mut name,
                    &mut value,
                    &mut length,
                );
                if got.is_error() || name.is_null() {
                    break;
                }
                let name = CStr::from_ptr(name).to_str().map_err(|_| ())?;
                headers.push((name, bytes(value, length)));
            }
        }
        Ok(headers)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: ours, and destroyed nowhere else.
        unsafe { librdkafka::rd_kafka_message_destroy(self.0) };
    }
}

/// Bytes of librdkafka's; none if there are none.
///
/// # Safety
/// Where it is not null, `length` bytes live there for as long as `'a`.
unsafe fn bytes<'a>(from: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: as its caller says.
    (!from.is_null()).then(|| unsafe { std::slice::from_raw_parts(from.cast(), length) })
}
