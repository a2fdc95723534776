use std::sync::Mutex;
use std::time::Duration;

use tidegate_contract::{
    Answer, AuditLog, Audited, CallerId, Callers, CommitPoint, LETTER_HEADERS, Listener,
    ModelError, SinkPosition, Terms,
};
use tidegate_record::{Batch, BatchBuilder, NewRecord, Patch, PatchBuilder, PublicRecord};
use tidegate_telemetry::trace::{Sampler, Span, SpanQueue, Tracer};

use super::*;
use crate::entry::EntryId;
use crate::kept;
use crate::makers::Outdated;
use crate::topology::{Called, Positions, Source};
use crate::versions::Versions;

/// Takes everything.
struct Open;

impl Sink for Open {
    fn write(&mut self, _: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn write_dead(&mut self, _: &DeadLetter<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn pending(&self) -> usize {
        0
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn discard(&mut self) {}
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

struct Nobody;

impl Callers for Nobody {
    fn terms(&self, _: CallerId) -> Option<Terms> {
        None
    }
    fn listen(&self, _: CallerId, _: u32) -> Option<Box<dyn Listener>> {
        None
    }
    fn brings(&self, _: CallerId, _: Option<Arc<Answer>>) {}
    fn begun(&self, _: CallerId, _: &str) {}
    fn tell(&self, _: CallerId, _: &Became<'_>) {}
    fn take_gone(&self) -> Vec<CallerId> {
        Vec::new()
    }
    fn left(&self, _: u16, _: &[(CallerId, usize)]) -> Vec<CallerId> {
        Vec::new()
    }
}

/// Of a source of callers, the first, a topic, and what can be read once.
fn topology() -> (Arc<Topology>, Meters) {
    let source = |called: bool, positions: Positions| Source {
        name: "in".into(),
        targets: Vec::new(),
        fixed: false,
        positions,
        called,
        beside: false,
        identities: vec!["it".into()],
        apart: String::new(),
    };
    let topology = Topology {
        sources: vec![
            source(true, Positions::Nobody),
            source(false, Positions::Cuts),
            source(false, Positions::Nobody),
        ],
        stages: Vec::new(),
        sinks: vec!["out".into()],
        commit_point: CommitPoint::Log,
        batch: 8,
        batch_bytes: 1 << 20,
        cut_interval: Duration::ZERO,
        callers: Some(Called {
            callers: Arc::new(Nobody),
            sinks: [(0, Vec::new())].into(),
            outdated: Outdated::default(),
        }),
        drain: Duration::ZERO,
    };
    (Arc::new(topology), Meters::new("output", []))
}

fn output() -> Output {
    let (topology, meters) = topology();
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Open)];
    Output::new(topology, sinks, Box::new(Open), Arc::new(meters))
}

#[test]
fn what_a_sink_refuses_is_remembered_of_records_that_come_again_and_not_of_those_of_callers() {
    let mut output = output();
    let id = |source| RecordId {
        source,
        offset: 7,
        ..RecordId::default()
    };
    let refused = |source| RefusedRecord {
        id: id(source),
        key: None,
        value: None,
        reason: "too large".into(),
    };
    let both = [0, 1].map(|source| ("out".to_owned(), refused(source)));
    output.discard(both.into());
    assert_eq!(output.refused.meet(0, id(0)), None);
    assert!(output.refused.meet(0, id(1)).is_some());
}

/// Every reason of a model, and whether a record that somebody waits for is a dead letter for it.
fn reasons() -> [(ModelError, bool); 12] {
    let remote = |again, after| ModelError::Remote {
        server: "there".into(),
        why: "400 Bad Request: no such voice".into(),
        told: "it failed".into(),
        again,
        after,
    };
    [
        (
            ModelError::PromptTooLong {
                tokens: 9,
                limit: 8,
            },
            false,
        ),
        (ModelError::EmptyPrompt, false),
        (ModelError::Prompt("two systems".into()), false),
        (
            ModelError::Parameter {
                name: "top_p",
                value: "2".into(),
                limit: "at most 1".into(),
            },
            false,
        ),
        (
            ModelError::WrongTask {
                model: "small".into(),
                task: "embed",
            },
            false,
        ),
        (ModelError::Unknown("small".into()), false),
        (
            ModelError::Hopeless {
                left: Duration::from_millis(50),
                needed: Duration::from_secs(1),
            },
            false,
        ),
        (ModelError::Expired { made: 0 }, false),
        (ModelError::Full { limit: 3 }, false),
        (remote(false, None), false),
        (remote(true, Some(Duration::from_secs(1))), false),
        (ModelError::Device("lost".into()), true),
    ]
}

#[test]
fn whoever_asks_writes_no_dead_letters() {
    let mut output = output();
    let mut bury = |source: u16, error: Option<&ModelError>| {
        let mut batch = BatchBuilder::default();
        let record = NewRecord {
            id: RecordId {
                source,
                ..RecordId::default()
            },
            value: Some(b"a prompt"),
            ..NewRecord::default()
        };
        batch.push(&record).unwrap();
        let batch = batch.finish(0);
        let death = Death {
            at: At::Sink(0),
            reason: "why",
            component: None,
            backtrace: None,
            attempts: 1,
            error,
        };
        output.bury(&batch.view().get(0).unwrap(), &death).unwrap();
        let counts = std::mem::take(&mut output.counts);
        assert_eq!(counts.dead + counts.dropped, 1);
        counts.dead == 1
    };
    for (error, is_letter) in reasons() {
        assert_eq!(bury(0, Some(&error)), is_letter, "{error}");
        // Nobody is told of a record of a topic but by its letter.
        assert!(bury(1, Some(&error)), "{error}");
    }
    // An operator has failed, or a sink cannot take the answer.
    assert!(bury(0, None) && bury(1, None));
}

/// Dead letters: how many bytes the headers of each have, by their values.
#[derive(Clone, Default)]
struct Letters(Arc<Mutex<Vec<Option<Vec<usize>>>>>);

impl Sink for Letters {
    fn write(&mut self, _: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        let headers = letter.headers.map(|headers| {
            let bytes = headers.iter().map(|(_, value)| value.unwrap().len());
            bytes.collect()
        });
        self.0.lock().unwrap().push(headers);
        Ok(())
    }
    fn pending(&self) -> usize {
        0
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn discard(&mut self) {}
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn what_a_letter_keeps_to_be_sent_again_is_the_same_of_a_traced_record() {
    // Name and lengths of a header are counted.
    let most = LETTER_HEADERS - "own".len() - 6;
    for sampled in [0.0, 1.0] {
        let (topology, meters) = topology();
        let (tracer, _queue) = Tracer::new(Sampler::new(sampled), 100);
        let letters = Letters::default();
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Open)];
        let meters = Arc::new(meters.with_tracer(tracer));
        let mut output = Output::new(topology, sinks, Box::new(letters.clone()), meters);
        for bytes in [most, most + 1] {
            let mut batch = BatchBuilder::default();
            let record = NewRecord {
                id: RecordId {
                    source: 1,
                    ..RecordId::default()
                },
                headers: &[("own", Some(&vec![b'x'; bytes]))],
                ..NewRecord::default()
            };
            batch.push(&record).unwrap();
            let partition = Partition {
                source: 1,
                number: 0,
            };
            let batch = output.traces.enter(partition, "it", batch.finish(0));
            let death = Death {
                at: At::Sink(0),
                reason: "why",
                component: None,
                backtrace: None,
                attempts: 1,
                error: None,
            };
            output.bury(&batch.view().get(0).unwrap(), &death).unwrap();
        }
        let kept = match sampled {
            0.0 => vec![most],
            _ => vec![most, 55],
        };
        assert_eq!(*letters.0.lock().unwrap(), [Some(kept), None]);
    }
}

/// Which input each letter says its record was read from.
#[derive(Clone, Default)]
struct InputsOfLetters(Arc<Mutex<Vec<Option<String>>>>);

impl Sink for InputsOfLetters {
    fn write(&mut self, _: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        let input = letter.input.map(str::to_owned);
        self.0.lock().unwrap().push(input);
        Ok(())
    }
    fn pending(&self) -> usize {
        0
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn discard(&mut self) {}
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A run that reads once from source 2, with its letters.
fn reads_once(tracer: Tracer) -> (Output, InputsOfLetters) {
    let (topology, meters) = topology();
    let letters = InputsOfLetters::default();
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Open)];
    let meters = Arc::new(meters.with_tracer(tracer));
    let dead = Box::new(letters.clone());
    let mut output = Output::new(topology.clone(), sinks, dead, meters);
    let partition = Partition {
        source: 2,
        number: 0,
    };
    (output.inputs).reads(partition, &topology.sources[2], "standard input");
    (output, letters)
}

/// Two records that came in there.
fn read_once(output: &Output) -> Batch {
    let mut batch = BatchBuilder::default();
    for offset in 0..2 {
        let record = NewRecord {
            id: RecordId {
                source: 2,
                offset,
                ..RecordId::default()
            },
            ..NewRecord::default()
        };
        batch.push(&record).unwrap();
    }
    let partition = Partition {
        source: 2,
        number: 0,
    };
    (output.traces).enter(partition, "standard input", batch.finish(0))
}

fn bury_all(output: &mut Output, batch: &Batch) {
    let death = Death {
        at: At::Sink(0),
        reason: "why",
        component: None,
        backtrace: None,
        attempts: 1,
        error: None,
    };
    for record in batch.view().records() {
        output.bury(&record, &death).unwrap();
    }
}

/// What a cut has of records that wait, as the next run has it: of a source with another place in the pipeline.
fn over_a_restart(batch: &Batch) -> Batch {
    let id = EntryId::of(batch.view().get(0).unwrap().id());
    let waits = (batch, &Versions::default());
    let put = kept::put_batch("ask", 1, id, waits, &kept::Callers::new());
    let mut restored = kept::restore([(put.key, put.payload)]).unwrap();
    let mut waits = restored.remove(0).waits;
    waits.come_from(1).unwrap();
    waits.come_from(2).unwrap();
    match waits {
        kept::Waits::Untaken { batch, .. } => batch,
        kept::Waits::Entry { .. } => panic!("these are untaken"),
    }
}

/// What an operator makes of the first record in two pieces.
fn split_in_two(batch: &Batch) -> Batch {
    let mut bytes = Vec::new();
    PatchBuilder::default().write(&mut bytes);
    let patch = Patch::parse(&bytes).unwrap();
    let mut pieces = BatchBuilder::default();
    let record = batch.view().get(0).unwrap();
    for emit in 1..3 {
        pieces.push_patched(&record, &patch, emit).unwrap();
    }
    pieces.finish(0)
}

#[test]
fn what_was_read_once_keeps_the_input_of_the_run_that_read_it_over_a_restart() {
    let tracers: [fn() -> Tracer; 3] = [
        Tracer::default,
        || Tracer::new(Sampler::new(0.0), 100).0,
        || Tracer::new(Sampler::new(1.0), 100).0,
    ];
    for tracer in tracers {
        let (mut first, of_first) = reads_once(tracer());
        let waits = read_once(&first);
        bury_all(&mut first, &waits);
        let before = of_first.0.lock().unwrap().clone();
        let input = before[0].clone().unwrap();
        assert!(input.starts_with("standard input (id "), "{input}");
        assert_eq!(before, [Some(input.clone()), Some(input.clone())]);
        // The next run reads records of the same places, and buries both.
        let (mut second, of_second) = reads_once(tracer());
        let own = read_once(&second);
        bury_all(&mut second, &own);
        bury_all(&mut second, &split_in_two(&over_a_restart(&waits)));
        let after = of_second.0.lock().unwrap().clone();
        let [own, again, pieces @ ..] = after.as_slice() else {
            panic!("{after:?}");
        };
        assert_eq!(own, again);
        assert_ne!(own.as_ref(), Some(&input), "two records have one death");
        assert_eq!(pieces, [Some(input.clone()), Some(input)]);
    }
}

#[test]
fn the_run_that_has_read_a_record_is_noted_where_no_other_can_and_is_no_trace() {
    let (output, _) = reads_once(Tracer::new(Sampler::new(0.0), 100).0);
    let once = read_once(&output);
    assert_eq!(output.traces.of_batch(&once), []);
    for record in once.view().records() {
        assert!(record.note().is_some());
        assert!(output.traces.sends(0, false, &record).is_none());
        assert_eq!(Traces::named(&record), None);
    }
    let mut builder = BatchBuilder::default();
    builder.push(&NewRecord::default()).unwrap();
    let topic = Partition {
        source: 1,
        number: 0,
    };
    let of_topic = output.traces.enter(topic, "it", builder.finish(0));
    assert!(!of_topic.view().has_notes(), "a topic pays for it");
    // An audit without traces adds what a record came with.
    let (output, _) = reads_once(Tracer::default());
    let noted = output.traces.note_came(read_once(&output));
    let record = noted.view().get(0).unwrap();
    assert!(output.inputs.of(&record).is_some());
}

/// What a sink was given of a record: its own headers, and those of the host.
type Given = Vec<(String, Vec<u8>)>;

/// A topic, which refuses the second record when it is flushed.
struct Late(Arc<Mutex<Vec<Given>>>);

impl Sink for Late {
    fn settles_late(&self) -> bool {
        true
    }
    fn write(&mut self, record: PublicRecord<'_>, host: HostHeaders<'_>) -> Result<(), SinkError> {
        let given = host.over(record.headers());
        let given = given.map(|(name, value)| (name.to_owned(), value.unwrap().to_vec()));
        self.0.lock().unwrap().push(given.collect());
        Ok(())
    }
    fn write_dead(&mut self, _: &DeadLetter<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn pending(&self) -> usize {
        1
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn discard(&mut self) {}
    fn take_refused(&mut self) -> Vec<RefusedRecord> {
        vec![RefusedRecord {
            id: RecordId {
                source: 1,
                offset: 1,
                ..RecordId::default()
            },
            key: None,
            value: None,
            reason: "invalid".into(),
        }]
    }
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Three records of the topic with headers that somebody wrote, and what they were given to.
fn to_late(tracer: Tracer) -> (Output, Arc<Mutex<Vec<Given>>>) {
    let (topology, meters) = topology();
    let given = Arc::new(Mutex::new(Vec::new()));
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Late(given.clone()))];
    let meters = Arc::new(meters.with_tracer(tracer));
    let mut output = Output::new(topology, sinks, Box::new(Open), meters);
    let mut batch = BatchBuilder::default();
    for offset in 0..3 {
        let id = RecordId {
            source: 1,
            offset,
            ..RecordId::default()
        };
        let record = NewRecord {
            id,
            headers: &[("traceparent", Some(b"forged")), ("own", Some(b"1"))],
            ..NewRecord::default()
        };
        batch.push(&record).unwrap();
    }
    let partition = Partition {
        source: 1,
        number: 0,
    };
    let batch = output.traces.enter(partition, "it", batch.finish(0));
    output.write(0, batch.view()).unwrap();
    (output, given)
}

fn told(queue: &SpanQueue) -> Vec<(String, Option<String>)> {
    let mut spans: Vec<Span> = Vec::new();
    queue.take(&mut spans, usize::MAX);
    let told = spans.iter().map(|span| {
        let error = span.error().map(str::to_owned);
        (span.name().to_owned(), error)
    });
    told.collect()
}

#[test]
fn a_sink_is_given_the_trace_beside_the_record_and_nothing_for_one_that_is_not_traced() {
    let named = |given: &Given| -> Vec<String> {
        let names = given.iter().map(|(name, _)| name.clone());
        names.collect()
    };
    let (all, _queue) = Tracer::new(Sampler::new(1.0), 100);
    let (none, _queue) = Tracer::new(Sampler::new(0.0), 100);
    let cases: [(Tracer, &[&str]); 3] = [
        (all, &["own", "traceparent"]),
        (none, &["own"]),
        // Nothing is the host's.
        (Tracer::default(), &["traceparent", "own"]),
    ];
    for (tracer, expected) in cases {
        let is_on = tracer.is_on();
        let (output, given) = to_late(tracer);
        assert_eq!((output.counts.dead, output.counts.output), (0, 3));
        let given = given.lock().unwrap();
        for given in given.iter() {
            assert_eq!(named(given), expected);
            let forged = given.iter().any(|(_, value)| value == b"forged");
            assert_eq!(forged, !is_on);
        }
        assert_eq!(given.len(), 3);
    }
}

#[test]
fn a_refusal_at_the_flush_is_a_failure_in_the_trace_of_the_record() {
    let (tracer, queue) = Tracer::new(Sampler::new(1.0), 100);
    let (mut output, _) = to_late(tracer);
    assert_eq!(told(&queue), [], "nothing is settled");
    output.flush(&mut Cut::default()).unwrap();
    let named = |name: &str, error: Option<&str>| (name.to_owned(), error.map(str::to_owned));
    let expected = [
        named("send out", None),
        named("dead-letter out", Some("dead-letter")),
        named("send out", Some("refused")),
        named("send out", None),
    ];
    assert_eq!(told(&queue), expected);
}

/// An audit whose disk is full.
struct FullAudit;

impl AuditLog for FullAudit {
    fn write(&mut self, _: &Audited<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn pending(&self) -> usize {
        1
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Err(SinkError::Write {
            place: "audit.jsonl".into(),
            why: "no space left".into(),
        })
    }
    fn settled(&mut self, _: bool) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn logged(&mut self) {}
    fn discard(&mut self) {}
    fn position(&self) -> Option<SinkPosition> {
        None
    }
    fn end(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn sibling(&self) -> Box<dyn AuditLog> {
        Box::new(FullAudit)
    }
}

/// Holds something, and must not be asked for it.
struct Held;

impl Sink for Held {
    fn write(&mut self, _: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn write_dead(&mut self, _: &DeadLetter<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn pending(&self) -> usize {
        1
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        panic!("an answer is written whose line is not")
    }
    fn discard(&mut self) {}
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn nothing_of_a_cut_is_written_whose_lines_of_the_audit_are_not() {
    let (topology, meters) = topology();
    let sinks: Vec<Box<dyn Sink>> = (topology.sinks.iter())
        .map(|_| Box::new(Held) as Box<dyn Sink>)
        .collect();
    let mut output = Output::new(topology, sinks, Box::new(Held), Arc::new(meters));
    output.audit = Audit::new(Some(Box::new(FullAudit)));
    let failed = output.flush(&mut Cut::default());
    let why = failed.unwrap_err().to_string();
    assert!(why.contains("audit.jsonl"), "{why}");
}
