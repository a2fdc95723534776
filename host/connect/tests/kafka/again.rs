//! Dead letters that are sent again through a topic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tidegate_codec::{DecoderOptions, SENT_FROM, decode_dead_letter, encode_dead_letter};
use tidegate_connect::kafka::{
    KafkaAgain, KafkaAgainOptions, KafkaSourceOptions, LetterFate, LetterToSend, Properties,
};
use tidegate_contract::{DeadLetter, LetterForm, LetterSeal, Source as _, SourceEvent};
use tidegate_record::RecordId;

use crate::broker::{brokers, make, records, setting, topic};
use crate::worker::Key;
use crate::{DEADLINE, WAIT};

fn soon() -> Instant {
    Instant::now() + DEADLINE
}

/// A name that no topic has.
fn name(begin: &str) -> String {
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{begin}-{}-again", now.as_nanos())
}

/// What one process has of the topic.
fn process(topic: &str) -> KafkaAgain {
    KafkaAgain::new(KafkaAgainOptions::new(brokers(), topic))
}

fn seal() -> LetterSeal {
    LetterSeal::new(Arc::new(Key(5)))
}

fn letter(offset: u64, value: &[u8], form: LetterForm) -> LetterToSend {
    let mut bytes = Vec::new();
    let letter = DeadLetter {
        id: RecordId {
            offset,
            ..RecordId::default()
        },
        source: "in",
        input: None,
        stage: "stage",
        reason: "trap",
        attempts: 1,
        key: Some(b"key"),
        value: Some(value),
        length: value.len() as u64,
        at: 1_000_000,
        form,
        event_time: Some(2_000_000),
        headers: Some(&[("own", Some(b"1"))]),
        ..DeadLetter::default()
    };
    encode_dead_letter(&mut bytes, &letter);
    let stored = decode_dead_letter(&bytes).unwrap();
    LetterToSend::new(&format!("in/0/{offset}@0.{offset}"), &stored, bytes)
}

fn some(count: u64) -> Vec<LetterToSend> {
    let some = (0..count).map(|offset| letter(offset, b"{\"n\":1}", LetterForm::Record));
    some.collect()
}

/// How often each key is there for who reads committed records.
fn committed(topic: &str) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for (key, _) in records(topic, "read_committed") {
        *times.entry(key).or_default() += 1;
    }
    times
}

#[test]
fn a_letter_is_sent_once_by_whichever_of_many_processes_and_all_see_its_mark() {
    let topic = name("at-once");
    let letters = some(60);
    let send = || {
        let process = process(&topic);
        let mut fates = Vec::new();
        for chunk in letters.chunks(10) {
            // Each chunk as a request of its own, so that all take the epoch from each other.
            let mut sending = process.sending(soon()).unwrap();
            fates.extend(sending.send(chunk, soon()).unwrap());
        }
        fates
    };
    let fates: Vec<Vec<LetterFate>> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
        let sent = senders.into_iter().map(|sender| sender.join().unwrap());
        sent.collect()
    });
    assert_eq!(setting(&topic, "cleanup.policy"), "compact");
    let expected = letters.iter().map(|letter| (letter.key.clone(), 1));
    assert_eq!(committed(&topic), expected.collect());
    let late = process(&topic);
    late.look(soon()).unwrap();
    for (index, letter) in letters.iter().enumerate() {
        let mark = late.sent(&letter.death).unwrap();
        let sent = |fates: &&Vec<LetterFate>| fates[index] == LetterFate::Sent(mark);
        let already = |fates: &&Vec<LetterFate>| fates[index] == LetterFate::Already(mark);
        assert_eq!(fates.iter().filter(sent).count(), 1, "{}", letter.key);
        assert_eq!(fates.iter().filter(already).count(), 3, "{}", letter.key);
    }
    // Another copy of a death was sent with the first; the death of another record was not.
    let copy = letter(0, b"{\"n\":2}", LetterForm::Record);
    assert!(late.sent(&copy.death).is_some());
    let other = letter(60, b"{\"n\":2}", LetterForm::Record);
    assert_eq!(late.sent(&other.death), None);
    // The same twice in one request is sent once.
    let twice = [other.clone(), other];
    let fates = late.sending(soon()).unwrap().send(&twice, soon()).unwrap();
    assert!(
        matches!(fates[..], [LetterFate::Sent(one), LetterFate::Already(other)] if one == other),
        "{fates:?}"
    );
}

#[test]
fn what_a_killed_sender_left_open_was_not_sent_and_what_it_committed_was() {
    let topic = name("killed");
    make(&topic, 1, &[("cleanup.policy", "compact")]);
    let letters = some(2);
    let killed: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("transactional.id", &topic)
        .create()
        .unwrap();
    killed.init_transactions(DEADLINE).unwrap();
    for (index, letter) in letters.iter().enumerate() {
        killed.begin_transaction().unwrap();
        let record = BaseRecord::to(&topic)
            .key(&letter.key)
            .payload(&letter.bytes);
        killed.send(record).map_err(|(error, _)| error).unwrap();
        killed.flush(DEADLINE).unwrap();
        if index == 0 {
            killed.commit_transaction(DEADLINE).unwrap();
        }
    }
    // Somebody who only looks sees what is committed.
    let process = process(&topic);
    process.look(soon()).unwrap();
    assert!(process.sent(&letters[0].death).is_some());
    assert!(process.sent(&letters[1].death).is_none());
    let fates = process.sending(soon()).unwrap().send(&letters, soon());
    let fates = fates.unwrap();
    assert!(
        matches!(fates[..], [LetterFate::Already(_), LetterFate::Sent(_)]),
        "{fates:?}"
    );
    // It was not dead, only slow.
    assert!(killed.commit_transaction(DEADLINE).is_err());
    assert!(committed(&topic).values().all(|times| *times == 1));
}

#[test]
fn what_the_topic_refuses_is_told_and_takes_no_other_letter_with_it() {
    let small = name("small");
    let settings = [("cleanup.policy", "compact"), ("max.message.bytes", "2000")];
    make(&small, 1, &settings);
    let process_of_small = process(&small);
    let noise: Vec<u8> = (0..3000u32)
        .map(|n| b'a' + (n.wrapping_mul(2_654_435_761) >> 24) as u8 % 26)
        .collect();
    let mut letters = some(3);
    letters[1] = letter(1, &noise, LetterForm::Record);
    let sending = process_of_small.sending(soon());
    let fates = sending.unwrap().send(&letters, soon()).unwrap();
    let [
        LetterFate::Sent(_),
        LetterFate::Refused(why),
        LetterFate::Sent(_),
    ] = &fates[..]
    else {
        panic!("{fates:?}");
    };
    assert!(
        why.contains("larger than the topic's max.message.bytes"),
        "{why}"
    );
    // A broker answers a commit before its marker is in the topic.
    let deadline = soon();
    while committed(&small).len() < 2 {
        assert!(Instant::now() < deadline, "not both are there");
    }
    assert_eq!(committed(&small).len(), 2);

    // One that removes what is old would forget what was sent.
    let deletes = topic("deletes", 1);
    let process_of_it = process(&deletes);
    let refused = process_of_it
        .sending(soon())
        .unwrap()
        .send(&letters, soon());
    let why = refused.unwrap_err();
    assert!(
        why.contains(&deletes) && why.contains("cleanup.policy delete"),
        "{why}"
    );
    assert!(committed(&deletes).is_empty());

    // Somebody else's open transaction hides what may be there.
    let stranger: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("transactional.id", format!("{small}-stranger"))
        .create()
        .unwrap();
    stranger.init_transactions(DEADLINE).unwrap();
    stranger.begin_transaction().unwrap();
    let record: BaseRecord<'_, str, str> = BaseRecord::to(&small).key("x").payload("y");
    stranger.send(record).map_err(|(error, _)| error).unwrap();
    stranger.flush(DEADLINE).unwrap();
    let mut sending = process_of_small.sending(soon()).unwrap();
    let until = Instant::now() + 20 * WAIT;
    let why = sending.send(&some(5), until).unwrap_err();
    assert!(why.contains("stays open"), "{why}");
    drop(sending);
    stranger.abort_transaction(DEADLINE).unwrap();
    let sending = process_of_small.sending(soon());
    let fates = sending.unwrap().send(&some(5), soon()).unwrap();
    let sent = |fate: &&LetterFate| matches!(fate, LetterFate::Sent(_));
    // Of these five the first and the third were sent before.
    assert_eq!(fates.iter().filter(sent).count(), 3, "{fates:?}");

    // Brokers that do not answer have a deadline.
    let nobody = KafkaAgain::new(KafkaAgainOptions::new("127.0.0.1:1", "nowhere"));
    assert!(nobody.look(Instant::now() + WAIT).is_err());
    let mut sending = nobody.sending(soon()).unwrap();
    assert!(sending.send(&some(1), Instant::now() + WAIT).is_err());
    // Nor does anybody wait for ever for one who sends.
    let why = nobody.sending(Instant::now() + WAIT).err().unwrap();
    assert!(why.contains("others are at it"), "{why}");
}

#[test]
fn what_is_sent_again_is_read_as_the_record_that_it_was_once_there_is_a_topic() {
    let topic = name("read");
    let options = |until_end: bool| KafkaSourceOptions {
        decoder: DecoderOptions {
            required: vec!["n".into()],
            ..DecoderOptions::default()
        },
        until_end,
        ..KafkaSourceOptions::new(3, "", "", format!("{topic}-group"))
    };
    let process = process(&topic);
    // Nothing was ever sent: there is nothing to wait for.
    let mut none = process
        .source(options(true), Properties::new(), seal())
        .unwrap();
    let said = none.poll(10, 1 << 20, WAIT).unwrap();
    assert!(matches!(said, SourceEvent::Assigned(list) if list.is_empty()));
    drop(none);

    let process = KafkaAgain::new(KafkaAgainOptions::new(brokers(), &topic));
    let mut source = process
        .source(options(false), Properties::new(), seal())
        .unwrap();
    let said = source.poll(10, 1 << 20, WAIT).unwrap();
    assert!(matches!(said, SourceEvent::Assigned(list) if list.is_empty()));
    let letters = [
        letter(0, b"no \xff JSON", LetterForm::Record),
        letter(1, b"{\"n\":1}", LetterForm::Input),
        letter(2, b"{\"other\":1}", LetterForm::Input),
    ];
    process
        .sending(soon())
        .unwrap()
        .send(&letters, soon())
        .unwrap();
    // Whoever may write to the topic may write anything.
    let hostile: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .create()
        .unwrap();
    for (key, value) in [("x", "{}"), (letters[1].key.as_str(), "{\"n\":9}")] {
        let record = BaseRecord::to(&topic).key(key).payload(value);
        hostile.send(record).map_err(|(error, _)| error).unwrap();
    }
    hostile.flush(DEADLINE).unwrap();
    let (mut read, mut rejected) = (Vec::new(), Vec::new());
    let deadline = soon();
    while read.len() + rejected.len() < 5 {
        assert!(Instant::now() < deadline, "{read:?} {rejected:?}");
        if let SourceEvent::Records {
            batch,
            rejected: more,
            ..
        } = source.poll(10, 1 << 20, WAIT).unwrap()
        {
            for record in batch.view().records() {
                let headers: Vec<(String, Vec<u8>)> = record
                    .headers()
                    .map(|pair| (pair.name.to_owned(), pair.value.unwrap().to_vec()))
                    .collect();
                assert_eq!(record.id().source, 3);
                assert_eq!(
                    (record.key(), record.event_time()),
                    (Some(&b"key"[..]), Some(2_000_000))
                );
                read.push((record.value().unwrap().to_vec(), headers));
            }
            rejected.extend(more);
        }
    }
    let from = |offset: u64| {
        let id = format!("in/0/{offset}@0.{offset}").into_bytes();
        vec![
            (SENT_FROM.to_owned(), id),
            ("own".to_owned(), b"1".to_vec()),
        ]
    };
    assert_eq!(read[0], (b"no \xff JSON".to_vec(), from(0)));
    assert_eq!(read[1], (b"{\"n\":1}".to_vec(), from(1)));
    assert_eq!(read.len(), 2);
    // Input that is none still is as it was, and the others are told for what they are.
    assert_eq!(rejected[0].preview, b"{\"other\":1}");
    assert_eq!(rejected[0].headers.as_ref().unwrap()[0].0, SENT_FROM);
    assert!(
        rejected[1].reason.contains("no dead letter"),
        "{}",
        rejected[1].reason
    );
    assert!(
        rejected[2].reason.contains("no dead letter"),
        "{}",
        rejected[2].reason
    );
    source.close().unwrap();
}
