//! A pipeline from topic to topic whose one stage asks a model that is a mock: wired as `tidegate run` wires it, with
//! the connectors, the flow and the state directory of the product. Tests start it, kill it and start it again.
//!
//! `tidegate-with-mock PIPELINE CALLS SEED LIMIT`: the pipeline file, the file that calls of the model are logged to,
//! the seed of their times, and how many the model takes at once.

mod model;
mod planted;

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tidegate_codec::DecoderOptions;
use tidegate_connect::kafka::{
    ChangelogOptions, ChangelogPartitions, KafkaCommitter, KafkaFeed, KafkaFeedOptions, KafkaSink,
    KafkaSinkOptions, KafkaSource, KafkaSourceOptions, TransactionOptions,
};
use tidegate_contract::{CommitLog, CommitPoint, FileLayer, Sink, TokenFeed};
use tidegate_control::config::{self, Ask, Pipeline, SinkKind, SourceKind, StageKind};
use tidegate_flow::{
    AnswerInto, Controls, ModelStage, Order, Positions, Run, Source, Stage, Target, Topology,
    WorkerParts,
};
use tidegate_state::{Cuts, Disk, LogCommitter, StateDirectory};
use tidegate_telemetry::Meters;
use tidegate_tests::mock;

use model::Mock;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    let stopping = Stopping::listen()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pipeline, calls, seed, limit] = arguments.as_slice() else {
        return Err("usage: tidegate-with-mock PIPELINE CALLS SEED LIMIT".into());
    };
    let pipeline = config::load(Path::new(pipeline)).map_err(|mistakes| mistakes.to_string())?;
    let model = Arc::new(Mock::new(Path::new(calls), seed.parse()?, limit.parse()?)?);
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let (state, log, recovered) = StateDirectory::open(&pipeline.state, layer)?;
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let mut committer = committer(&pipeline, &state)?;
    let sinks = vec![sink(
        &pipeline,
        "out",
        &pipeline.sinks[0].kind,
        committer.as_mut(),
    )?];
    let dead = sink(
        &pipeline,
        "dead-letters",
        &pipeline.dead_letters,
        committer.as_mut(),
    )?;
    let source = source(&pipeline)?;
    if let Some(committer) = &mut committer {
        committer.follow(&pipeline.sources[0].name, &source)?;
    }
    let parts = WorkerParts {
        seal: None,
        audit: None,
        sources: vec![planted::around(source)?],
        sinks,
        dead,
        committer: match committer {
            Some(committer) => Box::new(committer),
            None => Box::new(LogCommitter::new(Cuts::of(log.clone(), state.instance()))),
        },
    };
    let topology = topology(&pipeline, model)?;
    let names = pipeline.stages.iter().map(|stage| stage.name.as_str());
    let meters = Arc::new(Meters::new(&pipeline.name, names));
    if !stopping.begins() {
        return Ok(());
    }
    let run = Run::start(topology, vec![parts], log, recovered, meters)?;
    stopping.runs(run.controls());
    let ended = run.join();
    match ended.error {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn source(pipeline: &Pipeline) -> Result<KafkaSource, Failure> {
    let SourceKind::Kafka(topic) = &pipeline.sources[0].kind else {
        return Err("the source is no topic".into());
    };
    let brokers = topic.brokers.join(",");
    let mut options = KafkaSourceOptions::new(0, brokers, &topic.topic, &topic.group);
    options.instance = topic
        .instance
        .as_ref()
        .map(|instance| format!("{instance}-0"));
    options.decoder = DecoderOptions::default();
    options.properties = topic.properties.clone().into_iter().collect();
    Ok(KafkaSource::open(options)?)
}

/// Takes the cuts as transactions, where the pipeline's are.
fn committer(
    pipeline: &Pipeline,
    state: &StateDirectory,
) -> Result<Option<KafkaCommitter>, Failure> {
    let CommitPoint::Transaction { cluster } = pipeline.commit_point() else {
        return Ok(None);
    };
    let SourceKind::Kafka(topic) = &pipeline.sources[0].kind else {
        return Err("the source is no topic".into());
    };
    let source = &pipeline.sources[0].name;
    let id = format!("{}-{}-0", pipeline.name, state.instance());
    let mut options = TransactionOptions::new(cluster, id);
    options.instance = state.instance().to_owned();
    options.changelogs = vec![ChangelogOptions::new(
        source,
        format!("{}-changelog", topic.group),
        ChangelogPartitions::As(topic.topic.clone()),
    )];
    let cipher = Arc::new(state.key().clone());
    Ok(Some(KafkaCommitter::open(options, cipher)?))
}

fn sink(
    pipeline: &Pipeline,
    name: &str,
    kind: &SinkKind,
    committer: Option<&mut KafkaCommitter>,
) -> Result<Box<dyn Sink>, Failure> {
    let SinkKind::Kafka(topic) = kind else {
        return Err("a sink is no topic".into());
    };
    let mut options = KafkaSinkOptions::new(topic.brokers.join(","), &topic.topic, &pipeline.name);
    options.properties = topic.properties.clone().into_iter().collect();
    Ok(match committer {
        Some(committer) => committer.sink(options, name)?,
        None => Box::new(KafkaSink::open(options)?),
    })
}

fn topology(pipeline: &Pipeline, model: Arc<Mock>) -> Result<Topology, Failure> {
    let SourceKind::Kafka(topic) = &pipeline.sources[0].kind else {
        return Err("the source is no topic".into());
    };
    let stage = &pipeline.stages[0];
    let StageKind::Model(asks) = &stage.kind else {
        return Err("the stage asks no model".into());
    };
    let Ask::Generate(generate) = &asks.ask else {
        return Err("the stage generates nothing".into());
    };
    let asks = ModelStage {
        name: pipeline.models[asks.model].name.clone(),
        model,
        alternatives: Vec::new(),
        ask: tidegate_flow::Ask::Generate {
            from_record: false,
            turns: (generate.turns.iter())
                .map(|turn| tidegate_flow::PromptTurn {
                    role: turn.role,
                    content: turn.content.clone(),
                })
                .collect(),
            template_arguments: generate.template_arguments.clone(),
            reasoning: generate.reasoning.clone(),
            raw: generate.raw,
            system: generate.system.clone(),
            parameters: Box::new(generate.parameters.clone()),
        },
        prompt: asks.prompt.clone(),
        truncate: None,
        prompt_tokens: 1000,
        seed: asks.seed,
        class: asks.priority,
        order: match asks.order {
            config::Order::Key => Order::Key,
            config::Order::Partition => Order::Partition,
            config::Order::None => Order::None,
        },
        max_in_flight: asks.max_in_flight,
        max_in_flight_per_key: asks.max_in_flight_per_key,
        deadline: asks.deadline,
        tokens: Vec::new(),
        token_feeds: token_feeds(pipeline, topic.brokers.join(","))?,
        attempts: asks.attempts,
        into: match asks.into {
            config::Into::Member => AnswerInto::Member,
            config::Into::Value => AnswerInto::Value,
            config::Into::Attributes => AnswerInto::Attributes,
        },
        field: asks.field.clone(),
    };
    Ok(Topology {
        sources: vec![Source {
            name: pipeline.sources[0].name.clone(),
            targets: vec![Target::Stage(0)],
            fixed: false,
            positions: match pipeline.commit_point() {
                CommitPoint::Log => Positions::CutsAndSource,
                CommitPoint::Transaction { .. } => Positions::Cuts,
            },
            called: false,
            beside: false,
            identities: vec![format!("kafka topic {}", topic.topic)],
            apart: String::new(),
        }],
        stages: vec![Stage {
            name: stage.name.clone(),
            targets: vec![Target::Sink(0)],
            kind: tidegate_flow::StageKind::Model(Box::new(asks)),
        }],
        sinks: vec![pipeline.sinks[0].name.clone()],
        commit_point: pipeline.commit_point(),
        batch: pipeline.batch,
        batch_bytes: 4 << 20,
        cut_interval: pipeline.cut_interval,
        callers: None,
        drain: Duration::from_secs(30),
    })
}

/// Where the variable says that tokens go.
fn token_feeds(pipeline: &Pipeline, brokers: String) -> Result<Vec<Arc<dyn TokenFeed>>, Failure> {
    let Some(topic) = std::env::var_os(mock::TOKENS_TO) else {
        return Ok(Vec::new());
    };
    let topic = topic.to_string_lossy();
    let feed = KafkaFeed::open(KafkaFeedOptions::new(brokers, topic, &pipeline.name))?;
    Ok(vec![Arc::new(feed)])
}

/// SIGTERM ends the run after a cut; one that has not begun ends at once.
struct Stopping {
    begins: Arc<AtomicBool>,
    told: Arc<AtomicBool>,
    runs: mpsc::Sender<Controls>,
}

impl Stopping {
    fn listen() -> Result<Stopping, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let within = runtime.enter();
        let mut terminate = signal(SignalKind::terminate())?;
        drop(within);
        let (runs, run) = mpsc::channel::<Controls>();
        let stopping = Stopping {
            begins: Arc::default(),
            told: Arc::default(),
            runs,
        };
        let (begins, told) = (stopping.begins.clone(), stopping.told.clone());
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                runtime.block_on(terminate.recv());
                told.store(true, Ordering::SeqCst);
                loop {
                    match run.recv_timeout(Duration::from_secs(3)) {
                        Ok(controls) => return controls.stop(),
                        Err(_) if begins.load(Ordering::SeqCst) => {}
                        Err(_) => std::process::exit(0),
                    }
                }
            })?;
        Ok(stopping)
    }

    fn begins(&self) -> bool {
        self.begins.store(true, Ordering::SeqCst);
        let begins = !self.told.load(Ordering::SeqCst);
        self.begins.store(begins, Ordering::SeqCst);
        begins
    }

    fn runs(&self, controls: Controls) {
        // The one who hears signals is there until the process ends.
        let _ = self.runs.send(controls);
    }
}
