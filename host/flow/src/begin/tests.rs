//! Every pair of what a position says and where cuts go.

use tidegate_contract::{Entry, EntryKey, EntryPart, LARGEST_MARK};

use super::*;

const HERE: &str = "here";
const TOPIC: &str = "kafka topic tickets (id one)";
const FILE: &str = "/data/in.jsonl";

fn task() -> TaskId {
    TaskId {
        source: "tickets".into(),
        partition: 3,
    }
}

fn log_of(instance: &str) -> Keeper {
    Keeper {
        store: Store::Log,
        instance: instance.into(),
    }
}

fn changelog(topic: &str) -> Keeper {
    Keeper {
        store: Store::Changelog(topic.into()),
        instance: HERE.into(),
    }
}

fn counters(input: u64, output: u64) -> Vec<(String, u64)> {
    vec![("in".into(), input), ("out".into(), output)]
}

fn mark(keeper: &Keeper, waits: u64) -> Mark {
    Mark {
        keeper: Some(keeper.clone()),
        source: "tickets".into(),
        identity: TOPIC.into(),
        cut: 7,
        waits,
        counters: counters(100, 100 - waits),
        ..Mark::default()
    }
}

fn kept(position: u64, metadata: Option<String>) -> KeptPosition {
    KeptPosition {
        position,
        metadata,
        id: "one".into(),
    }
}

fn beside(position: u64, mark: &Mark) -> KeptPosition {
    kept(position, Some(mark.write(LARGEST_MARK)))
}

/// A task with entries at these offsets.
fn image(identity: &str, position: u64, offsets: &[u64]) -> TaskImage {
    let entry = |offset: &u64| Entry {
        key: EntryKey {
            stage: "ask".into(),
            offset: *offset,
            emit: 0,
            copy: 0,
            part: EntryPart::Record,
        },
        payload: Vec::new(),
    };
    let entries = offsets.iter().map(entry);
    TaskImage {
        identity: identity.into(),
        position: Some(position),
        unfinished: Some(offsets.iter().min().copied().unwrap_or(position)),
        entries: entries.map(|entry| (entry.key, entry.payload)).collect(),
        counters: counters(position, position - offsets.len() as u64),
        marked: true,
        ..TaskImage::default()
    }
}

fn stored(image: &TaskImage) -> Stored<'_> {
    Stored {
        image,
        records: image.entries.len() as u64,
    }
}

/// What is decided, in a line; a refusal is one too.
struct Case<'a> {
    keeper: Keeper,
    kept: Option<KeptPosition>,
    log: Option<&'a TaskImage>,
    changelog: Option<&'a TaskImage>,
    former: Option<&'a TaskImage>,
    identity: &'a str,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Case {
            keeper: log_of(HERE),
            kept: None,
            log: None,
            changelog: None,
            former: None,
            identity: TOPIC,
        }
    }
}

impl Case<'_> {
    fn begin(&self) -> Result<Begin, String> {
        let empty = TaskImage::default();
        let has = match self.keeper.store {
            Store::Log => None,
            Store::Changelog(_) => Some(self.changelog.unwrap_or(&empty)),
        };
        begin(&Known {
            task: &task(),
            identity: self.identity,
            fixed: self.kept.is_none(),
            keeper: &self.keeper,
            kept: self.kept.as_ref(),
            log: self.log.map(stored),
            changelog: has.map(stored),
            former: self.former.map(stored),
        })
    }

    #[track_caller]
    fn goes_on(&self, position: Option<u64>, keeps: Keeps, in_flight: u64) {
        let begin = self.begin().unwrap();
        assert_eq!((begin.position, begin.keeps), (position, keeps));
        assert_eq!(begin.counts.in_flight(), in_flight);
    }

    #[track_caller]
    fn is_refused(&self, words: &[&str]) {
        let why = self.begin().unwrap_err();
        for word in words {
            assert!(why.contains(word), "{word} in: {why}");
        }
    }
}

#[test]
fn after_cuts_of_a_log_the_log_goes_on_unless_another_member_has() {
    let image = image(TOPIC, 90, &[50, 60]);
    for (instance, position, at, keeps, in_flight) in [
        (HERE, 50, 90, Keeps::All, 2),
        // The group heard of the last cut too late.
        (HERE, 40, 90, Keeps::All, 2),
        ("there", 50, 90, Keeps::All, 2),
        // Another one went on.
        ("there", 80, 80, Keeps::Nothing, 0),
        ("there", 900, 900, Keeps::Nothing, 0),
        // This directory is from a copy that was older.
        (HERE, 80, 80, Keeps::Nothing, 0),
    ] {
        let case = Case {
            kept: Some(beside(position, &mark(&log_of(instance), 2))),
            log: Some(&image),
            ..Case::default()
        };
        case.goes_on(Some(at), keeps, in_flight);
    }
    let nothing = Case {
        kept: Some(beside(50, &mark(&log_of("there"), 2))),
        ..Case::default()
    };
    nothing.goes_on(Some(50), Keeps::Nothing, 0);
}

#[test]
fn a_position_that_somebody_set_is_where_reading_goes_on() {
    let image = image(TOPIC, 90, &[50, 60]);
    for position in [0, 50, 55, 90, 500] {
        for text in ["", "set by a tool"] {
            let case = Case {
                kept: Some(kept(position, Some(text.into()))),
                log: Some(&image),
                ..Case::default()
            };
            case.goes_on(Some(position), Keeps::Nothing, 0);
            let case = Case {
                keeper: changelog("log"),
                kept: Some(kept(position, Some(text.into()))),
                changelog: Some(&image),
                ..Case::default()
            };
            case.goes_on(Some(position), Keeps::Before(position), 0);
        }
    }
}

#[test]
fn before_there_were_marks_the_log_was_right_unless_the_group_was_further() {
    let old = TaskImage {
        marked: false,
        identity: "kafka topic tickets".into(),
        ..image(TOPIC, 90, &[])
    };
    for (position, at, keeps) in [
        (80, 90, Keeps::All),
        (90, 90, Keeps::All),
        (91, 91, Keeps::Nothing),
    ] {
        let case = Case {
            kept: Some(kept(position, Some(String::new()))),
            log: Some(&old),
            ..Case::default()
        };
        case.goes_on(Some(at), keeps, 0);
        let case = Case {
            keeper: changelog("log"),
            ..case
        };
        case.goes_on(Some(at), Keeps::Before(at), 0);
    }
}

#[test]
fn a_group_that_heard_of_no_cut_or_has_forgotten_all_goes_on_where_the_log_is() {
    let image = image(TOPIC, 90, &[50]);
    for metadata in [None, Some(Mark::default().write(LARGEST_MARK))] {
        let case = Case {
            kept: Some(kept(10, metadata.clone())),
            log: Some(&image),
            ..Case::default()
        };
        case.goes_on(Some(90), Keeps::All, 1);
        let case = Case { log: None, ..case };
        case.goes_on(Some(10), Keeps::Nothing, 0);
        let case = Case {
            keeper: changelog("log"),
            log: Some(&image),
            ..case
        };
        case.is_refused(&["1 record wait in the commit log", "changelog topic log"]);
        let done = super::tests::image(TOPIC, 90, &[]);
        let case = Case {
            log: Some(&done),
            ..case
        };
        case.goes_on(Some(90), Keeps::Before(90), 0);
    }
}

#[test]
fn a_transaction_goes_on_with_all_it_has_and_a_hole_is_refused() {
    let whole = image(TOPIC, 100, &[50, 60]);
    let case = Case {
        keeper: changelog("log"),
        kept: Some(beside(100, &mark(&changelog("log"), 2))),
        changelog: Some(&whole),
        ..Case::default()
    };
    case.goes_on(Some(100), Keeps::All, 2);
    for offsets in [&[][..], &[50][..], &[50, 60, 70][..]] {
        let hole = image(TOPIC, 100, offsets);
        let case = Case {
            keeper: case.keeper.clone(),
            kept: case.kept.clone(),
            changelog: Some(&hole),
            ..Case::default()
        };
        case.is_refused(&["2 records waited", "changelog topic log", "partition 3"]);
    }
}

#[test]
fn another_commit_point_is_refused_while_records_wait_and_goes_on_from_the_right_position() {
    for waits in [0, 40] {
        // From the changelog to the log, or to another changelog.
        for keeper in [log_of(HERE), changelog("other")] {
            let old = image(TOPIC, 20, &[10]);
            let case = Case {
                keeper,
                kept: Some(beside(100, &mark(&changelog("log"), waits))),
                log: Some(&old),
                ..Case::default()
            };
            match waits {
                0 => case.goes_on(Some(100), Keeps::Nothing, 0),
                _ => case.is_refused(&["40 records wait in changelog topic log", "finish"]),
            }
        }
        // From the log of another process to the changelog.
        let case = Case {
            keeper: changelog("log"),
            kept: Some(beside(100, &mark(&log_of("there"), waits))),
            ..Case::default()
        };
        match waits {
            0 => case.goes_on(Some(100), Keeps::Nothing, 0),
            _ => case.is_refused(&["40 records wait in the commit log of state directory there"]),
        }
    }
    // From this one's log, which may be further than the group was told.
    for (offsets, refused) in [(&[][..], false), (&[50][..], true)] {
        let log = image(TOPIC, 90, offsets);
        let case = Case {
            keeper: changelog("log"),
            kept: Some(beside(40, &mark(&log_of(HERE), 0))),
            log: Some(&log),
            ..Case::default()
        };
        match refused {
            false => case.goes_on(Some(90), Keeps::Nothing, 0),
            true => case.is_refused(&["1 record wait in the commit log of this state directory"]),
        }
    }
}

#[test]
fn a_source_under_another_name_is_refused_while_something_would_be_lost() {
    let renamed = |keeper: &Keeper, waits| Mark {
        source: "old".into(),
        ..mark(keeper, waits)
    };
    for waits in [0, 40] {
        let case = Case {
            keeper: changelog("log"),
            kept: Some(beside(100, &renamed(&changelog("log"), waits))),
            ..Case::default()
        };
        match waits {
            0 => case.goes_on(Some(100), Keeps::Nothing, 0),
            _ => case.is_refused(&["was read as source old", "40 records wait"]),
        }
    }
    let (further, same) = (image(TOPIC, 120, &[]), image(TOPIC, 100, &[]));
    let waiting = image(TOPIC, 100, &[100]);
    for (former, refused) in [(&further, true), (&waiting, true), (&same, false)] {
        let case = Case {
            kept: Some(beside(100, &renamed(&log_of(HERE), 0))),
            former: Some(former),
            ..Case::default()
        };
        match refused {
            true => case.is_refused(&["was read as source old", "old name"]),
            false => case.goes_on(Some(100), Keeps::Nothing, 0),
        }
    }
    let kept = beside(100, &renamed(&log_of(HERE), 0));
    assert_eq!(former_source(&task(), Some(&kept)), Some("old".to_owned()));
    let kept = beside(100, &mark(&log_of(HERE), 0));
    assert_eq!(former_source(&task(), Some(&kept)), None);
}

#[test]
fn a_topic_made_anew_and_marks_of_other_versions_are_refused_by_name() {
    let waiting = image("kafka topic tickets (id zero)", 90, &[50]);
    let old = image("kafka topic tickets (id zero)", 90, &[]);
    let case = Case {
        kept: Some(kept(0, None)),
        log: Some(&waiting),
        ..Case::default()
    };
    case.is_refused(&["(id zero)", "(id one)"]);
    let case = Case {
        log: Some(&old),
        ..case
    };
    case.goes_on(Some(0), Keeps::Nothing, 0);
    for keeper in [log_of(HERE), changelog("log")] {
        let anew = Mark {
            identity: "kafka topic tickets (id zero)".into(),
            ..mark(&keeper, 0)
        };
        let case = Case {
            keeper: keeper.clone(),
            kept: Some(beside(100, &anew)),
            ..Case::default()
        };
        case.is_refused(&["(id zero)", "(id one)", "set the group's position anew"]);
        for text in ["1 cut=12 life=5f0c in=7", "tidegate/9 in=7"] {
            let case = Case {
                keeper: keeper.clone(),
                kept: Some(kept(5, Some(text.into()))),
                ..Case::default()
            };
            case.is_refused(&["another version of Tidegate"]);
        }
    }
}

#[test]
fn an_input_that_was_known_with_its_id_keeps_it_where_the_brokers_do_not_tell_it() {
    const WITHOUT: &str = "kafka topic tickets";
    let goes_on_as = |case: Case<'_>| case.begin().unwrap().identity;
    let (with, without) = (image(TOPIC, 90, &[50]), image(WITHOUT, 90, &[50]));
    let plain = Mark {
        identity: WITHOUT.into(),
        ..mark(&log_of(HERE), 1)
    };
    for (now, log, mark, expected) in [
        (WITHOUT, Some(&with), None, TOPIC),
        (WITHOUT, Some(&with), Some(&plain), TOPIC),
        (WITHOUT, None, Some(&mark(&log_of(HERE), 0)), TOPIC),
        (WITHOUT, Some(&without), Some(&plain), WITHOUT),
        (WITHOUT, None, None, WITHOUT),
        // It is known now.
        (TOPIC, Some(&without), Some(&plain), TOPIC),
    ] {
        let kept = match mark {
            Some(mark) => beside(50, mark),
            None => kept(50, None),
        };
        let case = Case {
            kept: Some(kept),
            log,
            identity: now,
            ..Case::default()
        };
        assert_eq!(goes_on_as(case), expected, "{now} {log:?} {mark:?}");
    }
    // Where cuts are transactions it is beside the position.
    let changelog = changelog("log");
    let case = Case {
        kept: Some(beside(90, &mark(&changelog, 1))),
        changelog: Some(&without),
        keeper: changelog,
        identity: WITHOUT,
        ..Case::default()
    };
    assert_eq!(goes_on_as(case), TOPIC);
    // Whoever sets the position may have made the topic anew.
    let case = Case {
        kept: Some(kept(0, Some("set by a tool".into()))),
        log: Some(&with),
        identity: WITHOUT,
        ..Case::default()
    };
    assert_eq!(goes_on_as(case), WITHOUT);
    // Another topic is another input.
    let done = image("kafka topic others (id one)", 90, &[]);
    let case = Case {
        kept: Some(kept(0, None)),
        log: Some(&done),
        identity: WITHOUT,
        ..Case::default()
    };
    assert_eq!(goes_on_as(case), WITHOUT);
}

fn of_file(keeper: &Keeper, position: u64, waits: u64) -> Mark {
    Mark {
        identity: FILE.into(),
        position: Some(position),
        ..mark(keeper, waits)
    }
}

fn moved(position: u64, topic: &str, state: MoveState) -> TaskImage {
    TaskImage {
        moved: Some(Moved {
            topic: topic.into(),
            state,
        }),
        ..image(FILE, position, &[])
    }
}

fn one_file<'a>(
    keeper: Keeper,
    log: Option<&'a TaskImage>,
    changelog: Option<&'a TaskImage>,
) -> Case<'a> {
    Case {
        keeper,
        log,
        changelog,
        identity: FILE,
        ..Case::default()
    }
}

#[test]
fn a_file_goes_on_where_the_log_is_or_where_the_log_says() {
    let file = Case {
        identity: FILE,
        ..Case::default()
    };
    file.goes_on(None, Keeps::All, 0);
    let log = image(FILE, 90, &[50]);
    Case {
        log: Some(&log),
        ..file
    }
    .goes_on(Some(90), Keeps::All, 1);
    // To the changelog.
    let into = changelog("log");
    one_file(into.clone(), Some(&log), None).is_refused(&["1 record wait in the commit log"]);
    let done = image(FILE, 90, &[]);
    let before = TaskImage {
        mark: Some(of_file(&into, 30, 0)),
        ..TaskImage::default()
    };
    for known in [None, Some(&before)] {
        one_file(into.clone(), Some(&done), known).goes_on(Some(90), Keeps::Nothing, 0);
    }
    // There.
    let there = TaskImage {
        mark: Some(of_file(&into, 200, 2)),
        ..image(FILE, 200, &[50, 60])
    };
    for state in [MoveState::Begun, MoveState::There, MoveState::Ended] {
        let moved = moved(90, "log", state);
        one_file(into.clone(), Some(&moved), Some(&there)).goes_on(Some(200), Keeps::All, 2);
        let lost = one_file(into.clone(), Some(&moved), None);
        match state {
            MoveState::There => lost.is_refused(&["has no position", "removed"]),
            _ => lost.goes_on(Some(90), Keeps::Nothing, 0),
        }
        // Back to the log, or to another changelog: the pipeline or the source has another name.
        let back = one_file(log_of(HERE), Some(&moved), None);
        let other = one_file(changelog("other"), Some(&moved), None);
        match state {
            MoveState::Ended => {
                back.goes_on(Some(90), Keeps::All, 0);
                other.goes_on(Some(90), Keeps::Nothing, 0);
            }
            _ => {
                back.is_refused(&["changelog topic log", "finish"]);
                other.is_refused(&["changelog topic log", "changelog topic other", "old names"]);
            }
        }
    }
    // What is missing, and what another machine has.
    let hole = TaskImage {
        mark: Some(of_file(&into, 200, 2)),
        ..image(FILE, 200, &[50])
    };
    one_file(into.clone(), None, Some(&hole)).is_refused(&["2 records waited"]);
    let others = Keeper {
        instance: "there".into(),
        ..into.clone()
    };
    let others = TaskImage {
        mark: Some(of_file(&others, 200, 0)),
        ..image(FILE, 200, &[])
    };
    one_file(into.clone(), None, Some(&others)).is_refused(&["another state directory", "there"]);
    // Another file.
    let mut anew = one_file(into, Some(&done), Some(&there));
    anew.identity = "/data/other.jsonl";
    anew.is_refused(&["/data/in.jsonl", "/data/other.jsonl"]);
}
