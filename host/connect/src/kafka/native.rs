//! Calls of librdkafka that rdkafka 0.39 does not offer, or not as they must be made: the one place in this crate with
//! `unsafe`, none of which reaches a caller.
//!
//! - Messages by the batch ([`messages`]).
//! - A flush that lasts. rdkafka's own asks for one of no time at all and then polls in steps of 100 ms: librdkafka sees
//!   its wish to send at once only by chance, and waits out `linger.ms` in every cut.
//! - The id of a topic, by which one that was made anew under the same name is known.

#![allow(unsafe_code)]

mod messages;

use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

use rdkafka::bindings as librdkafka;
use rdkafka::client::Client;
use rdkafka::producer::Producer as _;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, error::IsError};

pub(super) use self::messages::{Message, Messages};
use super::deliveries::Producer;

/// Whole milliseconds, as librdkafka takes them. Of a part of one nothing would be left, and whoever waits until a moment
/// would look without a rest in the last one before it.
pub(super) fn whole(wait: Duration) -> Duration {
    Duration::from_millis(wait.as_nanos().div_ceil(1_000_000).min(60_000) as u64)
}

fn millis(wait: Duration) -> i32 {
    whole(wait).as_millis() as i32
}

/// Has everything sent at once, and waits until it is delivered or has failed; false if it takes longer. What failed is
/// told when the producer is polled.
pub(super) fn flush(producer: &Producer, wait: Duration) -> bool {
    // SAFETY: the pointer is that of a client which lives as long as this borrow, and the call is made to be used from
    // any thread. It waits for a count and calls nothing back: rdkafka takes delivery reports as events.
    let code = unsafe { librdkafka::rd_kafka_flush(producer.client().native_ptr(), millis(wait)) };
    code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
}

/// The id of a topic, 22 characters, and how many partitions it has.
pub(super) fn describe_topic<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    wait: Duration,
) -> Result<(String, usize), String> {
    let name = CString::new(topic).map_err(|error| error.to_string())?;
    let mut names = [name.as_ptr()];
    // SAFETY: the client lives as long as this borrow. Each of the four objects is made here, not null unless memory is
    // out (librdkafka ends the process then), used only between its making and its one `destroy` below, and not given
    // away: librdkafka copies names and options, and answers on a queue that nobody else knows. Where the answer comes
    // after the wait, it goes with the queue.
    unsafe {
        let asked = librdkafka::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), 1);
        let options = librdkafka::rd_kafka_AdminOptions_new(
            client.native_ptr(),
            librdkafka::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
        );
        let mut why: [c_char; 128] = [0; 128];
        librdkafka::rd_kafka_AdminOptions_set_request_timeout(
            options,
            millis(wait),
            why.as_mut_ptr(),
            why.len(),
        );
        let queue = librdkafka::rd_kafka_queue_new(client.native_ptr());
        librdkafka::rd_kafka_DescribeTopics(client.native_ptr(), asked, options, queue);
        let event = librdkafka::rd_kafka_queue_poll(queue, millis(2 * wait));
        let described = if event.is_null() {
            Err("no answer".to_owned())
        } else {
            let described = read_description(event);
            librdkafka::rd_kafka_event_destroy(event);
            described
        };
        librdkafka::rd_kafka_queue_destroy(queue);
        librdkafka::rd_kafka_AdminOptions_destroy(options);
        librdkafka::rd_kafka_TopicCollection_destroy(asked);
        described
    }
}

/// What the answer says of its one topic.
///
/// # Safety
/// `event` is an answer to a question after one topic, and lives through the call.
unsafe fn read_description(
    event: *mut librdkafka::rd_kafka_event_t,
) -> Result<(String, usize), String> {
    // SAFETY: all that is read belongs to the event and lives as long. Texts end with a zero byte. The list of
    // descriptions is read only if its length is not 0.
    unsafe {
        let code = librdkafka::rd_kafka_event_error(event);
        if code.is_error() {
            return Err(text(librdkafka::rd_kafka_event_error_string(event)));
        }
        let result = librdkafka::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return Err("the answer is none to this question".to_owned());
        }
        let mut count = 0;
        let topics = librdkafka::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        if count == 0 || topics.is_null() {
            return Err("the answer is empty".to_owned());
        }
        let topic = *topics;
        let error = librdkafka::rd_kafka_TopicDescription_error(topic);
        if !error.is_null() && librdkafka::rd_kafka_error_code(error).is_error() {
            return Err(text(librdkafka::rd_kafka_error_string(error)));
        }
        let id = librdkafka::rd_kafka_TopicDescription_topic_id(topic);
        let id = librdkafka::rd_kafka_Uuid_base64str(id);
        let mut partitions = 0;
        librdkafka::rd_kafka_TopicDescription_partitions(topic, &mut partitions);
        Ok((text(id), partitions))
    }
}

/// A copy of a text of librdkafka's.
///
/// # Safety
/// `text` is null, or ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: it is not null, and its caller says that it ends.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
