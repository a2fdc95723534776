//! Sources and sinks onto workers.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions, OptionError};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_connect::kafka::{KafkaCommitter, KafkaSink, KafkaSource};
use tidegate_connect::standard::{StandardSink, StandardSource};
use tidegate_contract::{AuditLog, CommitLog, FileLayer, Recovered, Sink, Source};
use tidegate_control::config::{Decoding, Encoding, Format, Pipeline, SinkKind, SourceKind};
use tidegate_flow::WorkerParts;
use tidegate_state::StateDirectory;
use tidegate_state::audit::AuditFile;

use super::again::Again;
use super::committers::Committers;
use super::gateway::{Gateway, Idle};
use super::kafka;
use super::letters;
use crate::commands::run::Until;
use crate::exit::Failure;

/// How many workers a pipeline has: those asked for, else one for each core, never more than partitions that they can
/// share; one if it reads standard input, and one for a topic unless more are asked for.
fn workers(pipeline: &Pipeline) -> usize {
    let mut partitions = 0;
    for source in &pipeline.sources {
        match &source.kind {
            SourceKind::Stdin => return 1,
            SourceKind::Kafka(_) => partitions += pipeline.workers.unwrap_or(1),
            kind => partitions += of_one_worker(kind),
        }
    }
    pipeline.workers_for(partitions)
}

/// The partitions of a source that one worker each reads; a group shares those of a topic by itself.
fn of_one_worker(kind: &SourceKind) -> usize {
    match kind {
        SourceKind::File { paths } => paths.len(),
        SourceKind::Stdin | SourceKind::Gateway(_) | SourceKind::Ingest(_) => 1,
        SourceKind::Kafka(_) => 0,
    }
}

/// Whether a worker reads a partition of a source: all partitions go round, whatever source they are of, so that none of
/// the workers is left out and a slow source has as few beside it as can be.
fn reads(
    pipeline: &Pipeline,
    source: usize,
    partition: usize,
    (worker, workers): (usize, usize),
) -> bool {
    let before = pipeline.sources.iter().take(source);
    let before: usize = before.map(|source| of_one_worker(&source.kind)).sum();
    (before + partition) % workers == worker
}

/// What workers are made of beside the pipeline.
pub(crate) struct Ground<'a> {
    pub(crate) recovered: &'a Recovered,
    pub(crate) layer: &'a Arc<dyn FileLayer>,
    pub(crate) log: &'a Arc<dyn CommitLog>,
    pub(crate) state: &'a StateDirectory,
    pub(crate) gateway: Option<&'a Gateway>,
    pub(crate) again: &'a [Again],
    pub(crate) audit: Option<&'a AuditFile>,
}

/// The parts of every worker. Sinks are recovered: what lies after the last cut is gone.
pub(crate) fn worker_parts(
    pipeline: &Pipeline,
    until: Until,
    ground: &Ground<'_>,
) -> Result<Vec<WorkerParts>, Failure> {
    let count = workers(pipeline);
    let names: Vec<String> = pipeline
        .sources
        .iter()
        .map(|source| source.name.clone())
        .chain(ground.again.iter().map(|letters| letters.name.clone()))
        .collect();
    let mut committers = Committers::open(pipeline, ground, count)?;
    let opening = Opening {
        pipeline: &pipeline.name,
        sources: &names,
        workers: count,
        recovered: ground.recovered,
        layer: ground.layer,
        gateway: ground.gateway,
    };
    let mut sinks = Vec::new();
    for sink in &pipeline.sinks {
        let options = encoder_options(&sink.encoding);
        sinks.push(opening.sinks(&sink.name, &sink.kind, options, &mut committers)?);
    }
    let mut dead = opening.sinks(
        "dead-letters",
        &pipeline.dead_letters,
        EncoderOptions::default(),
        &mut committers,
    )?;
    let mut parts = Vec::new();
    let audit = ground.audit;
    let seal = letters::seal(ground.state);
    for worker in (0..count).rev() {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for index in 0..pipeline.sources.len() {
            let committer = committers.of(worker);
            sources.push(open_source(
                (pipeline, ground.gateway),
                index,
                until,
                (worker, count),
                committer,
            )?);
        }
        for (index, letters) in ground.again.iter().enumerate() {
            sources.push(match worker {
                0 => letters.source((pipeline, &seal), index, until, committers.of(worker))?,
                _ => Box::new(Idle::new()),
            });
        }
        let sinks = sinks.iter_mut().filter_map(Vec::pop).collect();
        let (Some(dead), Some(committer)) = (dead.pop(), committers.take_last()) else {
            continue;
        };
        parts.push(WorkerParts {
            sources,
            sinks,
            dead,
            seal: Some(seal.clone()),
            audit: audit.map(|audit| {
                Box::new(match worker {
                    0 => audit.doorkeeper(),
                    _ => audit.other(),
                }) as Box<dyn AuditLog>
            }),
            committer,
        });
    }
    parts.reverse();
    Ok(parts)
}

/// Opens a source; one that a group reads is followed by the worker's transactions.
fn open_source(
    (pipeline, gateway): (&Pipeline, Option<&Gateway>),
    index: usize,
    until: Until,
    (worker, workers): (usize, usize),
    committer: Option<&mut KafkaCommitter>,
) -> Result<Box<dyn Source>, Failure> {
    let source = &pipeline.sources[index];
    let decoder = decoder(&source.decoding);
    let number = index as u16;
    Ok(match &source.kind {
        SourceKind::File { paths } => {
            let mine = (0..paths.len() as u32)
                .filter(|k| reads(pipeline, index, *k as usize, (worker, workers)));
            Box::new(FileSource::open(FileSourceOptions {
                source: number,
                paths: paths.clone(),
                partitions: Some(mine.collect()),
                decoder,
                follow: until == Until::Forever,
            })?)
        }
        SourceKind::Stdin => Box::new(StandardSource::stdin(number, decoder)?),
        SourceKind::Kafka(topic) => {
            let instance = topic.instance.as_ref();
            let instance = instance.map(|instance| format!("{instance}-{worker}"));
            let mut options = kafka::source_options(number, topic, instance);
            options.decoder = decoder;
            options.until_end = until == Until::Now;
            let opened = KafkaSource::open(options)?;
            if let Some(committer) = committer {
                committer.follow(&source.name, &opened)?;
            }
            Box::new(opened)
        }
        SourceKind::Gateway(_) | SourceKind::Ingest(_) => {
            let gateway = gateway.with_context(|| closed("source", &source.name))?;
            match reads(pipeline, index, 0, (worker, workers)) {
                true => gateway.source(pipeline, index),
                false => Box::new(Idle::new()),
            }
        }
    })
}

pub(crate) fn decoder(decoding: &Decoding) -> DecoderOptions {
    DecoderOptions {
        format: format(decoding.format),
        key: decoding.key.clone(),
        event_time: decoding.event_time.clone(),
        required: decoding.required.clone(),
        max_record: decoding.max_record,
        delimiter: decoding.delimiter,
    }
}

fn format(format: Format) -> tidegate_codec::Format {
    match format {
        Format::Json => tidegate_codec::Format::Json,
        Format::Csv => tidegate_codec::Format::Csv,
        Format::Raw => tidegate_codec::Format::Raw,
    }
}

fn encoder_options(encoding: &Encoding) -> EncoderOptions {
    EncoderOptions {
        format: format(encoding.format),
        envelope: encoding.envelope,
        columns: encoding.columns.clone(),
        delimiter: encoding.delimiter,
        ..EncoderOptions::default()
    }
}

/// How a sink of lines writes records of these sources.
pub(crate) fn encoder(encoding: &Encoding, sources: Vec<String>) -> Result<Encoder, OptionError> {
    Encoder::new(EncoderOptions {
        sources,
        ..encoder_options(encoding)
    })
}

/// Whether standard output was sent into this file.
#[cfg(unix)]
fn is_stdout(path: &Path) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    let stdout = stdout.and_then(|stdout| std::fs::File::from(stdout).metadata());
    match (stdout, std::fs::metadata(path)) {
        (Ok(stdout), Ok(file)) => stdout.dev() == file.dev() && stdout.ino() == file.ino(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_stdout(_path: &Path) -> bool {
    false
}

/// What all sinks are opened with.
struct Opening<'a> {
    pipeline: &'a str,
    sources: &'a [String],
    workers: usize,
    recovered: &'a Recovered,
    layer: &'a Arc<dyn FileLayer>,
    gateway: Option<&'a Gateway>,
}

/// What a pipeline without [gateway] cannot have: its reading refuses it.
fn closed(kind: &str, name: &str) -> String {
    format!("{kind} {name}: no gateway is open")
}

impl Opening<'_> {
    /// A sink for each worker.
    fn sinks(
        &self,
        name: &str,
        kind: &SinkKind,
        options: EncoderOptions,
        committers: &mut Committers,
    ) -> Result<Vec<Box<dyn Sink>>, Failure> {
        let encoder = Encoder::new(EncoderOptions {
            sources: self.sources.to_vec(),
            ..options
        })?;
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        match kind {
            SinkKind::File { path } => {
                if is_stdout(path) {
                    return Err(Failure::usage(format_args!(
                        "sink {name}: {} is where standard output goes; give each a file of its own",
                        path.display()
                    )));
                }
                let mut first = FileSink::new(name, path, self.layer.clone(), encoder);
                first.recover(&self.recovered.sinks)?;
                let siblings: Vec<FileSink> = (1..self.workers).map(|_| first.sibling()).collect();
                sinks.push(Box::new(first));
                sinks.extend(
                    siblings
                        .into_iter()
                        .map(|sink| Box::new(sink) as Box<dyn Sink>),
                );
            }
            SinkKind::Stdout => {
                let first = StandardSink::stdout(encoder);
                for _ in 1..self.workers {
                    sinks.push(Box::new(first.sibling()));
                }
                sinks.push(Box::new(first));
            }
            SinkKind::Kafka(topic) => {
                for worker in 0..self.workers {
                    let options = kafka::sink_options(self.pipeline, topic);
                    sinks.push(match committers.of_cluster(worker, kind) {
                        Some(committer) => committer.sink(options, name)?,
                        None => Box::new(KafkaSink::open(options)?),
                    });
                }
            }
            SinkKind::Gateway { .. } | SinkKind::Output { .. } => {
                let gateway = self.gateway.with_context(|| closed("sink", name))?;
                for _ in 0..self.workers {
                    sinks.push(match kind {
                        SinkKind::Output { .. } => gateway
                            .output(name, encoder.clone())
                            .with_context(|| closed("sink", name))?,
                        _ => gateway.reply(),
                    });
                }
            }
        }
        Ok(sinks)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::config;

    use super::*;

    #[test]
    fn partitions_of_all_sources_go_round_the_workers_and_leave_none_out() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.jsonl", "b.jsonl", "c.jsonl"] {
            std::fs::write(directory.path().join(name), "{}\n").unwrap();
        }
        let path = directory.path().join("pipeline.toml");
        let file = r#"
[pipeline]
name = "shared"
workers = 9
[gateway]
[source.one]
type = "file"
paths = ["a.jsonl"]
[source.two]
type = "file"
paths = ["b.jsonl", "c.jsonl"]
[source.events]
type = "ingest"
[source.notes]
type = "ingest"
[sink.out]
type = "file"
path = "out.jsonl"
"#;
        std::fs::write(&path, file).unwrap();
        let pipeline = config::load(&path).unwrap();
        let all = [(0, 0), (1, 0), (1, 1), (2, 0), (3, 0)];
        assert_eq!(workers(&pipeline), all.len());
        for count in 1..=all.len() {
            let mut most = 0;
            for worker in 0..count {
                let mine = all.iter().filter(|(source, partition)| {
                    reads(&pipeline, *source, *partition, (worker, count))
                });
                let mine = mine.count();
                assert!(mine > 0, "worker {worker} of {count} has nothing to do");
                most = most.max(mine);
            }
            assert_eq!(most, all.len().div_ceil(count), "of {count}");
        }
    }
}
