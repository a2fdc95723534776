use tidegate_contract::{Made, Timings};
use tidegate_record::{BatchBuilder, NewRecord, RecordId};

use super::*;
use crate::answer;

const CALLER: CallerId = CallerId {
    source: 0,
    partition: 0,
    offset: 7,
};

/// Stage 0 is an operator before all, 1 and 2 ask models and write `answer` and `summary`, 3 leads to no caller; the
/// first sink answers, with what 1 said before what 2 did.
fn hearing() -> Hearing {
    let number = |name: &str| Some(answer::number_name(name));
    let heard = |(stage, writes)| Heard { stage, writes };
    Hearing {
        ways: Ways {
            sinks: vec![Some([(1, true), (2, false)].map(heard).to_vec()), None],
            lead: vec![true, true, true, false],
            last: vec![false, true, true, false],
            numbers: vec![None, number("answer"), number("summary"), None],
        },
        records: HashMap::new(),
        next: 1,
    }
}

fn answer() -> Arc<Answer> {
    Arc::new(Answer {
        made: Made::Choices(Vec::new()),
        prompt_tokens: 1,
        adapter: String::new(),
        timings: Timings::default(),
    })
}

#[test]
fn a_record_is_followed_from_when_it_multiplies_until_its_last_piece_has_ended() {
    let mut hearing = hearing();
    hearing.sent(CALLER, At::Source, &[Target::Stage(0)]);
    hearing.sent(CALLER, At::Stage(0), &[Target::Stage(1)]);
    assert!(hearing.records.is_empty(), "it is one");
    assert!(hearing.is_heard(1, CALLER) && !hearing.is_heard(0, CALLER));
    hearing.multiplied(CALLER, At::Stage(0), 3);
    assert!(!hearing.is_heard(1, CALLER), "three may come");
    hearing.sent(CALLER, At::Stage(0), &[Target::Stage(3)]);
    hearing.ended(CALLER, At::Stage(0));
    assert!(hearing.is_heard(1, CALLER), "the others do not come");
    let beside = [Target::Stage(1), Target::Stage(2)];
    hearing.sent(CALLER, At::Stage(0), &beside);
    assert!(!hearing.is_heard(1, CALLER) && !hearing.is_heard(2, CALLER));
    hearing.sent(CALLER, At::Stage(1), &[Target::Sink(1)]);
    assert!(hearing.is_heard(2, CALLER));
    hearing.ended(CALLER, At::Sink(1));
    hearing.ended(CALLER, At::Stage(3));
    hearing.ended(CALLER, At::Stage(2));
    assert!(hearing.records.is_empty(), "nothing is left of it");
    // One that was never followed.
    hearing.ended(CALLER, At::Stage(1));
    assert!(hearing.records.is_empty());
}

#[test]
fn pieces_of_an_earlier_life_count_as_those_of_this_one() {
    let mut hearing = hearing();
    for stage in [1, 2, 3] {
        hearing.restored(CALLER, stage);
    }
    assert!(!hearing.is_heard(1, CALLER));
    hearing.ended(CALLER, At::Stage(2));
    assert!(hearing.is_heard(1, CALLER));
    hearing.ended(CALLER, At::Stage(3));
    hearing.ended(CALLER, At::Stage(1));
    assert!(hearing.records.is_empty());
}

#[test]
fn a_piece_brings_what_its_own_attributes_name_in_the_order_of_its_sink() {
    let mut hearing = hearing();
    let (first, second) = (answer(), answer());
    let number = |hearing: &mut Hearing, stage, answer: &Arc<Answer>| {
        let number = hearing.answered(CALLER, stage, answer.clone());
        number.expect("it comes to a caller").to_string()
    };
    let answers = number(&mut hearing, 1, &first);
    let sums_up = number(&mut hearing, 2, &second);
    let other = hearing.answered(CALLER, 3, answer());
    assert_eq!(other, None, "nobody is told of it");
    let brought = |attributes: &[(&str, &str)]| {
        let attributes: Vec<(&str, Option<&[u8]>)> = attributes
            .iter()
            .map(|(name, value)| (*name, Some(value.as_bytes())))
            .collect();
        let id = RecordId {
            offset: 7,
            ..RecordId::default()
        };
        let mut builder = BatchBuilder::default();
        let record = NewRecord {
            id,
            attributes: &attributes,
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
        let batch = builder.finish(0);
        hearing.brought(&batch.view().get(0).unwrap(), 0)
    };
    let is = |brought: Option<Arc<Answer>>, answer: &Arc<Answer>| {
        brought.is_some_and(|brought| Arc::ptr_eq(&brought, answer))
    };
    let (by_answer, by_summary) = (
        ("answer_number", answers.as_str()),
        ("summary_number", sums_up.as_str()),
    );
    assert!(is(brought(&[by_answer, by_summary]), &first));
    assert!(is(brought(&[by_summary]), &second));
    assert!(brought(&[]).is_none());
    assert!(brought(&[("answer_number", "9")]).is_none(), "nobody's");
    assert!(
        brought(&[("answer_number", &sums_up)]).is_none(),
        "another stage's"
    );
}
