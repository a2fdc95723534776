//! What a committer promises of what waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate_connect::kafka::{
    ChangelogOptions, ChangelogPartitions, KafkaCommitter, TransactionOptions,
};
use tidegate_contract::{
    Assignment, CommitError, Committer, Cut, Entry, EntryKey, EntryPart, Keeper, KeptPosition,
    Settled, Store, TaskCut, TaskId, TaskImage,
};

use tidegate_telemetry::WorkKind;

use crate::broker::{brokers, delete, make, records, topic, topic_with, widen};
use crate::worker::{Key, Nobody, Setup, Worker};
use crate::{DEADLINE, WAIT, numbers, produce};

fn key(offset: u64, part: EntryPart) -> EntryKey {
    EntryKey {
        stage: "ask".into(),
        offset,
        emit: 0,
        copy: 0,
        part,
    }
}

pub(crate) fn entry(offset: u64, payload: &[u8]) -> Entry {
    Entry {
        key: key(offset, EntryPart::Record),
        payload: payload.to_vec(),
    }
}

fn named(entries: impl IntoIterator<Item = Entry>) -> BTreeMap<EntryKey, Vec<u8>> {
    let entries = entries.into_iter();
    entries.map(|entry| (entry.key, entry.payload)).collect()
}

/// What is known of a file of which nothing is.
fn none(number: u32, beside: Vec<(TaskId, u64)>) -> TaskImage {
    TaskImage {
        identity: format!("/data/{number}.jsonl"),
        marked: true,
        beside,
        ..TaskImage::default()
    }
}

/// A committer of a source of files, whose positions are in the changelog.
fn of_files(changelog: &str, name: &str) -> TransactionOptions {
    let mut options = TransactionOptions::new(brokers(), format!("{changelog}-{name}"));
    let partitions = ChangelogPartitions::Number(1);
    options.changelogs = vec![ChangelogOptions::new("files", changelog, partitions)];
    options.patience = Duration::from_secs(30);
    options.no_progress = Duration::from_secs(40);
    options
}

fn open(options: &TransactionOptions, key: u8) -> Result<KafkaCommitter, CommitError> {
    KafkaCommitter::open(options.clone(), Arc::new(Key(key)))
}

fn file(number: u32) -> TaskId {
    TaskId {
        source: "files".into(),
        partition: number,
    }
}

fn assignment(number: u32) -> Assignment {
    Assignment {
        task: file(number),
        identity: format!("/data/{number}.jsonl"),
        kept: None,
    }
}

fn load(committer: &mut KafkaCommitter, number: u32) -> TaskImage {
    committer.load(&[assignment(number)]).unwrap().remove(0)
}

fn cut(committer: &mut KafkaCommitter, number: u32, cut: TaskCut) -> Settled {
    let cut = Cut {
        tasks: [(file(number), cut)].into(),
        ..Cut::default()
    };
    committer.begin(cut, &mut Nobody).unwrap();
    loop {
        if let Some(settled) = committer.settled(WAIT).unwrap() {
            return settled;
        }
    }
}

fn at(position: u64) -> TaskCut {
    TaskCut {
        identity: "/data/0.jsonl".into(),
        position: Some(position),
        ..TaskCut::default()
    }
}

#[test]
fn what_waits_is_there_for_the_next_process() {
    let changelog = format!("{}-log", topic("log-files", 1));
    let options = of_files(&changelog, "a");
    let mut committer = open(&options, 7).unwrap();
    assert_eq!(load(&mut committer, 0), none(0, Vec::new()));
    let counters = vec![("in".to_owned(), 5), ("out".to_owned(), 3)];
    let first = TaskCut {
        put: vec![entry(10, b"one"), entry(20, b"two"), entry(30, b"three")],
        counters: counters.clone(),
        ..at(100)
    };
    assert_eq!(
        cut(&mut committer, 0, first),
        Settled::Committed { number: 1 }
    );
    let second = TaskCut {
        put: vec![entry(20, b"two again"), entry(40, b"")],
        done: vec![key(10, EntryPart::Record), key(20, EntryPart::Record)],
        counters: counters.clone(),
        waits: 3,
        ..at(120)
    };
    assert_eq!(
        cut(&mut committer, 0, second),
        Settled::Committed { number: 2 }
    );
    let expected = TaskImage {
        identity: "/data/0.jsonl".into(),
        position: Some(120),
        entries: named([entry(20, b"two again"), entry(30, b"three"), entry(40, b"")]),
        counters: counters.clone(),
        marked: true,
        ..TaskImage::default()
    };
    assert_eq!(load(&mut committer, 0), expected);
    // Another task in the same partition has its own, and is told of the other's.
    let beside = vec![(file(0), 3)];
    assert_eq!(load(&mut committer, 1), none(1, beside));
    drop(committer);
    let mut committer = open(&options, 7).unwrap();
    let mut image = load(&mut committer, 0);
    let mark = image.mark.take().unwrap();
    let keeper = Keeper {
        store: Store::Changelog(changelog.clone()),
        instance: String::new(),
    };
    assert_eq!(
        (mark.keeper, mark.source.as_str(), mark.identity.as_str()),
        (Some(keeper), "files", "/data/0.jsonl")
    );
    assert_eq!(
        (mark.cut, mark.waits, mark.position, mark.counters),
        (2, 3, Some(120), counters)
    );
    assert_eq!(image, expected);
    assert_eq!(
        cut(
            &mut committer,
            0,
            TaskCut {
                position: Some(130),
                ..expected_cut(&expected)
            }
        ),
        Settled::Committed { number: 3 }
    );
    // Its name is plain, what it says is not.
    let (name, _) = records(&changelog, "read_committed").remove(1);
    assert_eq!(name, "files/0/ask/10/0/0/record");
}

/// A cut that says what is known already.
fn expected_cut(image: &TaskImage) -> TaskCut {
    TaskCut {
        counters: image.counters.clone(),
        waits: image.entries.len() as u64,
        ..at(image.position.unwrap())
    }
}

#[test]
fn an_entry_larger_than_a_message_goes_in_pieces_and_leaves_none_behind() {
    let changelog = topic_with(
        "log-pieces",
        1,
        &[("cleanup.policy", "compact"), ("max.message.bytes", "5000")],
    );
    let options = of_files(&changelog, "a");
    let mut committer = open(&options, 7).unwrap();
    load(&mut committer, 0);
    let large: Vec<u8> = (0..50_000_u32).map(|byte| (byte * 7) as u8).collect();
    let put = |payload: &[u8], position| TaskCut {
        put: vec![entry(10, payload)],
        ..at(position)
    };
    cut(&mut committer, 0, put(&large, 100));
    let of_entry = |records: &[(String, Option<usize>)]| {
        let pieces = records.iter().filter(|(key, _)| key.contains("/ask/"));
        pieces.count()
    };
    // A broker answers a commit before its markers are in the topic.
    let deadline = Instant::now() + DEADLINE;
    let pieces = loop {
        let pieces = records(&changelog, "read_committed");
        if of_entry(&pieces) > 10 {
            break pieces;
        }
        assert!(Instant::now() < deadline, "{pieces:?}");
    };
    assert!(pieces.iter().all(|(_, length)| length.unwrap() < 5000));
    let restored = |position, payload: &[u8]| {
        let mut committer = open(&of_files(&changelog, "b"), 7).unwrap();
        let image = load(&mut committer, 0);
        assert_eq!(image.position, Some(position));
        assert_eq!(image.entries, named([entry(10, payload)]));
    };
    restored(100, &large);
    // A smaller one, then none.
    cut(&mut committer, 0, put(&large[..9_000], 101));
    restored(101, &large[..9_000]);
    let gone = TaskCut {
        done: vec![key(10, EntryPart::Record)],
        ..at(102)
    };
    cut(&mut committer, 0, gone);
    let deadline = Instant::now() + DEADLINE;
    loop {
        let records = records(&changelog, "read_committed").into_iter();
        let mut last: BTreeMap<String, Option<usize>> = records.collect();
        last.retain(|key, length| key.contains("/ask/") && length.is_some());
        if last.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{last:?}");
    }
}

#[test]
fn aborted_cuts_leave_no_trace_in_what_a_task_begins_with() {
    let (input, output) = (topic("log-aborted", 1), topic("log-aborted-out", 1));
    produce(&input, numbers(0..50));
    let setup = Setup::new(&input, &output, "a");
    let mut worker = Worker::open(&setup);
    worker.until(|worker| worker.read.len() == 50);
    let task_cut = |put: Vec<Entry>, done: Vec<EntryKey>| TaskCut {
        put,
        done,
        counters: vec![("in".into(), 50)],
        ..TaskCut::default()
    };
    let kept = vec![entry(1, b"one"), entry(2, b"two")];
    worker.cuts.insert(0, task_cut(kept.clone(), Vec::new()));
    assert!(matches!(worker.cut(), Settled::Committed { .. }));
    let before = (worker.next.clone(), kept);
    produce(&input, numbers(50..90));
    for _ in 0..2 {
        worker.read.clear();
        worker.until(|worker| worker.read.len() == 40);
        let news = task_cut(
            vec![entry(2, b"changed"), entry(60, &[7; 3000])],
            vec![key(1, EntryPart::Record)],
        );
        worker.cuts.insert(0, news);
        // Somebody connects under its name, so that its transaction is over.
        let mut other = setup.committer(1).unwrap();
        other.load(&[]).unwrap();
        let settled = worker.cut();
        assert!(matches!(settled, Settled::Aborted { .. }), "{settled:?}");
        assert_eq!(worker.next, before.0);
        assert_eq!(worker.images[&0].entries, named(before.1.clone()));
        assert_eq!(worker.images[&0].counters, [("in".to_owned(), 50)]);
    }
    worker.close();
    let mut again = Worker::open(&setup);
    again.until(|worker| worker.images.contains_key(&0));
    assert_eq!(again.next, before.0);
    assert_eq!(again.images[&0].entries, named(before.1));
    assert_eq!(again.images[&0].counters, [("in".to_owned(), 50)]);
    again.close();
}

#[test]
fn a_changelog_with_holes_is_read_to_its_end() {
    let changelog = topic_with(
        "log-holes",
        1,
        &[
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("segment.ms", "200"),
            ("segment.bytes", "1048576"),
            ("max.compaction.lag.ms", "200"),
            ("delete.retention.ms", "0"),
        ],
    );
    let options = of_files(&changelog, "a");
    let mut committer = open(&options, 7).unwrap();
    load(&mut committer, 0);
    for number in 0..40 {
        let news = TaskCut {
            put: vec![entry(number, &number.to_le_bytes()), entry(1000, b"again")],
            done: (number.checked_sub(2).into_iter())
                .map(|number| key(number, EntryPart::Record))
                .collect(),
            ..at(2000 + number)
        };
        cut(&mut committer, 0, news);
        std::thread::sleep(Duration::from_millis(20));
    }
    let count = records(&changelog, "read_committed").len();
    let began = std::time::Instant::now();
    // The cleaner looks every 15 s. Whether it has come or not, the end is found: it is made of markers.
    while records(&changelog, "read_committed").len() == count
        && began.elapsed() < Duration::from_secs(40)
    {
        std::thread::sleep(Duration::from_secs(1));
        cut(
            &mut committer,
            0,
            at(3000 + began.elapsed().as_millis() as u64),
        );
    }
    let expected = load(&mut committer, 0);
    assert_eq!(expected.entries.len(), 3);
    drop(committer);
    let mut committer = open(&options, 7).unwrap();
    let again = load(&mut committer, 0);
    assert_eq!(
        (again.position, again.entries),
        (expected.position, expected.entries)
    );
}

#[test]
fn a_wrong_state_key_is_refused_by_name() {
    let changelog = format!("{}-log", topic("log-key", 1));
    let options = of_files(&changelog, "a");
    let mut committer = open(&options, 7).unwrap();
    load(&mut committer, 0);
    cut(&mut committer, 0, at(1));
    let mut other = open(&options, 8).unwrap();
    let error = other.load(&[assignment(0)]).unwrap_err().to_string();
    assert!(
        error.contains(&changelog) && error.contains("another state key") && error.contains("07"),
        "{error}"
    );
}

#[test]
fn a_changelog_that_is_deleted_and_made_anew_while_it_is_used_is_named() {
    let (input, output) = (topic("log-anew", 1), topic("log-anew-out", 1));
    let setup = Setup::new(&input, &output, "a");
    produce(&input, crate::numbers(0..10));
    let mut worker = Worker::open(&setup);
    worker.until(|worker| worker.read.len() == 10);
    let kept = entry(3, b"waits");
    worker.cuts.entry(0).or_default().put.push(kept);
    assert_eq!(worker.cut(), Settled::Committed { number: 1 });
    delete(&setup.changelog);
    make(&setup.changelog, 1, &[("cleanup.policy", "compact")]);
    let deadline = std::time::Instant::now() + crate::DEADLINE;
    let said = loop {
        assert!(std::time::Instant::now() < deadline, "cuts go on");
        produce(&input, crate::numbers(0..1));
        let had = worker.read.len();
        worker.until(|worker| worker.read.len() > had);
        worker.begin();
        match worker.committer.settled(crate::DEADLINE) {
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        said.contains(&setup.changelog) && said.contains("made anew"),
        "{said}"
    );
}

#[test]
fn a_changelog_grows_with_its_topic_and_one_made_anew_is_refused_by_name() {
    let (input, output) = (topic("log-topic", 1), topic("log-topic-out", 1));
    produce(&input, numbers(0..10));
    let mut setup = Setup::new(&input, &output, "a");
    let refresh = "topic.metadata.refresh.interval.ms";
    setup.source.insert(refresh.into(), "500".into());
    let mut worker = Worker::open(&setup);
    worker.until(|worker| worker.read.len() == 10);
    worker.cut();
    // What is in a partition that was added goes into one of the changelog that was not there.
    widen(&input, 2);
    produce(&input, numbers(10..400));
    worker.until(|worker| worker.next.len() == 2 && worker.read.len() == 400);
    worker.cuts.insert(
        1,
        TaskCut {
            put: vec![entry(1, b"one")],
            waits: 1,
            ..TaskCut::default()
        },
    );
    assert!(matches!(worker.cut(), Settled::Committed { .. }));
    worker.close();
    let mut again = Worker::open(&setup);
    again.until(|worker| worker.images.len() == 2);
    assert_eq!(again.images[&1].entries, named([entry(1, b"one")]));
    again.close();
    let refusal = || {
        let mut last = String::new();
        for _ in 0..100 {
            last = match setup.committer(1) {
                Err(error) => return error.to_string(),
                Ok(mut committer) => {
                    let task = TaskId {
                        source: "tickets".into(),
                        partition: 0,
                    };
                    let kept = Some(KeptPosition {
                        position: 0,
                        ..KeptPosition::default()
                    });
                    let assignment = Assignment {
                        task,
                        identity: String::new(),
                        kept,
                    };
                    match committer.load(&[assignment]) {
                        Err(error) => return error.to_string(),
                        Ok(images) => format!("{images:?}"),
                    }
                }
            };
            std::thread::sleep(Duration::from_millis(100));
        }
        last
    };
    delete(&input);
    crate::broker::make(&input, 2, &[]);
    let error = refusal();
    assert!(
        error.contains("it was made anew") && error.contains(&setup.changelog),
        "{error}"
    );
}

#[test]
fn a_topic_that_cannot_be_a_changelog_is_refused_by_name() {
    let deletes = topic_with("log-delete", 1, &[("cleanup.policy", "delete")]);
    let error = open(&of_files(&deletes, "a"), 7).unwrap_err().to_string();
    assert!(
        error.contains(&deletes) && error.contains("cleanup.policy delete"),
        "{error}"
    );
    let small = [("cleanup.policy", "compact"), ("max.message.bytes", "1000")];
    let small = topic_with("log-small", 1, &small);
    let error = open(&of_files(&small, "a"), 7).unwrap_err().to_string();
    assert!(
        error.contains(&small) && error.contains("messages of 1000 bytes"),
        "{error}"
    );
}

/// Somebody who wrote to a changelog, of an entry of the first file, and left the transaction open.
fn crashes(changelog: &str) -> BaseProducer {
    let crashed: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("transactional.id", format!("{changelog}-crashed"))
        // Brokers end it then at the earliest, and within 10 s more: long enough for what is done meanwhile.
        .set("transaction.timeout.ms", "10000")
        .create()
        .unwrap();
    crashed.init_transactions(Duration::from_secs(20)).unwrap();
    crashed.begin_transaction().unwrap();
    crashed
        .send(
            BaseRecord::to(changelog)
                .partition(0)
                .key("files/0/ask/1/0/0/record")
                .payload("lost"),
        )
        .map_err(|(error, _)| error)
        .unwrap();
    while crashed.in_flight_count() > 0 {
        crashed.poll(WAIT);
    }
    crashed
}

/// Asks until it is there, as a worker does.
fn fetched(committer: &mut KafkaCommitter, number: u32) -> Result<(), CommitError> {
    let deadline = Instant::now() + DEADLINE;
    while !committer.fetch(&[assignment(number)])? {
        assert!(Instant::now() < deadline, "it is never read");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[test]
fn a_changelog_is_read_beside_cuts_and_let_go_with_its_task() {
    let changelog = format!("{}-log", topic("log-beside", 1));
    let mut options = of_files(&changelog, "a");
    options.changelogs[0].partitions = ChangelogPartitions::Number(2);
    let mut committer = open(&options, 7).unwrap();
    fetched(&mut committer, 1).unwrap();
    load(&mut committer, 1);
    // The changelog of the first file cannot be read for now. Cuts of the second one hold.
    let crashed = crashes(&changelog);
    let waits = TaskCut {
        put: vec![entry(1, b"waits")],
        ..at(10)
    };
    assert!(!committer.fetch(&[assignment(0)]).unwrap());
    let settled = cut(&mut committer, 1, waits);
    assert!(matches!(settled, Settled::Committed { .. }), "{settled:?}");
    // Nor does a task that goes back to its last cut.
    assert_eq!(load(&mut committer, 1).position, Some(10));
    assert!(!committer.fetch(&[assignment(0)]).unwrap());
    // It is taken away, and another comes, which is read once nobody reads that any more.
    committer.release(&[file(0)]);
    fetched(&mut committer, 3).unwrap();
    assert!(load(&mut committer, 3).entries.is_empty());
    // It comes back.
    fetched(&mut committer, 0).unwrap();
    assert_eq!(load(&mut committer, 0).position, None);
    committer.release(&[file(1)]);
    fetched(&mut committer, 1).unwrap();
    let image = load(&mut committer, 1);
    assert_eq!(
        (image.position, image.entries),
        (Some(10), named([entry(1, b"waits")]))
    );
    drop(crashed);
}

#[test]
fn a_changelog_that_takes_too_long_in_all_is_an_error_of_its_own() {
    let changelog = format!("{}-log", topic("log-whole", 1));
    let mut options = of_files(&changelog, "a");
    options.whole_load = Duration::from_secs(1);
    let mut committer = open(&options, 7).unwrap();
    let crashed = crashes(&changelog);
    // Also where nothing is asked of a task that is here, over and over, as after cuts that come to nothing.
    let deadline = Instant::now() + Duration::from_secs(60);
    let error = loop {
        match committer.fetch(&[assignment(0)]) {
            Ok(is_there) => assert!(!is_there && Instant::now() < deadline),
            Err(error) => break error.to_string(),
        }
        assert_eq!(committer.load(&[]).unwrap().len(), 0);
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(
        error.contains(&changelog) && error.contains("within 1 s"),
        "{error}"
    );
    drop(crashed);
}

#[test]
fn the_open_transaction_of_a_crashed_writer_hides_nothing() {
    let changelog = format!("{}-log", topic("log-open", 1));
    let mut committer = open(&of_files(&changelog, "a"), 7).unwrap();
    load(&mut committer, 0);
    let news = |payload: &[u8], position| TaskCut {
        put: vec![entry(1, payload)],
        ..at(position)
    };
    cut(&mut committer, 0, news(b"before", 10));
    // Somebody of another name crashes. What is committed behind it cannot be read until brokers end it.
    let crashed = crashes(&changelog);
    cut(&mut committer, 0, news(b"behind", 20));
    drop(committer);
    // It says that it waits in vain, if it may not wait so long.
    let mut hasty = of_files(&changelog, "a");
    hasty.no_progress = Duration::from_secs(1);
    let mut waiting = open(&hasty, 7).unwrap();
    let (error, listed) = std::thread::scope(|scope| {
        let loaded = scope.spawn(|| waiting.load(&[assignment(0)]).unwrap_err());
        // As long as it waits, it is listed.
        let listed = loop {
            if let [one] = &hasty.works.under_way()[..] {
                break one.clone();
            }
            assert!(!loaded.is_finished(), "it was never listed");
            std::thread::yield_now();
        };
        (loaded.join().unwrap(), listed)
    });
    assert_eq!(
        (listed.kind, &listed.subject),
        (WorkKind::Restore, &changelog)
    );
    drop(waiting);
    assert_eq!(hasty.works.under_way(), []);
    let error = error.to_string();
    assert!(
        error.contains(&changelog) && error.contains("a transaction on it stays open"),
        "{error}"
    );
    let mut committer = open(&of_files(&changelog, "a"), 7).unwrap();
    let image = load(&mut committer, 0);
    assert_eq!(
        (image.position, image.entries),
        (Some(20), named([entry(1, b"behind")]))
    );
    drop(crashed);
}
