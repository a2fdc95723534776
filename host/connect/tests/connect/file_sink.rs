use std::sync::Arc;

use tidegate_codec::{Encoder, EncoderOptions, Format};
use tidegate_connect::file::FileSink;
use tidegate_contract::{DeadLetter, HostHeaders, Sink, SinkError, SinkPosition};
use tidegate_record::{Batch, BatchBuilder, NewRecord, RecordId};

use crate::memory::Memory;

const PATH: &str = "out/answers.jsonl";

fn encoder(options: EncoderOptions) -> Encoder {
    Encoder::new(options).unwrap()
}

fn sink(disk: &Memory) -> FileSink {
    sink_with(disk, EncoderOptions::default())
}

fn sink_with(disk: &Memory, options: EncoderOptions) -> FileSink {
    FileSink::new("answers", PATH, Arc::new(disk.clone()), encoder(options))
}

fn batch(value: &str) -> Batch {
    let mut builder = BatchBuilder::default();
    let record = NewRecord {
        value: Some(value.as_bytes()),
        key: Some(b"k"),
        attributes: &[("pii", Some(b"SECRET"))],
        ..NewRecord::default()
    };
    builder.push(&record).unwrap();
    builder.finish(0)
}

fn write(sink: &mut dyn Sink, value: &str) -> Result<(), SinkError> {
    sink.write(
        batch(value).view().get(0).unwrap().public(),
        HostHeaders::default(),
    )
}

fn position(length: u64) -> SinkPosition {
    SinkPosition {
        sink: "answers".into(),
        identity: PATH.into(),
        length,
        head: String::new(),
        ended: false,
    }
}

/// The same, as the run left it that wrote it and ended in order.
fn ended(length: u64) -> SinkPosition {
    SinkPosition {
        ended: true,
        ..position(length)
    }
}

#[test]
fn nothing_reaches_the_file_before_a_flush_and_all_of_it_is_durable_after() {
    let disk = Memory::default();
    let mut sink = sink(&disk);
    sink.recover(&[]).unwrap();
    assert_eq!(sink.flush().unwrap(), None);
    write(&mut sink, "1").unwrap();
    write(&mut sink, "22").unwrap();
    assert_eq!((disk.text(PATH).as_str(), sink.pending()), ("", 5));
    assert_eq!(sink.flush().unwrap(), Some(position(5)));
    assert_eq!(
        (disk.text(PATH).as_str(), sink.pending(), disk.synced(PATH)),
        ("1\n22\n", 0, 5)
    );
    write(&mut sink, "3").unwrap();
    assert_eq!(sink.flush().unwrap(), Some(position(7)));
}

#[test]
fn recovery_takes_away_what_no_cut_knows_of() {
    let disk = Memory::default();
    disk.put(PATH, b"1\n2\n3\n");
    let mut again = sink(&disk);
    again.recover(&[position(4)]).unwrap();
    assert_eq!(disk.text(PATH), "1\n2\n");
    write(&mut again, "4").unwrap();
    assert_eq!(again.flush().unwrap(), Some(position(6)));
    assert_eq!(disk.text(PATH), "1\n2\n4\n");
    drop(again);
    let error = sink(&disk)
        .recover(&[position(10)])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has 6 bytes but the last cut left 10"),
        "{error}"
    );
    let error = sink(&disk).recover(&[]).unwrap_err().to_string();
    assert!(
        error.contains("6 bytes that no cut of this state directory knows of"),
        "{error}"
    );
    assert_eq!(disk.text(PATH), "1\n2\n4\n");
}

#[test]
fn what_lies_beyond_the_end_of_a_run_is_refused_and_stays() {
    let disk = Memory::default();
    disk.put(PATH, b"1\n2\n");
    let error = sink(&disk).recover(&[ended(2)]).unwrap_err().to_string();
    assert!(
        error.contains("4 bytes and the last run that wrote it ended with 2 bytes"),
        "{error}"
    );
    assert_eq!(disk.text(PATH), "1\n2\n");
    let mut again = sink(&disk);
    again.recover(&[ended(4)]).unwrap();
}

#[test]
fn a_flush_that_fails_half_way_can_be_tried_again() {
    for operation in 0..3 {
        let disk = Memory::default();
        let mut sink = sink(&disk);
        sink.recover(&[]).unwrap();
        write(&mut sink, "1").unwrap();
        sink.flush().unwrap();
        write(&mut sink, "22").unwrap();
        disk.fail_in(operation);
        // With the third operation nothing fails: a flush is an append and a sync.
        let first = sink.flush();
        assert_eq!(first.is_err(), operation < 2);
        if first.is_err() {
            assert_eq!(sink.flush().unwrap(), Some(position(5)));
        }
        assert_eq!(disk.text(PATH), "1\n22\n");
    }
}

#[test]
fn a_file_that_somebody_has_is_refused_before_anything_is_taken_away() {
    let disk = Memory::default();
    disk.put(PATH, b"1\n2\n");
    let mut first = sink(&disk);
    first.recover(&[position(4)]).unwrap();
    let mut second = sink(&disk);
    let error = second.recover(&[position(0)]).unwrap_err().to_string();
    assert!(
        error.contains(PATH) && error.contains("in use by another process (7)"),
        "{error}"
    );
    assert_eq!(disk.text(PATH), "1\n2\n");
    drop(first);
    second.recover(&[position(2)]).unwrap();
    assert_eq!(disk.text(PATH), "1\n");
}

#[test]
fn what_somebody_else_wrote_or_cut_is_an_error_and_stays() {
    for (found, bytes, what) in [("9", "1\n22\nother", "wrote to it"), ("2", "1\n", "cut it")] {
        let disk = Memory::default();
        let mut sink = sink(&disk);
        sink.recover(&[]).unwrap();
        write(&mut sink, "1").unwrap();
        write(&mut sink, "22").unwrap();
        sink.flush().unwrap();
        let bytes = &bytes[..found.parse().unwrap()];
        disk.put(PATH, bytes.as_bytes());
        write(&mut sink, "3").unwrap();
        for _ in 0..2 {
            let error = sink.flush().unwrap_err().to_string();
            for word in [PATH, what, &format!("{found} bytes"), "5 bytes"] {
                assert!(error.contains(word), "{word}: {error}");
            }
            assert_eq!(disk.text(PATH), bytes);
        }
    }
}

#[test]
fn a_record_that_cannot_be_encoded_leaves_the_others_alone() {
    let disk = Memory::default();
    let mut sink = sink(&disk);
    sink.recover(&[]).unwrap();
    write(&mut sink, "1").unwrap();
    assert!(matches!(
        write(&mut sink, "one"),
        Err(SinkError::Encode { format: "json", .. })
    ));
    sink.flush().unwrap();
    assert_eq!(disk.text(PATH), "1\n");
}

#[test]
fn a_csv_file_begins_with_its_header_once() {
    let disk = Memory::default();
    let csv = EncoderOptions {
        format: Format::Csv,
        columns: vec!["a".into()],
        ..EncoderOptions::default()
    };
    let mut first = sink_with(&disk, csv.clone());
    first.recover(&[]).unwrap();
    write(&mut first, r#"{"a":1}"#).unwrap();
    let at = first.flush().unwrap();
    drop(first);
    let mut second = sink_with(&disk, csv);
    second.recover(&Vec::from_iter(at)).unwrap();
    write(&mut second, r#"{"a":2}"#).unwrap();
    second.flush().unwrap();
    assert_eq!(disk.text(PATH), "a\n1\n2\n");
}

#[test]
fn siblings_append_in_turns_under_one_header() {
    let disk = Memory::default();
    let csv = EncoderOptions {
        format: Format::Csv,
        columns: vec!["a".into()],
        ..EncoderOptions::default()
    };
    let mut first = sink_with(&disk, csv);
    let mut second = first.sibling();
    first.recover(&[]).unwrap();
    assert_eq!(first.flush().unwrap(), None);
    write(&mut first, r#"{"a":1}"#).unwrap();
    write(&mut second, r#"{"a":2}"#).unwrap();
    assert_eq!(second.flush().unwrap(), Some(position(4)));
    assert_eq!(first.flush().unwrap(), Some(position(6)));
    assert_eq!(disk.text(PATH), "a\n2\n1\n");
}

#[test]
fn a_flush_before_recovery_is_an_error() {
    let mut sink = sink(&Memory::default());
    write(&mut sink, "1").unwrap();
    assert!(sink.flush().is_err());
}

#[test]
fn private_attributes_stay_out_of_files_and_dead_letters() {
    let disk = Memory::default();
    let mut sink = sink_with(
        &disk,
        EncoderOptions {
            envelope: true,
            ..EncoderOptions::default()
        },
    );
    sink.recover(&[]).unwrap();
    write(&mut sink, "1").unwrap();
    let records = batch("2");
    let record = records.view().get(0).unwrap();
    let letter = DeadLetter {
        id: RecordId::default(),
        source: "tickets",
        input: None,
        stage: "redact",
        reason: "trap",
        component: None,
        backtrace: None,
        attempts: 1,
        key: record.key(),
        value: record.value(),
        length: 1,
        ..DeadLetter::default()
    };
    sink.write_dead(&letter).unwrap();
    sink.flush().unwrap();
    let text = disk.text(PATH);
    assert_eq!(text.lines().count(), 2);
    assert!(!text.contains("SECRET") && !text.contains("pii"), "{text}");
}

#[test]
fn a_file_that_the_last_run_did_not_write_is_not_cut() {
    let other = |length| SinkPosition {
        identity: "out/before.jsonl".into(),
        ..position(length)
    };
    // Killed: what is to be cut away lies in the other file.
    for (bytes, length) in [(&b"mine\n"[..], 2), (b"mine\n", 0), (b"", 2)] {
        let disk = Memory::default();
        disk.put(PATH, bytes);
        disk.put("out/before.jsonl", b"1\n2\n");
        let error = sink(&disk)
            .recover(&[other(length)])
            .unwrap_err()
            .to_string();
        for part in [PATH, "out/before.jsonl", "another state directory"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(disk.text(PATH).as_bytes(), bytes);
        assert_eq!(disk.text("out/before.jsonl"), "1\n2\n");
    }
    // Ended: the other one stays as it is, and this one must be new.
    let disk = Memory::default();
    disk.put(PATH, b"mine\n");
    let ended = SinkPosition {
        ended: true,
        ..other(2)
    };
    let error = sink(&disk).recover(std::slice::from_ref(&ended));
    let error = error.unwrap_err().to_string();
    for part in [PATH, "out/before.jsonl", "5 bytes", "new or empty file"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(disk.text(PATH), "mine\n");
    disk.put(PATH, b"");
    let mut changed = sink(&disk);
    changed.recover(&[ended]).unwrap();
    assert_eq!(changed.position(), Some(position(0)));
    drop(changed);
    // A run that wrote nothing yet left nothing behind.
    sink(&disk).recover(&[other(0)]).unwrap();
    // A log from before the file was part of it.
    disk.put(PATH, b"1\n2\n");
    let unnamed = SinkPosition {
        identity: String::new(),
        ..position(2)
    };
    let mut old = sink(&disk);
    old.recover(&[unnamed]).unwrap();
    assert_eq!(disk.text(PATH), "1\n");
    assert_eq!(old.position(), Some(position(2)));
}

#[test]
fn a_sink_that_comes_back_to_a_file_goes_on_where_it_left_it() {
    let before = SinkPosition {
        identity: "out/before.jsonl".into(),
        ..ended(3)
    };
    let known = [ended(4), before.clone()];
    let disk = Memory::default();
    disk.put(PATH, b"1\n2\n");
    disk.put("out/before.jsonl", b"33\n");
    let mut back = sink(&disk);
    back.recover(&known).unwrap();
    assert_eq!(back.position(), Some(position(4)));
    write(&mut back, "4").unwrap();
    assert_eq!(back.flush().unwrap(), Some(position(6)));
    assert_eq!(disk.text(PATH), "1\n2\n4\n");
    drop(back);
    // What others wrote to it meanwhile, or took away, is not cut and not gone past; one that is gone begins anew.
    for (bytes, whole) in [("1\n2\n9\n", true), ("1\n2\n9\n", false), ("1\n", true)] {
        let disk = Memory::default();
        disk.put(PATH, bytes.as_bytes());
        let known = [
            ended(4),
            SinkPosition {
                length: if whole { 3 } else { 0 },
                ended: whole,
                ..before.clone()
            },
        ];
        let mut back = sink(&disk);
        let error = back.recover(&known).unwrap_err().to_string();
        let found = format!("{} bytes and had 4 when the sink left it", bytes.len());
        for part in [PATH, "out/before.jsonl", &found, "another state directory"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(disk.text(PATH), bytes);
    }
    let mut anew = sink(&Memory::default());
    anew.recover(&known).unwrap();
    assert_eq!(anew.position(), Some(position(0)));
    // The file that it wrote last may have the rest of a crash.
    let disk = Memory::default();
    disk.put(PATH, b"1\n2\n9");
    sink(&disk).recover(&[before.clone(), position(4)]).unwrap();
    assert_eq!(disk.text(PATH), "1\n2\n");
    // So it is where the sink was taken out after that crash, and others have ended since.
    disk.put(PATH, b"1\n2\n9");
    let other = SinkPosition {
        sink: "others".into(),
        ..ended(3)
    };
    sink(&disk).recover(&[position(4), other]).unwrap();
    assert_eq!(disk.text(PATH), "1\n2\n");
    // Another sink's positions are none of its own.
    let others = SinkPosition {
        sink: "others".into(),
        ..before
    };
    disk.put(PATH, b"1\n2\n9");
    sink(&disk).recover(&[position(4), others]).unwrap();
    assert_eq!(disk.text(PATH), "1\n2\n");
}

#[test]
fn a_file_is_the_same_under_every_path_that_leads_to_it() {
    let named = |path: &str, length| SinkPosition {
        identity: path.into(),
        ..position(length)
    };
    // The path of an older log, which had no links in it; and that of a directory that was moved behind a link.
    for (link, target, known) in [
        (PATH, "/disk/answers.jsonl", "/disk/answers.jsonl"),
        ("old/answers.jsonl", PATH, "old/answers.jsonl"),
    ] {
        let disk = Memory::default();
        disk.link(link, target);
        disk.put(PATH, b"1\n2\n3");
        let mut same = sink(&disk);
        same.recover(&[named(known, 4)]).unwrap();
        assert_eq!(disk.text(PATH), "1\n2\n");
        assert_eq!(same.position(), Some(position(4)));
    }
    // A link that leads to another disk now: the path is the same.
    let disk = Memory::default();
    disk.link(PATH, "/disk-2/answers.jsonl");
    disk.put(PATH, b"1\n2\n");
    sink(&disk).recover(&[ended(4)]).unwrap();
    // Of several paths of one file the latest has its length.
    let disk = Memory::default();
    disk.link("old/answers.jsonl", PATH);
    disk.put(PATH, b"1\n2\n");
    let known = [
        position(2),
        named("old/answers.jsonl", 4),
        named("other", 3),
    ];
    let known = known.map(|known| SinkPosition {
        ended: true,
        ..known
    });
    sink(&disk).recover(&known).unwrap();
}
