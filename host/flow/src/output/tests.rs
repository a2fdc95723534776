use std::time::Duration;

use tidegate_contract::{Answer, CallerId, Callers, CommitPoint, Listener, SinkPosition, Terms};
use tidegate_record::PublicRecord;

use super::*;
use crate::topology::{Called, Positions, Source};

/// Takes everything.
struct Open;

impl Sink for Open {
    fn write(&mut self, _: PublicRecord<'_>) -> Result<(), SinkError> {
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

/// Of a source of callers, the first, and a topic.
fn output() -> Output {
    let source = |called: bool| Source {
        name: "in".into(),
        targets: Vec::new(),
        fixed: false,
        positions: match called {
            true => Positions::Nobody,
            false => Positions::Cuts,
        },
        called,
        identities: vec!["it".into()],
    };
    let topology = Topology {
        sources: vec![source(true), source(false)],
        stages: Vec::new(),
        sinks: vec!["out".into()],
        commit_point: CommitPoint::Log,
        batch: 8,
        batch_bytes: 1 << 20,
        cut_interval: Duration::ZERO,
        callers: Some(Called {
            callers: Arc::new(Nobody),
            sinks: [(0, "answer".to_owned())].into(),
        }),
        drain: Duration::ZERO,
    };
    let meters = Arc::new(Meters::new("output", []));
    Output::new(
        Arc::new(topology),
        vec![Box::new(Open)],
        Box::new(Open),
        meters,
    )
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
