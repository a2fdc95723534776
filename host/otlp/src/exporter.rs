//! The thread that sends what waits.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tidegate_telemetry::metrics::{Exposition, PointCounts};
use tidegate_telemetry::trace::SpanQueue;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::away::Away;
use crate::client::Post;
use crate::end::End;
use crate::measurements::Measurements;
use crate::options::{Collector, OtlpError, Resource};
use crate::traces::Traces;

/// How much longer than its time the thread is waited for, at an end: it may be making a message.
const GRACE: Duration = Duration::from_secs(1);

/// Sends, on a thread of its own, until it is finished with.
#[derive(Debug)]
pub struct Exporter {
    end: watch::Sender<Option<Instant>>,
    /// Breaks off when the thread has ended; none once that was waited for.
    ended: Option<Receiver<()>>,
}

/// What is sent, and where.
pub struct Exports {
    /// Spans.
    pub traces: Option<(Collector, SpanQueue)>,
    /// What is measured.
    pub metrics: Option<Metrics>,
}

/// What is measured, and where it is told.
pub struct Metrics {
    /// Where.
    pub collector: Collector,
    /// How often.
    pub interval: Duration,
    /// What.
    pub gather: Gather,
    /// Counts what became of it.
    pub counts: Arc<PointCounts>,
}

/// Says what is measured now; none while there is nothing. Never waits for anything that takes long.
pub type Gather = Box<dyn Fn() -> Option<Exposition> + Send>;

impl Exporter {
    /// Begins to send.
    pub fn start(resource: Resource, exports: Exports) -> Result<Exporter, OtlpError> {
        let (end, ends) = End::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()?;
        let traces = match exports.traces {
            Some((collector, queue)) => {
                let away = Away::new("traces", &collector);
                let post = Post::new(collector)?;
                Some(Traces::new(post, away, resource.clone(), queue))
            }
            None => None,
        };
        let metrics = match exports.metrics {
            Some(Metrics {
                collector,
                interval,
                gather,
                counts,
            }) => {
                let away = Away::new("metrics", &collector);
                let post = Post::new(collector)?;
                Some(Measurements::new(
                    post, away, resource, interval, gather, counts,
                ))
            }
            None => None,
        };
        let (lives, ended) = sync_channel(0);
        std::thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || {
                runtime.block_on(run(traces, metrics, ends));
                // A name that is still looked up keeps nobody waiting.
                runtime.shutdown_background();
                drop(lives);
            })?;
        Ok(Exporter {
            end,
            ended: Some(ended),
        })
    }

    /// Sends what waits, for so long at most. What is left then counts as failed.
    pub fn finish(mut self, within: Duration) {
        self.end_within(within);
    }

    fn end_within(&mut self, within: Duration) {
        let Some(ended) = self.ended.take() else {
            return;
        };
        self.end.send_replace(Some(Instant::now() + within));
        // The thread is left where it stands still: nothing of the run waits for it.
        if ended.recv_timeout(within + GRACE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the exporter stands still at the end of the run and is left alone");
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end_within(Duration::ZERO);
    }
}

/// Both at once, until they have told all or the end has come.
async fn run(traces: Option<Traces>, metrics: Option<Measurements>, mut end: End) {
    let (of_traces, of_metrics) = (end.clone(), end.clone());
    let traces = async {
        if let Some(traces) = traces {
            traces.run(of_traces).await;
        }
    };
    let metrics = async {
        if let Some(metrics) = metrics {
            metrics.run(of_metrics).await;
        }
    };
    tokio::select! {
        biased;
        _ = async { tokio::join!(traces, metrics) } => {}
        () = end.over() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    use tidegate_telemetry::metrics::table;

    use super::*;
    use crate::options::Endpoint;

    const LONG: Duration = Duration::from_secs(3600);

    fn collector(listener: &TcpListener, timeout: Duration) -> Collector {
        let url = format!("http://{}", listener.local_addr().unwrap());
        Collector::new(Endpoint::Exact(&url), "", timeout).unwrap()
    }

    fn measured() -> Option<Exposition> {
        let mut exposition = Exposition::default();
        for family in [
            &table::RECORDS_IN,
            &table::RECORDS_OUT,
            &table::RECORDS_DEAD,
        ] {
            exposition.add(family, &[], 7_u64);
        }
        Some(exposition)
    }

    fn often(collector: Collector, gather: Gather, counts: &Arc<PointCounts>) -> Exports {
        let metrics = Metrics {
            collector,
            interval: Duration::from_millis(1),
            gather,
            counts: counts.clone(),
        };
        Exports {
            traces: None,
            metrics: Some(metrics),
        }
    }

    /// Reads a request and gives its connection back, unanswered.
    fn asked(listener: &TcpListener) -> TcpStream {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
        }
        stream.read_exact(&mut vec![0; length]).unwrap();
        stream.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_ends_while_a_message_is_sent_waits_for_no_interval() {
        let stalls = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = collector(&stalls, Duration::from_secs(10));
        let away = Away::new("metrics", &collector);
        let post = Post::new(collector).unwrap();
        let gather = Box::new(measured);
        let counts = Arc::default();
        let metrics = Measurements::new(post, away, Resource::default(), LONG, gather, counts);
        let (known, end) = End::new();
        let run = tokio::spawn(run(None, Some(metrics), end));
        // The first one is being sent.
        tokio::time::sleep(LONG + Duration::from_secs(5)).await;
        let by = Instant::now() + Duration::from_secs(5);
        known.send_replace(Some(by));
        let late = by + Duration::from_secs(1);
        tokio::time::timeout_at(late, run).await.unwrap().unwrap();
    }

    #[test]
    fn the_last_figures_are_told_also_when_those_before_are_not_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = collector(&listener, LONG);
        let (stalls, stalled) = mpsc::channel();
        let answers = std::thread::spawn(move || {
            stalls.send(asked(&listener)).unwrap();
            let mut last = asked(&listener);
            // It takes the message, but for two points.
            last.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\x0a\x02\x08\x02")
        });
        let counts = Arc::<PointCounts>::default();
        let exports = often(collector, Box::new(measured), &counts);
        let exporter = Exporter::start(Resource::default(), exports).unwrap();
        let _unanswered = stalled.recv().unwrap();
        exporter.finish(Duration::from_secs(60));
        answers.join().unwrap().unwrap();
        // Two messages of three points, of which one was taken.
        assert_eq!((counts.exported.get(), counts.failed.get()), (1, 5));
    }

    #[test]
    fn whoever_measures_and_stands_still_keeps_no_run_from_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = collector(&listener, LONG);
        let (asks, asked) = mpsc::channel();
        let (answers, answered) = mpsc::channel();
        let gather = Box::new(move || {
            asks.send(()).unwrap();
            answered.recv().unwrap()
        });
        let exports = often(collector, gather, &Arc::default());
        let exporter = Exporter::start(Resource::default(), exports).unwrap();
        asked.recv().unwrap();
        exporter.finish(Duration::ZERO);
        answers.send(None).unwrap();
    }
}
