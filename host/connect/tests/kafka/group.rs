use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tidegate_connect::kafka::{KafkaSource, KafkaSourceOptions, KafkaStart};
use tidegate_contract::Source;

use crate::broker::{delete, make, topic, widen};
use crate::{DEADLINE, Read, WAIT, done, numbers, open, options, partition, produce, read_to_end};

/// Reads on for ever; members learn of a rebalance quickly.
fn endless(topic: &str) -> KafkaSourceOptions {
    let heartbeat = ("heartbeat.interval.ms".to_owned(), "300".to_owned());
    KafkaSourceOptions {
        until_end: false,
        properties: [heartbeat].into(),
        ..options(topic, topic)
    }
}

#[test]
fn a_restart_goes_on_at_the_committed_position() {
    let topic = topic("restart", 1);
    produce(&topic, numbers(0..10));
    let mut source = open(options(&topic, &topic));
    let mut read = Read::default();
    read.until(&mut source, |read| read.ends.len() == 1);
    source.commit(&[done(0, 4)]).unwrap();
    source.commit(&[done(0, 4)]).unwrap();
    source.close().unwrap();
    drop(source);
    let again = read_to_end(options(&topic, &topic), 1);
    assert_eq!(again.values(), numbers(4..10).collect::<Vec<_>>());
    // Nothing of that was committed.
    let again = read_to_end(options(&topic, &topic), 1);
    assert_eq!(again.values(), numbers(4..10).collect::<Vec<_>>());
}

#[test]
fn a_seek_after_assignment_stands_before_the_committed_position() {
    let topic = topic("seek", 1);
    produce(&topic, numbers(0..10));
    let mut source = open(options(&topic, &topic));
    let mut read = Read::default();
    read.until(&mut source, |read| !read.assigned.is_empty());
    source.seek(partition(0), 7).unwrap();
    read.until(&mut source, |read| read.ends.len() == 1);
    assert_eq!(read.values(), ["7", "8", "9"]);
    // And later, also past its end.
    source.seek(partition(0), 9).unwrap();
    read.until(&mut source, |read| read.ends.len() == 2);
    assert_eq!(read.values(), ["7", "8", "9", "9"]);
    assert!(source.seek(partition(5), 0).is_err());
}

#[test]
fn the_latest_start_skips_what_is_there() {
    let topic = topic("latest", 1);
    produce(&topic, numbers(0..5));
    let mut source = open(KafkaSourceOptions {
        start: KafkaStart::Latest,
        ..endless(&topic)
    });
    let mut read = Read::default();
    read.until(&mut source, |read| !read.assigned.is_empty());
    for _ in 0..3 {
        read.take(source.poll(10, 1 << 20, WAIT).unwrap());
    }
    produce(&topic, ["new".into()]);
    read.until(&mut source, |read| !read.records.is_empty());
    assert_eq!(read.values(), ["new"]);
}

fn from_the_end(topic: &str) -> KafkaSourceOptions {
    let mut options = endless(topic);
    options.start = KafkaStart::Latest;
    // New partitions are noticed soon.
    let refresh = ("topic.metadata.refresh.interval.ms", "500");
    let (name, value) = refresh;
    options.properties.insert(name.into(), value.into());
    options
}

#[test]
fn the_latest_start_skips_nothing_that_came_after_it_began() {
    for instance in [None, Some("one".to_owned())] {
        let topic = topic("latest-idle", 2);
        produce(&topic, numbers(0..5));
        let start = || KafkaSourceOptions {
            instance: instance.clone(),
            ..from_the_end(&topic)
        };
        let mut source = open(start());
        Read::default().until(&mut source, |read| read.assigned.len() == 2);
        // No record came, so `flow` has committed nothing when it ends.
        drop(source);
        produce(&topic, numbers(10..30));
        let mut source = open(start());
        let mut read = Read::default();
        read.until(&mut source, |read| read.records.len() >= 20);
        let values: BTreeSet<String> = read.values().into_iter().collect();
        assert_eq!(values, numbers(10..30).collect());
    }
}

#[test]
fn a_partition_added_after_the_latest_start_is_read_from_its_first_record() {
    let topic = topic("latest-added", 1);
    produce(&topic, numbers(0..5));
    let mut source = open(from_the_end(&topic));
    let mut read = Read::default();
    read.until(&mut source, |read| read.assigned.len() == 1);
    widen(&topic, 3);
    // Before the source knows of them.
    produce(&topic, numbers(100..200));
    read.until(&mut source, |read| read.records.len() >= 100);
    assert_eq!(read.assigned.len(), 3);
    let values: BTreeSet<String> = read.values().into_iter().collect();
    assert_eq!(values, numbers(100..200).collect());
    drop(source);
    // Added while nobody reads.
    widen(&topic, 4);
    produce(&topic, numbers(200..300));
    let mut source = open(from_the_end(&topic));
    let mut read = Read::default();
    read.until(&mut source, |read| {
        let values: BTreeSet<String> = read.values().into_iter().collect();
        numbers(200..300).all(|number| values.contains(&number))
    });
    assert!(!read.values().contains(&"4".to_owned()));
}

#[test]
fn the_latest_start_of_a_group_that_reads_another_topic_skips_nothing_either() {
    let (other, topic) = (topic("latest-other", 1), topic("latest-shared", 1));
    let group = topic.clone();
    let of = |topic: &str| KafkaSourceOptions {
        group: group.clone(),
        ..from_the_end(topic)
    };
    let mut first = open(of(&other));
    let mut seen = Read::default();
    seen.until(&mut first, |read| read.assigned.len() == 1);
    produce(&topic, numbers(0..5));
    let mut second = open(of(&topic));
    let mut read = Read::default();
    let deadline = Instant::now() + DEADLINE;
    while read.assigned.is_empty() {
        assert!(Instant::now() < deadline);
        step(&mut first, &mut seen);
        step(&mut second, &mut read);
    }
    // It is carried out.
    step(&mut second, &mut read);
    assert!(read.records.is_empty());
    drop(second);
    produce(&topic, numbers(10..20));
    let mut second = open(of(&topic));
    while read.records.len() < 10 {
        assert!(Instant::now() < deadline, "{read:?}");
        step(&mut first, &mut seen);
        step(&mut second, &mut read);
    }
    assert_eq!(read.values(), numbers(10..20).collect::<Vec<_>>());
}

#[test]
fn no_member_of_a_group_that_reads_another_topic_reads_what_was_there_before_the_latest_start() {
    let (other, topic) = (topic("latest-others", 1), topic("latest-both", 2));
    let group = topic.clone();
    let of = |topic: &str| KafkaSourceOptions {
        group: group.clone(),
        ..from_the_end(topic)
    };
    let mut first = open(of(&other));
    let mut seen = Read::default();
    seen.until(&mut first, |read| read.assigned.len() == 1);
    produce(&topic, numbers(0..20));
    // Both join at once, and each has a partition.
    let (mut left, mut right) = (open(of(&topic)), open(of(&topic)));
    let (mut one, mut two) = (Read::default(), Read::default());
    let deadline = Instant::now() + DEADLINE;
    while one.assigned.is_empty() || two.assigned.is_empty() {
        assert!(Instant::now() < deadline, "{one:?} {two:?}");
        step(&mut first, &mut seen);
        // One of them begins, and the other finds that the group has begun.
        step(&mut left, &mut one);
        step(&mut left, &mut one);
        step(&mut right, &mut two);
    }
    for _ in 0..5 {
        step(&mut left, &mut one);
        step(&mut right, &mut two);
    }
    produce(&topic, numbers(20..40));
    let read = |one: &Read, two: &Read| -> BTreeSet<String> {
        one.values().into_iter().chain(two.values()).collect()
    };
    while !read(&one, &two).is_superset(&numbers(20..40).collect()) {
        assert!(Instant::now() < deadline, "{one:?} {two:?}");
        step(&mut first, &mut seen);
        step(&mut left, &mut one);
        step(&mut right, &mut two);
    }
    assert_eq!(read(&one, &two), numbers(20..40).collect());
}

#[test]
fn one_member_says_for_all_where_a_group_begins_at_the_end() {
    let (other, topic) = (topic("latest-one-other", 1), topic("latest-one", 2));
    let group = topic.clone();
    let of = |topic: &str| KafkaSourceOptions {
        group: group.clone(),
        ..from_the_end(topic)
    };
    let mut first = open(of(&other));
    let mut seen = Read::default();
    seen.until(&mut first, |read| read.assigned.len() == 1);
    produce(&topic, numbers(0..20));
    let mut members = [open(of(&topic)), open(of(&topic))];
    let mut reads = [Read::default(), Read::default()];
    let deadline = Instant::now() + DEADLINE;
    let mut begins = None;
    while begins.is_none() {
        assert!(Instant::now() < deadline, "{reads:?}");
        step(&mut first, &mut seen);
        begins = (0..2).find(|member| {
            step(&mut members[*member], &mut reads[*member]);
            !reads[*member].assigned.is_empty()
        });
    }
    // It knows the ends and has told nobody yet. What comes now came after the group began, for the other member too.
    produce(&topic, numbers(20..40));
    let other = 1 - begins.unwrap();
    for _ in 0..10 {
        step(&mut members[other], &mut reads[other]);
    }
    let read =
        |reads: &[Read; 2]| -> BTreeSet<String> { reads.iter().flat_map(Read::values).collect() };
    while read(&reads).len() < 20 {
        assert!(Instant::now() < deadline, "{reads:?}");
        step(&mut first, &mut seen);
        for (member, read) in members.iter_mut().zip(&mut reads) {
            step(member, read);
        }
    }
    assert_eq!(read(&reads), numbers(20..40).collect());
}

#[test]
fn a_member_does_not_wait_for_ever_for_another_to_say_where_the_group_begins() {
    let (other, topic) = (topic("latest-alone-other", 1), topic("latest-alone", 2));
    let group = topic.clone();
    let of = |topic: &str| KafkaSourceOptions {
        group: group.clone(),
        begin_timeout: Duration::from_secs(1),
        ..from_the_end(topic)
    };
    let mut first = open(of(&other));
    let mut seen = Read::default();
    seen.until(&mut first, |read| read.assigned.len() == 1);
    produce(&topic, numbers(0..20));
    let mut members = [open(of(&topic)), open(of(&topic))];
    let mut reads = [Read::default(), Read::default()];
    let deadline = Instant::now() + DEADLINE;
    let mut begins = None;
    while begins.is_none() {
        assert!(Instant::now() < deadline, "{reads:?}");
        step(&mut first, &mut seen);
        begins = (0..2).find(|member| {
            step(&mut members[*member], &mut reads[*member]);
            !reads[*member].assigned.is_empty()
        });
    }
    // It knows where the group begins, and never gets to saying it.
    let other = 1 - begins.unwrap();
    let mut more = 20;
    while reads[other].records.is_empty() {
        assert!(Instant::now() < deadline);
        produce(&topic, numbers(more..more + 20));
        more += 20;
        step(&mut first, &mut seen);
        step(&mut members[other], &mut reads[other]);
    }
    let values = reads[other].values();
    let old: BTreeSet<String> = numbers(0..20).collect();
    assert!(
        values.iter().all(|value| !old.contains(value)),
        "{values:?}"
    );
}

/// Polls once and commits all that was read.
fn step(source: &mut KafkaSource, read: &mut Read) {
    read.take(source.poll(20, 1 << 20, WAIT).unwrap());
    source.commit(&read.positions()).unwrap();
}

#[test]
fn nothing_is_lost_when_a_second_consumer_joins_and_leaves() {
    let topic = topic("join", 4);
    let (mut first, mut second) = (Read::default(), Read::default());
    let mut one = open(endless(&topic));
    first.until(&mut one, |read| read.assigned.len() == 4);
    produce(&topic, numbers(0..400));
    for _ in 0..5 {
        step(&mut one, &mut first);
    }
    let mut two = open(endless(&topic));
    let deadline = Instant::now() + DEADLINE;
    while second.assigned.len() != 2 || first.assigned.len() != 2 {
        assert!(
            Instant::now() < deadline,
            "{:?} {:?}",
            first.assigned,
            second.assigned
        );
        step(&mut one, &mut first);
        step(&mut two, &mut second);
    }
    assert_eq!(first.revoked.len(), 2);
    produce(&topic, numbers(400..800));
    for _ in 0..5 {
        step(&mut one, &mut first);
        step(&mut two, &mut second);
    }
    two.close().unwrap();
    drop(two);
    let all = |first: &Read, second: &Read| {
        let values: BTreeSet<String> = first.values().into_iter().chain(second.values()).collect();
        values.len() == 800
    };
    while !all(&first, &second) || first.assigned.len() != 4 {
        assert!(Instant::now() < deadline, "{:?}", first.assigned);
        step(&mut one, &mut first);
    }
    // Both gave their partitions up in order and had committed: nothing was read twice.
    assert_eq!(first.records.len() + second.records.len(), 800);
}

/// Polls both, and commits, until the assignments have these sizes.
fn until_assigned(
    (one, first): (&mut KafkaSource, &mut Read),
    (two, second): (&mut KafkaSource, &mut Read),
    sizes: (usize, usize),
) {
    let deadline = Instant::now() + DEADLINE;
    while (first.assigned.len(), second.assigned.len()) != sizes {
        assert!(
            Instant::now() < deadline,
            "{:?} {:?}",
            first.assigned,
            second.assigned
        );
        step(one, first);
        step(two, second);
    }
}

#[test]
fn a_partition_that_was_paused_and_comes_back_is_read_to_its_end() {
    let topic = topic("paused", 2);
    let (mut first, mut second) = (Read::default(), Read::default());
    let mut one = open(endless(&topic));
    first.until(&mut one, |read| read.assigned.len() == 2);
    let count = 4000;
    produce(&topic, numbers(0..count));
    // A stage is full: so much is held for each partition that librdkafka is told to stop.
    for number in 0..2 {
        one.pause(partition(number)).unwrap();
    }
    for _ in 0..10 {
        step(&mut one, &mut first);
    }
    assert!(first.records.is_empty());
    let mut two = open(endless(&topic));
    until_assigned((&mut one, &mut first), (&mut two, &mut second), (1, 1));
    two.close().unwrap();
    drop(two);
    second.assigned.clear();
    let deadline = Instant::now() + DEADLINE;
    while first.assigned.len() != 2 {
        assert!(Instant::now() < deadline, "{:?}", first.assigned);
        step(&mut one, &mut first);
    }
    // The stage has room again. What came back is of a new assignment, in which nothing was paused.
    let kept = (0..2).find(|number| !first.revoked.contains(number));
    one.resume(partition(kept.unwrap())).unwrap();
    let seen = |first: &Read, second: &Read| {
        let values: BTreeSet<String> = first.values().into_iter().chain(second.values()).collect();
        values.len()
    };
    while seen(&first, &second) < count as usize {
        assert!(
            Instant::now() < deadline,
            "{} of {count} records",
            seen(&first, &second)
        );
        step(&mut one, &mut first);
    }
}

#[test]
fn a_partition_that_was_read_to_its_end_and_comes_back_ends_again() {
    let topic = topic("ended", 2);
    produce(&topic, numbers(0..200));
    let heartbeat = ("heartbeat.interval.ms".to_owned(), "300".to_owned());
    let bounded = || KafkaSourceOptions {
        properties: [heartbeat.clone()].into(),
        ..options(&topic, &topic)
    };
    let (mut first, mut second) = (Read::default(), Read::default());
    let mut one = open(bounded());
    first.until(&mut one, |read| read.ends.len() == 2);
    one.commit(&first.positions()).unwrap();
    let mut two = open(bounded());
    until_assigned((&mut one, &mut first), (&mut two, &mut second), (1, 1));
    two.close().unwrap();
    drop(two);
    first.ends.clear();
    produce(&topic, numbers(200..400));
    first.until(&mut one, |read| read.assigned.len() == 2);
    // It ends where it ended when the source was opened.
    let back = first.revoked[0];
    first.until(&mut one, |read| read.ends.contains(&back));
}

#[test]
fn an_instance_that_was_killed_takes_its_partitions_back() {
    let topic = topic("instance", 2);
    produce(&topic, numbers(0..100));
    let named = || KafkaSourceOptions {
        instance: Some("worker-0".into()),
        ..endless(&topic)
    };
    let mut killed = open(named());
    let mut read = Read::default();
    read.until(&mut killed, |read| read.records.len() == 100);
    killed.commit(&[done(0, 1), done(1, 1)]).unwrap();
    // It never leaves the group: its threads go on, as those of a killed process would not, until they are fenced.
    std::mem::forget(killed);
    let began = Instant::now();
    let mut source = open(named());
    let mut again = Read::default();
    again.until(&mut source, |read| read.records.len() == 98);
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    assert!(again.records.iter().all(|record| record.offset >= 1));
}

/// A member whose name is taken over hears of it with its next heartbeat.
/// Polls until it fails, and gives its words.
fn fails(source: &mut KafkaSource) -> String {
    let deadline = Instant::now() + crate::DEADLINE;
    loop {
        assert!(Instant::now() < deadline, "it goes on");
        if let Err(error) = source.poll(100, 1 << 20, WAIT) {
            return error.to_string();
        }
    }
}

#[test]
fn a_group_of_members_with_and_without_an_instance_is_told_to_have_one_kind() {
    let topic = topic("mixed", 2);
    let mut without = open(endless(&topic));
    let mut read = Read::default();
    read.until(&mut without, |read| read.assigned.len() == 2);
    let mut with = open(named(&topic));
    let said = fails(&mut with);
    assert!(
        said.contains("every process of the group an instance, or none"),
        "{said}"
    );
}

#[test]
fn a_topic_that_is_deleted_and_made_anew_while_it_is_read_is_named() {
    // The position is one of the new topic too, or may be one.
    for count in [0, 300] {
        let topic = topic("anew", 1);
        produce(&topic, numbers(0..count));
        let mut source = open(endless(&topic));
        let mut read = Read::default();
        read.until(&mut source, |read| {
            !read.assigned.is_empty() && read.records.len() == count as usize
        });
        source.commit(&read.positions()).unwrap();
        delete(&topic);
        make(&topic, 1, &[]);
        produce(&topic, numbers(0..1000));
        let said = fails(&mut source);
        assert!(
            said.contains(&topic) && said.contains("made anew while it was read"),
            "{said}"
        );
    }
}

fn named(topic: &str) -> KafkaSourceOptions {
    KafkaSourceOptions {
        instance: Some("worker-0".into()),
        ..endless(topic)
    }
}

#[test]
fn a_member_takes_its_name_back_from_one_that_is_gone() {
    let topic = topic("taken-over", 2);
    produce(&topic, numbers(0..100));
    let mut source = open(named(&topic));
    let mut read = Read::default();
    read.until(&mut source, |read| read.records.len() == 100);
    source.commit(&read.positions()).unwrap();
    let mut other = open(named(&topic));
    let mut seen = Read::default();
    seen.until(&mut other, |seen| seen.assigned.len() == 2);
    // With a name it does not leave the group: it is as if it were killed.
    drop(other);
    // It hears of that with its next heartbeat; until then it would still read.
    read.until(&mut source, |read| {
        read.revoked.len() == 2 && read.assigned.len() == 2
    });
    produce(&topic, numbers(100..200));
    read.until(&mut source, |read| read.records.len() == 200);
    let mut revoked = read.revoked.clone();
    revoked.sort_unstable();
    assert_eq!(revoked, [0, 1]);
    source.commit(&read.positions()).unwrap();
    source.close().unwrap();
    // What it committed since counts.
    let mut again = open(named(&topic));
    let mut rest = Read::default();
    rest.until(&mut again, |rest| rest.assigned.len() == 2);
    produce(&topic, numbers(200..210));
    rest.until(&mut again, |rest| rest.records.len() == 10);
}

/// Its heartbeat hears of that before a commit does, or after: neither is an error of the commit.
#[test]
fn a_commit_of_a_member_whose_name_was_taken_over_leads_to_its_taking_it_back() {
    for heartbeat_hears_first in [false, true] {
        let topic = topic("commits-taken-over", 1);
        produce(&topic, numbers(0..100));
        let mut source = open(named(&topic));
        let mut read = Read::default();
        read.until(&mut source, |read| read.records.len() == 100);
        let mut other = open(named(&topic));
        Read::default().until(&mut other, |seen| seen.assigned.len() == 1);
        drop(other);
        if heartbeat_hears_first {
            // Several of its heartbeats.
            std::thread::sleep(Duration::from_secs(2));
        }
        source.commit(&read.positions()).unwrap();
        // Nothing was committed: it reads from the beginning.
        read.until(&mut source, |read| {
            read.revoked == [0] && read.records.len() == 200
        });
    }
}

#[test]
fn of_two_members_of_one_name_one_ends_and_says_so() {
    let topic = topic("one-name", 1);
    let (mut one, mut other) = (open(named(&topic)), open(named(&topic)));
    let deadline = Instant::now() + DEADLINE * 2;
    let why = loop {
        assert!(Instant::now() < deadline, "both go on");
        let step = |source: &mut KafkaSource| source.poll(100, 1 << 20, WAIT).map(drop);
        if let Err(error) = step(&mut one).and_then(|()| step(&mut other)) {
            break error.to_string();
        }
    };
    assert!(
        why.contains("worker-0") && why.contains("another process has it"),
        "{why}"
    );
}
