use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use tidegate_codec::{DecoderOptions, Format};
use tidegate_connect::file::{FileSource, FileSourceOptions};
use tidegate_contract::{Partition, Source, SourceError, SourceEvent, Unread};

use crate::{Read, WAIT, read_to_end};

fn format(format: Format) -> DecoderOptions {
    DecoderOptions {
        format,
        ..DecoderOptions::default()
    }
}

fn options(paths: &[PathBuf], decoder: DecoderOptions) -> FileSourceOptions {
    FileSourceOptions {
        source: 3,
        paths: paths.to_vec(),
        partitions: None,
        decoder,
        follow: false,
    }
}

struct Input {
    _directory: TempDir,
    path: PathBuf,
}

fn input(bytes: &[u8]) -> Input {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("input");
    fs::write(&path, bytes).unwrap();
    Input {
        _directory: directory,
        path,
    }
}

fn open(input: &Input, decoder: DecoderOptions) -> FileSource {
    FileSource::open(options(std::slice::from_ref(&input.path), decoder)).unwrap()
}

fn read(bytes: &[u8], decoder: DecoderOptions) -> Read {
    read_to_end(&mut open(&input(bytes), decoder), 1000, 1 << 20).unwrap()
}

fn partition(number: u32) -> Partition {
    Partition { source: 3, number }
}

#[test]
fn offsets_are_the_bytes_at_which_lines_begin() {
    let read = read(b"one\r\ntwo\nthree", format(Format::Raw));
    let seen = |offset, value: &str| (0, (offset, None, value.to_owned()));
    assert_eq!(
        read.records,
        [seen(0, "one"), seen(5, "two"), seen(9, "three")]
    );
    assert_eq!((read.nexts, read.ends), (vec![(0, 14)], vec![partition(0)]));
}

#[test]
fn malformed_lines_are_rejected_with_their_reasons() {
    let decoder = DecoderOptions {
        required: vec!["id".into()],
        max_record: 40,
        ..DecoderOptions::default()
    };
    let mut bytes = b"{\"id\":1}\n\nhello\n{\"id\":\"\xff\"}\n{}\n{\"id\":2,\"text\":\"".to_vec();
    bytes.extend_from_slice(&[b'a'; 100]);
    bytes.extend_from_slice(b"\"}\n{\"id\":3}\n");
    let read = read(&bytes, decoder);
    assert_eq!(read.values(), ["{\"id\":1}", "{\"id\":3}"]);
    // The blank line is none of them.
    let expected = [
        "not JSON: expected a value at column 1, found `h`",
        "not UTF-8: byte 0xff at 7",
        "field id is missing",
        "line of 118 bytes exceeds max-record 40 bytes",
    ];
    assert_eq!(read.reasons(), expected);
    let offsets: Vec<u64> = read.rejected.iter().map(|(_, offset, _)| *offset).collect();
    assert_eq!(offsets, [10, 16, 27, 30]);
}

#[test]
fn blank_lines_are_neither_records_nor_rejections_where_lines_have_a_form() {
    let json = read(b"\n1\n \t\r\n\r\n2\n\n\n", format(Format::Json));
    assert_eq!((json.values(), json.reasons()), (vec!["1", "2"], vec![]));
    let csv = read(
        b"\xef\xbb\xbf\r\n\na,b\n1,2\n\r\n3,4\n\n",
        format(Format::Csv),
    );
    let rows = vec![r#"{"a":"1","b":"2"}"#, r#"{"a":"3","b":"4"}"#];
    assert_eq!((csv.values(), csv.reasons()), (rows, vec![]));
    // A row of spaces is a row, and a raw line is its bytes, be they none.
    let row = read(b"a\n \n", format(Format::Csv));
    assert_eq!(row.values(), [r#"{"a":" "}"#]);
    let raw = read(b"1\n\n \n", format(Format::Raw));
    assert_eq!((raw.values(), raw.reasons()), (vec!["1", "", " "], vec![]));
    for (text, values) in [
        (&b""[..], vec![]),
        (b"\n", vec![""]),
        (b"1\n\n", vec!["1", ""]),
    ] {
        let raw = read(text, format(Format::Raw));
        assert_eq!((raw.values(), raw.reasons()), (values, vec![]));
    }
    let many = [vec![b'\n'; 20 << 20], b"7".to_vec()].concat();
    assert_eq!(read(&many, format(Format::Json)).values(), ["7"]);
}

#[test]
fn a_last_line_without_line_end_is_read_however_many_reads_it_takes() {
    let decoder = DecoderOptions {
        format: Format::Raw,
        max_record: 32 << 20,
        ..DecoderOptions::default()
    };
    // A poll ends after 64 reads of 256 KiB.
    for reads in 62..=65 {
        let line = vec![b'x'; reads * (256 << 10)];
        let read = read(&line, decoder.clone());
        let lengths: Vec<usize> = read.values().iter().map(|value| value.len()).collect();
        assert_eq!(lengths, [line.len()], "{reads} reads");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    assert_eq!(
        read(b"\xef\xbb\xbf{\"a\":1}\n", format(Format::Json)).values(),
        ["{\"a\":1}"]
    );
    assert_eq!(
        read(b"\xef\xbb\xbfa\n1\n", format(Format::Csv)).values(),
        ["{\"a\":\"1\"}"]
    );
}

#[test]
fn csv_is_read_under_its_header_from_any_row() {
    let bytes = b"id,text\r\n1,\"a\nb\"\r\n2,c\r\n3,\"open\n4,d\n";
    let all = read(bytes, format(Format::Csv));
    let rows = [
        r#"{"id":"1","text":"a\nb"}"#,
        r#"{"id":"2","text":"c"}"#,
        r#"{"id":"4","text":"d"}"#,
    ];
    assert_eq!(all.values(), rows);
    assert_eq!(
        all.reasons(),
        ["quoted field is not closed within max-record 1 MiB or the end of the input"]
    );
    let input = input(bytes);
    for (index, (_, (offset, _, _))) in all.records.iter().enumerate() {
        let mut source = open(&input, format(Format::Csv));
        source.poll(1, 1, WAIT).unwrap();
        source.seek(partition(0), *offset).unwrap();
        assert_eq!(read_on(&mut source).values(), rows[index..]);
    }
    let mut source = open(&input, format(Format::Csv));
    source.poll(1, 1, WAIT).unwrap();
    source.seek(partition(0), 0).unwrap();
    assert_eq!(read_on(&mut source).values(), rows);
}

/// Reads a source of one partition whose assignment was told before.
fn read_on(source: &mut FileSource) -> Read {
    let mut read = Read::default();
    while read.ends.is_empty() {
        match source.poll(1000, 1 << 20, WAIT).unwrap() {
            SourceEvent::Idle => {}
            event => read.take(event),
        }
    }
    read
}

#[test]
fn an_empty_file_ends_at_once_in_every_format() {
    for name in [Format::Json, Format::Csv, Format::Raw] {
        let read = read(b"", format(name));
        assert_eq!((read.records.len(), read.ends), (0, vec![partition(0)]));
    }
}

#[test]
fn a_line_of_50_mib_is_skipped_in_flat_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"{\"a\":\"").unwrap();
    for _ in 0..800 {
        file.write_all(&[b'x'; 64 << 10]).unwrap();
    }
    file.write_all(b"\"}\n{\"b\":1}\n").unwrap();
    drop(file);
    let before = resident();
    let mut source = FileSource::open(options(&[path], format(Format::Json))).unwrap();
    let read = read_to_end(&mut source, 1000, 1 << 20).unwrap();
    let grown = resident().saturating_sub(before);
    assert_eq!(
        read.reasons(),
        ["line of 52428808 bytes exceeds max-record 1 MiB"]
    );
    assert_eq!(read.values(), ["{\"b\":1}"]);
    // Other tests run beside this one, so this is no exact figure; the line alone would be 50 MiB.
    assert!(grown < 30 << 20, "{grown} bytes more are resident");
}

/// Bytes of this process in memory; 0 where /proc is missing.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status
        .split(' ')
        .nth(1)
        .map_or(0, |pages| pages.parse::<usize>().unwrap() * 4096)
}

#[test]
fn files_take_turns_and_workers_share_them() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b", "c"]
        .iter()
        .map(|name| directory.path().join(name))
        .collect();
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        fs::write(path, format!("{name}1\n{name}2\n")).unwrap();
    }
    let mut source = FileSource::open(options(&paths, format(Format::Raw))).unwrap();
    let read = read_to_end(&mut source, 1, 1 << 20).unwrap();
    assert_eq!(read.values(), ["a1", "b1", "c1", "a2", "b2", "c2"]);
    let mine = FileSourceOptions {
        partitions: Some(vec![1]),
        ..options(&paths, format(Format::Raw))
    };
    let mut source = FileSource::open(mine).unwrap();
    assert_eq!(
        source.identities(),
        [(partition(1), paths[1].display().to_string())]
    );
    let read = read_to_end(&mut source, 10, 1 << 20).unwrap();
    assert_eq!(read.values(), ["b1", "b2"]);
    assert_eq!(read.ends, [partition(1)]);
}

#[test]
fn a_paused_file_gives_nothing_until_it_is_resumed() {
    let input = input(b"one\n");
    let mut source = open(&input, format(Format::Raw));
    source.poll(1, 1, WAIT).unwrap();
    source.pause(partition(0)).unwrap();
    assert!(matches!(
        source.poll(1, 1, WAIT).unwrap(),
        SourceEvent::Idle
    ));
    source.resume(partition(0)).unwrap();
    assert_eq!(read_on(&mut source).values(), ["one"]);
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new()
        .append(true)
        .open(path)
        .unwrap()
        .write_all(bytes)
        .unwrap();
}

#[test]
fn a_followed_file_gives_lines_as_they_are_finished() {
    let input = input(b"one\ntw");
    let followed = FileSourceOptions {
        follow: true,
        ..options(std::slice::from_ref(&input.path), format(Format::Raw))
    };
    let mut source = FileSource::open(followed).unwrap();
    source.poll(1, 1, WAIT).unwrap();
    let mut read = Read::default();
    read.take(source.poll(10, 1 << 20, WAIT).unwrap());
    assert!(matches!(
        source.poll(10, 1 << 20, WAIT).unwrap(),
        SourceEvent::Idle
    ));
    append(&input.path, b"o\nthree\n");
    read.take(source.poll(10, 1 << 20, WAIT).unwrap());
    assert_eq!(read.values(), ["one", "two", "three"]);
    assert_eq!(read.nexts, [(0, 4), (0, 14)]);
    fs::write(&input.path, b"x").unwrap();
    let error = source.poll(10, 1 << 20, WAIT).unwrap_err();
    assert!(
        matches!(error, SourceError::Position { position: 14, .. }),
        "{error}"
    );
}

#[test]
fn what_lies_unread_is_counted_in_bytes_also_after_all_was_read() {
    let input = input(b"one\n");
    let followed = FileSourceOptions {
        follow: true,
        ..options(std::slice::from_ref(&input.path), format(Format::Raw))
    };
    let mut source = FileSource::open(followed).unwrap();
    let unread = |source: &mut FileSource| {
        let lags = source.lag().into_iter();
        lags.map(|lag| lag.unread).collect::<Vec<_>>()
    };
    source.poll(1, 1, WAIT).unwrap();
    assert_eq!(unread(&mut source), [Unread::Bytes(4)]);
    source.poll(10, 1 << 20, WAIT).unwrap();
    assert_eq!(unread(&mut source), [Unread::Bytes(0)]);
    append(&input.path, b"two\nthree\n");
    assert_eq!(unread(&mut source), [Unread::Bytes(10)]);
}

#[test]
fn a_position_that_no_longer_fits_is_an_error() {
    let input = input(b"one\ntwo");
    let mut source = open(&input, format(Format::Raw));
    source.poll(1, 1, WAIT).unwrap();
    for position in [2, 8] {
        let error = source.seek(partition(0), position).unwrap_err();
        assert!(matches!(error, SourceError::Position { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("; put back the file that was read, or begin anew"),
            "{error}"
        );
    }
    source.seek(partition(0), 7).unwrap();
    assert!(read_on(&mut source).records.is_empty());
    append(&input.path, b"three\n");
    let error = source.seek(partition(0), 7).unwrap_err().to_string();
    assert!(error.contains("no line begins there"), "{error}");
}

#[test]
fn what_cannot_be_opened_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    for path in [missing.as_path(), directory.path()] {
        let error = FileSource::open(options(&[path.to_owned()], format(Format::Raw)))
            .unwrap_err()
            .to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn reading_on_from_any_next_gives_the_rest(
        lines in proptest::collection::vec("[a-z]{0,12}\r?\n", 0..30),
        last in "[a-z]{0,5}",
        records in 1usize..8,
        bytes in 1usize..2000,
    ) {
        let text = lines.concat() + &last;
        let input = input(text.as_bytes());
        let all = read_to_end(&mut open(&input, format(Format::Raw)), records, bytes).unwrap();
        prop_assert_eq!(all.records.len() + all.rejected.len(), lines.len() + usize::from(!last.is_empty()));
        for (_, next) in &all.nexts {
            let mut source = open(&input, format(Format::Raw));
            source.poll(1, 1, WAIT).unwrap();
            source.seek(partition(0), *next).unwrap();
            let rest = read_on(&mut source);
            let expected: Vec<_> = all.records.iter().filter(|(_, (offset, _, _))| offset >= next).cloned().collect();
            prop_assert_eq!(rest.records, expected);
        }
    }

    #[test]
    fn a_batch_stays_within_its_bounds(
        lines in proptest::collection::vec("[a-z]{1,50}\n", 1..60),
        records in 1usize..20,
        bytes in 1usize..1500,
    ) {
        let input = input(lines.concat().as_bytes());
        let mut source = open(&input, format(Format::Raw));
        loop {
            match source.poll(records, bytes, WAIT).unwrap() {
                SourceEvent::Records { batch, .. } => {
                    prop_assert!(batch.len() <= records);
                    prop_assert!(batch.len() == 1 || batch.as_bytes().len() <= bytes + 8);
                }
                SourceEvent::End(_) => break,
                _ => {}
            }
        }
    }
}
