use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, mpsc};

use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions, Format};
use tidegate_connect::standard::{StandardSink, StandardSource};
use tidegate_contract::{HostHeaders, Partition, Sink, Source, SourceEvent};
use tidegate_record::{BatchBuilder, NewRecord};

use crate::{WAIT, read_to_end};

fn raw() -> DecoderOptions {
    DecoderOptions {
        format: Format::Raw,
        ..DecoderOptions::default()
    }
}

/// A stream that gives what it is sent, and ends when the sender goes.
struct Pipe(mpsc::Receiver<Vec<u8>>);

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Ok(bytes) = self.0.recv() else {
            return Ok(0);
        };
        if bytes == b"break" {
            return Err(io::Error::other("the cable is cut"));
        }
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

#[test]
fn lines_come_as_they_are_finished() {
    let (sender, receiver) = mpsc::channel();
    let mut source = StandardSource::new(0, raw(), Pipe(receiver)).unwrap();
    assert!(
        matches!(source.poll(9, 99, WAIT).unwrap(), SourceEvent::Assigned(partitions) if partitions.len() == 1)
    );
    assert!(matches!(
        source.poll(9, 99, WAIT).unwrap(),
        SourceEvent::Idle
    ));
    sender.send(b"one\ntw".to_vec()).unwrap();
    let long = std::time::Duration::from_secs(60);
    let SourceEvent::Records { batch, next, .. } = source.poll(9, 999, long).unwrap() else {
        panic!()
    };
    assert_eq!((batch.len(), next), (1, 4));
    sender.send(b"o".to_vec()).unwrap();
    drop(sender);
    let SourceEvent::Records { batch, next, .. } = source.poll(9, 999, long).unwrap() else {
        panic!()
    };
    assert_eq!(
        (batch.view().get(0).unwrap().value(), next),
        (Some(&b"two"[..]), 7)
    );
    assert!(matches!(
        source.poll(9, 99, WAIT).unwrap(),
        SourceEvent::End(_)
    ));
    assert!(matches!(
        source.poll(9, 99, WAIT).unwrap(),
        SourceEvent::Idle
    ));
}

#[test]
fn large_input_and_csv_come_through() {
    let mut text = "id,n\n".to_owned();
    for n in 0..200_000 {
        text.push_str(&format!("{n},\"x\ny\"\n"));
    }
    let csv = DecoderOptions {
        format: Format::Csv,
        key: Some("id".into()),
        ..DecoderOptions::default()
    };
    let mut source = StandardSource::new(0, csv, io::Cursor::new(text)).unwrap();
    let read = read_to_end(&mut source, 5000, 1 << 20).unwrap();
    assert_eq!((read.records.len(), read.rejected.len()), (200_000, 0));
    assert_eq!(read.records[199_999].1.1.as_deref(), Some("199999"));
}

#[test]
fn what_went_by_cannot_be_read_again() {
    let mut source = StandardSource::new(0, raw(), io::Cursor::new("one\n")).unwrap();
    let partition = Partition {
        source: 0,
        number: 0,
    };
    source.seek(partition, 0).unwrap();
    assert!(
        source
            .seek(partition, 4)
            .unwrap_err()
            .to_string()
            .contains("cannot be read again")
    );
}

#[test]
fn a_broken_input_is_an_error_with_its_place() {
    let (sender, receiver) = mpsc::channel();
    let mut source = StandardSource::new(0, raw(), Pipe(receiver)).unwrap();
    sender.send(b"break".to_vec()).unwrap();
    let error = read_to_end(&mut source, 9, 99).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot read standard input at byte 0: the cable is cut"
    );
}

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Gone;

impl Write for Gone {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_one(sink: &mut StandardSink) {
    let mut builder = BatchBuilder::default();
    let record = NewRecord {
        value: Some(b"{\"a\":1}"),
        attributes: &[("pii", Some(b"SECRET"))],
        ..NewRecord::default()
    };
    builder.push(&record).unwrap();
    let batch = builder.finish(0);
    sink.write(
        batch.view().get(0).unwrap().public(),
        HostHeaders::default(),
    )
    .unwrap();
}

#[test]
fn output_goes_out_at_a_flush_without_private_attributes() {
    let output = Output::default();
    let options = EncoderOptions {
        envelope: true,
        ..EncoderOptions::default()
    };
    let mut sink = StandardSink::new(Encoder::new(options).unwrap(), output.clone());
    write_one(&mut sink);
    assert!(output.0.lock().unwrap().is_empty() && sink.pending() > 0);
    assert_eq!(sink.flush().unwrap(), None);
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains("\"value\":{\"a\":1}") && !text.contains("SECRET") && !text.contains("pii"),
        "{text}"
    );
}

#[test]
fn a_reader_that_has_gone_is_named() {
    let mut sink = StandardSink::new(Encoder::new(EncoderOptions::default()).unwrap(), Gone);
    write_one(&mut sink);
    let error = sink.flush().unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot write standard output: its reader has gone (broken pipe)"
    );
}

#[test]
fn siblings_write_one_header_and_whoever_is_first_writes_it() {
    let output = Output::default();
    let options = EncoderOptions {
        format: Format::Csv,
        columns: vec!["a".into()],
        ..EncoderOptions::default()
    };
    let mut first = StandardSink::new(Encoder::new(options).unwrap(), output.clone());
    let (mut second, third) = (first.sibling(), first.sibling());
    assert!(first.pending() > 0 && third.pending() == 0);
    write_one(&mut second);
    second.flush().unwrap();
    assert_eq!(first.pending(), 0);
    write_one(&mut first);
    first.flush().unwrap();
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text, "a\n1\n1\n");
}
