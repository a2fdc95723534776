//! What reading, decoding, encoding and writing cost for records of 200 bytes, on one core.
//!
//! Elements are records. The file is in the page cache; what the disk adds is the disk's.

#![allow(clippy::expect_used, missing_docs)]

use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions, Format};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{AppendFile, FileLayer, HostHeaders, Sink, Source, SourceEvent};
use tidegate_record::Batch;

const RECORDS: usize = 200_000;

/// A line of 200 bytes: 8 fields, a little nesting, a long text.
fn line(n: usize) -> String {
    let head = format!(
        "{{\"id\":\"{n:07}\",\"customer\":\"c{:05}\",\"at\":\"2026-11-21T08:{:02}:{:02}Z\",\"score\":0.{:03},\"open\":true,\"meta\":{{\"lang\":\"en\",\"tries\":2}},\"text\":\"",
        n % 50_000,
        n / 60 % 60,
        n % 60,
        n % 1000
    );
    let filler = "the card was charged twice and nobody answers my mails at all ";
    let text: String = filler.chars().cycle().take(200 - head.len() - 2).collect();
    format!("{head}{text}\"}}")
}

fn input(directory: &Path) -> PathBuf {
    let path = directory.join("input.jsonl");
    let text: String = (0..RECORDS).map(|n| line(n) + "\n").collect();
    std::fs::write(&path, text).expect("the input can be written");
    path
}

fn open(path: &Path, decoder: DecoderOptions) -> FileSource {
    FileSource::open(FileSourceOptions {
        source: 0,
        paths: vec![path.to_owned()],
        partitions: None,
        decoder,
        follow: false,
    })
    .expect("the input can be opened")
}

fn read(source: &mut FileSource, mut each: impl FnMut(Batch)) {
    loop {
        match source
            .poll(4096, 1 << 20, Duration::ZERO)
            .expect("the input can be read")
        {
            SourceEvent::Records {
                batch, rejected, ..
            } => {
                assert!(rejected.is_empty());
                each(batch);
            }
            SourceEvent::End(_) => return,
            _ => {}
        }
    }
}

/// A disk that takes everything and keeps nothing.
#[derive(Debug)]
struct Nowhere(u64);

impl AppendFile for Nowhere {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0 += black_box(bytes).len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0)
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0 = length;
        Ok(())
    }
}

impl FileLayer for Nowhere {
    fn open_append(&self, _path: &Path) -> io::Result<Box<dyn AppendFile>> {
        Ok(Box::new(Nowhere(0)))
    }

    fn length(&self, _path: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn read(&self, _path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn replace(&self, _path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>> {
        Ok(Box::new(Nowhere(bytes.len() as u64)))
    }
}

fn benches(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("there is a directory for temporary files");
    let path = input(directory.path());
    let mut group = criterion.benchmark_group("file, 200 B records");
    group
        .throughput(Throughput::Elements(RECORDS as u64))
        .sample_size(20);
    let raw = DecoderOptions {
        format: Format::Raw,
        ..DecoderOptions::default()
    };
    let json = DecoderOptions::default();
    let keyed = DecoderOptions {
        key: Some("customer".into()),
        event_time: Some("at".into()),
        required: vec!["meta.lang".into()],
        ..DecoderOptions::default()
    };
    for (name, options) in [
        ("raw", raw),
        ("json", json.clone()),
        ("json, key, time, required", keyed),
    ] {
        group.bench_function(format!("read {name}"), |bencher| {
            bencher.iter_batched_ref(
                || open(&path, options.clone()),
                |source| read(source, |batch| drop(black_box(batch))),
                BatchSize::PerIteration,
            );
        });
    }
    let mut batches = Vec::new();
    read(&mut open(&path, json.clone()), |batch| batches.push(batch));
    for (name, format, envelope) in [
        ("raw", Format::Raw, false),
        ("json", Format::Json, false),
        ("json in an envelope", Format::Json, true),
    ] {
        let options = EncoderOptions {
            format,
            envelope,
            ..EncoderOptions::default()
        };
        let encoder = Encoder::new(options).expect("these options fit");
        let mut sink = FileSink::new("bench", "nowhere", Arc::new(Nowhere(0)), encoder);
        sink.recover(&[]).expect("nothing is there");
        group.bench_function(format!("write {name}"), |bencher| {
            bencher.iter(|| {
                for batch in &batches {
                    for record in batch.view().records() {
                        sink.write(record.public(), HostHeaders::default())
                            .expect("the records are JSON");
                    }
                    sink.flush().expect("nowhere is never full");
                }
            });
        });
    }
    let encoder = Encoder::new(EncoderOptions::default()).expect("these options fit");
    let mut sink = FileSink::new("bench", "nowhere", Arc::new(Nowhere(0)), encoder);
    sink.recover(&[]).expect("nothing is there");
    group.bench_function("read json and write json", |bencher| {
        bencher.iter_batched_ref(
            || open(&path, json.clone()),
            |source| {
                read(source, |batch| {
                    for record in batch.view().records() {
                        sink.write(record.public(), HostHeaders::default())
                            .expect("the records are JSON");
                    }
                    sink.flush().expect("nowhere is never full");
                });
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(connect, benches);
criterion_main!(connect);
