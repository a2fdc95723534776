//! Topics of the program's own: how they are made.

use std::time::{Duration, Instant};

use tidegate_connect::kafka::{
    InternalTopic, KafkaSink, KafkaSinkOptions, probe_changelog, probe_write,
};

use crate::broker::{brokers, setting, topic};
use crate::worker::Setup;

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
    let wanted = [
        ("max.message.bytes", "50000"),
        ("min.cleanable.dirty.ratio", "0.2"),
        ("segment.ms", "60000"),
    ];
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
    // What is over does not stay for long, unless the file says otherwise.
    assert_eq!(setting(&setup.changelog, "segment.bytes"), "67108864");
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
