//! The playground: a model that is asked, and a record that is run through the pipeline, beside the stream. Nothing of it
//! is written but the audit, if there is one.

mod asking;
mod lent;
mod ports;
mod shown;
mod taps;
mod trial;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_contract::AuditDoor;
use tidegate_control::config::Pipeline;
use tidegate_flow::Controls;

use self::lent::Tokens;
use crate::metrics::PlaygroundNow;
use crate::wire::Models;

/// What things are tried with.
pub(crate) struct Playground {
    pipeline: Arc<Pipeline>,
    /// The models of the pipeline, in its order.
    served: Models,
    controls: Controls,
    /// Where it is written who was shown what, if it is.
    audit: Option<Arc<dyn AuditDoor>>,
    questions: Ends,
    records: Ends,
    tokens: Arc<Tokens>,
    next: AtomicU64,
}

/// How many of a kind have ended, and how.
#[derive(Default)]
struct Ends {
    answered: AtomicU64,
    failed: AtomicU64,
    left: AtomicU64,
}

impl Ends {
    fn now(&self) -> [(&'static str, u64); 3] {
        [
            ("answered", self.answered.load(Ordering::Relaxed)),
            ("failed", self.failed.load(Ordering::Relaxed)),
            ("left", self.left.load(Ordering::Relaxed)),
        ]
    }
}

impl Playground {
    /// Beside the run that has these controls.
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        served: Models,
        controls: Controls,
        audit: Option<Arc<dyn AuditDoor>>,
    ) -> Playground {
        Playground {
            pipeline,
            served,
            controls,
            audit,
            questions: Ends::default(),
            records: Ends::default(),
            tokens: Arc::default(),
            next: AtomicU64::new(0),
        }
    }

    /// What something that is tried is called in the audit: no source can be called so, and nothing else is.
    fn name(&self, kind: &str, number: u64) -> String {
        format!("playground/{kind}/{}/{number}", now_micros())
    }

    /// What it has done, for metrics.
    pub(crate) fn now(&self) -> PlaygroundNow {
        PlaygroundNow {
            ended: [
                ("model", self.questions.now()),
                ("record", self.records.now()),
            ],
            tokens: [
                ("prompt", self.tokens.prompt.load(Ordering::Relaxed)),
                ("generated", self.tokens.generated.load(Ordering::Relaxed)),
            ],
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Microseconds since 1970.
fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}
