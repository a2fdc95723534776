//! Leaving a group, with a deadline.
//!
//! A consumer is dropped once it has left its group. In librdkafka an assignment that comes just then is asked of a group
//! that has ended, and is never answered (`rd_kafka_assign` waits without a limit). So a thread of its own drops the
//! consumer, and whoever ends a source waits for it only so long: a member that is stuck is put out of the group by the
//! brokers when its session is over, as one that was killed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use tracing::warn;

use super::rebalance::Context;

/// Longer than brokers that answer take.
const LEAVES: Duration = Duration::from_secs(15);

/// Declared behind all that holds the consumer: dropped, it lets the consumer leave.
#[derive(Default)]
pub(super) struct Leaving(Option<Waits>);

struct Waits {
    place: String,
    go: Sender<()>,
    left: Receiver<()>,
}

impl Leaving {
    /// The last who holds the consumer is a thread of its own from now on. Where there can be none, it is the caller.
    pub(super) fn of(consumer: &Arc<BaseConsumer<Context>>, place: &str) -> Leaving {
        let ((go, begins), (leaves, left)) = (channel::<()>(), channel::<()>());
        let consumer = Arc::clone(consumer);
        let thread = thread::Builder::new().name("tidegate-leave".to_owned());
        let thread = thread.spawn(move || {
            // Nothing is sent: that it is dropped is the word.
            let _ = begins.recv();
            drop(consumer);
            drop(leaves);
        });
        let place = place.to_owned();
        Leaving(thread.is_ok().then_some(Waits { place, go, left }))
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let Some(Waits { place, go, left }) = self.0.take() else {
            return;
        };
        drop(go);
        if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = left.recv_timeout(LEAVES) {
            warn!(
                place,
                "has not left its group after {LEAVES:?}: its session ends by itself"
            );
        }
    }
}
