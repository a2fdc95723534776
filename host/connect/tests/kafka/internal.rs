//! Topics of the program's own: how they are made, and that what waits is not left behind in one.

use std::time::{Duration, Instant};

use tidegate_connect::kafka::{
    InternalTopic, KafkaSink, KafkaSinkOptions, probe_changelog, probe_write,
};
use tidegate_contract::{
    Assignment, Committer, Entry, EntryKey, EntryPart, Settled, Source, SourceEvent, TaskCut,
    TaskImage,
};

use crate::broker::{brokers, delete, setting, topic};
use crate::worker::{Setup, Worker, task};
use crate::{DEADLINE, WAIT, numbers, produce};

fn made(replication: u16, settings: &[(&str, &str)]) -> InternalTopic {
    let settings = settings.iter();
    let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    InternalTopic {
        replication: Some(replication),
        settings: settings.collect(),
    }
}

fn setup(name: &str, made: InternalTopic) -> Setup {
    let (input, output) = (topic(name, 2), topic(&format!("{name}-out"), 1));
    let mut setup = Setup::new(&input, &output, "a");
    setup.transactions.changelogs[0].made = made;
    setup
}

#[test]
fn a_changelog_is_made_as_it_is_told_and_one_that_is_there_is_used_as_it_is() {
    let wanted = [("max.message.bytes", "50000"), ("segment.ms", "60000")];
    let mut setup = setup("own", made(1, &wanted));
    let ask = |setup: &Setup| {
        let changelog = &setup.transactions.changelogs[0];
        let nothing = std::collections::BTreeMap::new();
        probe_changelog(changelog, &brokers(), &nothing, Duration::from_secs(20)).unwrap()
    };
    assert!(ask(&setup).to_be_made);
    drop(setup.committer(1).unwrap());
    for (name, value) in wanted {
        assert_eq!(setting(&setup.changelog, name), value);
    }
    assert_eq!(setting(&setup.changelog, "cleanup.policy"), "compact");
    let report = ask(&setup);
    assert_eq!((report.partitions, report.to_be_made), (2, false));
    assert_eq!(report.differences, [""; 0]);
    let other = made(3, &[("segment.ms", "90000"), ("no.such.setting", "1")]);
    setup.transactions.changelogs[0].made = other;
    drop(setup.committer(1).unwrap());
    assert_eq!(setting(&setup.changelog, "segment.ms"), "60000");
    assert_eq!(
        ask(&setup).differences,
        [
            "replication 1 instead of 3",
            "no setting no.such.setting",
            "segment.ms 60000 instead of 90000"
        ]
    );
}

#[test]
fn a_changelog_that_cannot_be_made_is_refused_with_what_was_asked_for() {
    for (wanted, named) in [
        (made(3, &[]), "with replication 3"),
        (made(1, &[("segment.ms", "soon")]), "segment.ms soon"),
    ] {
        let setup = setup("unmade", wanted);
        let began = Instant::now();
        let error = setup.committer(1).unwrap_err().to_string();
        assert!(
            error.contains(&format!("changelog topic {}", setup.changelog))
                && error.contains("cannot be made")
                && error.contains(named),
            "{error}"
        );
        // As long as its patience lasts it would be asked if time could mend that.
        assert!(began.elapsed() < setup.transactions.patience, "{error}");
    }
}

#[test]
fn a_topic_for_dead_letters_is_made_if_it_is_missing() {
    let name = format!("{}-letters", topic("dead-own", 1));
    let mut options = KafkaSinkOptions::new(brokers(), &name, "support-bot");
    options.patience = Duration::from_secs(30);
    let error = KafkaSink::open(options.clone()).unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
    options.made = Some(made(1, &[("retention.ms", "-1")]));
    assert!(probe_write(&options).unwrap().to_be_made);
    drop(KafkaSink::open(options.clone()).unwrap());
    assert_eq!(setting(&name, "retention.ms"), "-1");
    let report = probe_write(&options).unwrap();
    assert!(!report.to_be_made && report.partitions > 0 && report.differences.is_empty());
}

/// What a process of this setup would begin with, or why it does not.
fn begin(setup: &Setup) -> Result<Vec<TaskImage>, String> {
    let mut committer = setup.committer(1).map_err(|error| error.to_string())?;
    let mut source = setup.source();
    committer.follow("tickets", &source).unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < deadline, "nothing was assigned");
        if let SourceEvent::Assigned(assigned) = source.poll(1, 1000, WAIT).unwrap() {
            let assignments = assigned.into_iter().map(|assigned| Assignment {
                task: task(assigned.partition.number),
                identity: "topic".into(),
                kept: assigned.kept,
            });
            let loaded = committer.load(&assignments.collect::<Vec<_>>());
            source.close().unwrap();
            return loaded.map_err(|error| error.to_string());
        }
    }
}

#[test]
fn what_waits_in_another_changelog_is_not_left_behind() {
    let setup = setup("moved", InternalTopic::default());
    produce(&setup.input, numbers(0..50));
    let key = EntryKey {
        stage: "ask".into(),
        offset: 0,
        emit: 0,
        copy: 0,
        part: EntryPart::Record,
    };
    let entry = Entry {
        key: key.clone(),
        payload: b"waits".to_vec(),
    };
    let cut = |put: &[Entry], done: &[EntryKey]| {
        let mut worker = Worker::open(&setup);
        worker.until(|worker| worker.images.len() == 2 && worker.next.values().sum::<u64>() == 50);
        // What was assigned is carried out at the next poll.
        worker.poll(1);
        for number in [0, 1] {
            let (put, done) = (put.to_vec(), done.to_vec());
            worker.cuts.insert(
                number,
                TaskCut {
                    put,
                    done,
                    ..TaskCut::default()
                },
            );
        }
        // A second cut that says nothing of what waits takes nothing back.
        for _ in 0..2 {
            let settled = worker.cut();
            assert!(matches!(settled, Settled::Committed { .. }), "{settled:?}");
        }
        worker.close();
    };
    cut(&[entry.clone()], &[]);
    let other = {
        let mut other = setup.clone();
        other.changelog = format!("{}-other", setup.changelog);
        other.transactions.changelogs[0].topic = other.changelog.clone();
        other
    };
    let error = begin(&other).unwrap_err();
    let named = format!(
        "in changelog topic {}, and this process was told {}",
        setup.changelog, other.changelog
    );
    assert!(error.contains(&named), "{error}");
    let images = begin(&setup).unwrap();
    assert!(images.iter().all(|image| image.entries == [entry.clone()]));
    // Whoever commits without transactions would go past it.
    let mut source = setup.source();
    let deadline = Instant::now() + DEADLINE;
    let error = loop {
        assert!(Instant::now() < deadline, "nothing was assigned");
        if let Err(error) = source.poll(1, 1000, WAIT) {
            break error.to_string();
        }
    };
    assert!(
        error.contains(&setup.changelog) && error.contains("only cuts that are transactions read"),
        "{error}"
    );
    drop(source);
    // Where nothing waits any more, another may be named.
    cut(&[], &[key]);
    begin(&other).unwrap();
    cut(&[entry], &[]);
    delete(&setup.changelog);
    let named = format!("changelog topic {} was made anew", setup.changelog);
    let deadline = Instant::now() + DEADLINE;
    // It is gone a moment later.
    loop {
        let begun = begin(&setup);
        if matches!(&begun, Err(error) if error.contains(&named)) {
            break;
        }
        assert!(Instant::now() < deadline, "{begun:?}");
    }
}
