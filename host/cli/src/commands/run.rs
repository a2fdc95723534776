//! `tidegate run`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use clap::{Args, ValueEnum};
use tidegate_contract::{CommitLog, CommitLogError, FileLayer, Model as _, Recovered};
use tidegate_control::admin::{AdminServer, WatchServer};
use tidegate_control::config::{Pipeline, Sink, SinkKind, SourceKind, StageKind};
use tidegate_control::{HealthReport, Host as _};
use tidegate_flow::{Counts, Ended, FlowError, Run};
use tidegate_gateway::endpoints::WellBeing;
use tidegate_state::{Disk, FileCommitLog, StateDirectory, TakenLog};
use tidegate_telemetry::events::{RunEnded, RunStarted};
use tidegate_telemetry::{Meters, Summary, WorkKind};

use super::beside::after_senders;
use super::stopping::Stopping;
use super::way_on::way_on;
use super::{check_state, none_is_wrong, print_json, read_pipeline};
use crate::collectors::Collectors;
use crate::components::Components;
use crate::exit::{Failure, tell};
use crate::health::silent_at_most;
use crate::host::{HostedSlot, RunningHost};
use crate::lately::Lately;
use crate::live::Live;
use crate::models::Served;
use crate::playground::Playground;
use crate::printing::{tell_figures, warn};
use crate::rounds::Rounds;
use crate::starting::StartingHost;
#[cfg(target_os = "linux")]
use crate::supervised::Supervised;
use crate::terminal::{Progress, works};
use crate::wire::again::Again;
use crate::wire::committed::Shown;
use crate::wire::gateway::Serving;
use crate::{models, opening, revisions, wire};

/// Instances that are made ahead for a topic.
const TOPIC_WARM: usize = 8;
/// Partitions of a topic that one process is sure to have address space for. It may have more.
const TOPIC_MOST: usize = 1000;

/// Run a pipeline.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate run pipeline.toml\n  \
    tidegate run --until forever pipeline.toml\n  \
    tidegate run --adapter cpu --json pipeline.toml\n\n\
    A run that was killed goes on from its last cut when it is started again.\n\
    Ctrl-C or SIGTERM ends it after a cut; a second one ends it at once.")]
pub(crate) struct Arguments {
    /// The pipeline file.
    pipeline: PathBuf,
    /// When to end: end = when every bounded source is read; now = at what the sources hold at the start;
    /// forever = never. Default: end, or forever if a source has no end.
    #[arg(long, value_enum)]
    until: Option<Until>,
    /// The adapter for all models: index, part of a name, or cpu.
    #[arg(long)]
    adapter: Option<String>,
    /// Print the summary as JSON to standard output.
    #[arg(long)]
    json: bool,
    /// No progress line and no summary.
    #[arg(long)]
    quiet: bool,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// When every bounded source is read.
    End,
    /// At what the sources hold at the start.
    Now,
    /// Never.
    Forever,
}

/// Runs a pipeline until its input ends or it is stopped.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stopping = Stopping::listen()?;
    let progress = match arguments.quiet {
        true => Progress::hidden(),
        false => Progress::show(),
    };
    let pipeline = Arc::new(read_pipeline(&arguments.pipeline)?);
    let until = arguments.until.unwrap_or_else(|| {
        let endless = |kind: &SourceKind| {
            matches!(
                kind,
                SourceKind::Kafka(_) | SourceKind::Gateway(_) | SourceKind::Ingest(_)
            )
        };
        if pipeline.sources.iter().any(|source| endless(&source.kind)) {
            Until::Forever
        } else {
            Until::End
        }
    });
    let asked = |kind: &SourceKind| matches!(kind, SourceKind::Gateway(_) | SourceKind::Ingest(_));
    if let Some(source) = (pipeline.sources.iter()).find(|source| asked(&source.kind))
        && until != Until::Forever
    {
        return Err(Failure::usage(format_args!(
            "source {} is asked over HTTP and has no end; leave --until out",
            source.name
        )));
    }
    let stdout = |sink: &Sink| matches!(sink.kind, SinkKind::Stdout);
    if arguments.json && pipeline.sinks.iter().any(stdout) {
        return Err(Failure::usage(
            "--json would mix the summary with the records on standard output; set pipeline.summary to a file instead",
        ));
    }
    // Everything that can refuse comes before the first file is touched, and before what takes minutes.
    let models::Fit {
        mut mistakes,
        warnings: of_models,
    } = models::check(&pipeline);
    mistakes.extend(opening::look(&pipeline).all());
    none_is_wrong(mistakes)?;
    check_state(&pipeline)?;
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let of_state = |error| match error {
        error @ CommitLogError::StateKey { .. } => Failure::usage(error),
        error => error.into(),
    };
    after_senders(&pipeline.state)?;
    let (state, log) = StateDirectory::take(&pipeline.state, layer.clone()).map_err(of_state)?;
    let state = Arc::new(state);
    // Who runs this pipeline already is known by its state directory: that is said, and not that the port is taken.
    let opened = opening::open(&pipeline)?;
    if let Some(bound) = &opened.bound {
        tracing::info!(address = %bound.address(), "the gateway has its address, and listens when the models are there");
    }
    let remote = opened.remote.values().cloned().collect();
    let starting = Arc::new(StartingHost::new(&pipeline, remote));
    // Before a log is read, components are compiled and models loaded, which may take minutes: whoever asks is told how far
    // that is.
    stopping.keep(match pipeline.admin {
        None => None,
        Some(address) => Some(AdminServer::start(
            address,
            state.path(),
            pipeline.metrics_token.as_ref().map(|token| &*token.path),
            starting.clone(),
        )?),
    });
    let _watched = match pipeline.watch {
        None => None,
        Some(address) => Some(WatchServer::start(
            address,
            pipeline.metrics_token.as_ref().map(|token| &*token.path),
            starting.clone(),
        )?),
    };
    #[cfg(target_os = "linux")]
    let supervised = {
        let (host, started) = (starting.clone(), starting.clone());
        Supervised::begin(move || host.health(), move || started.has_started())?
    };
    let (log, recovered) = replayed(log).map_err(of_state)?;
    starting.restored(Counts::recovered(&recovered));
    let mut audit = wire::audit(&pipeline, &layer, &state, &recovered)?;
    let committed = wire::letters::committed(&pipeline, &recovered);
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let log: Arc<dyn CommitLog> = Arc::new(Shown::new(log, committed.clone()));
    if let Some(why) = wire::gateway::unread::refusal(&pipeline, &recovered.tasks)? {
        return Err(Failure::Run(anyhow::anyhow!(why)));
    }
    let tasks = tasks(&pipeline);
    let compiled = wire::Compiled::State(state.path().join("compiled"));
    let components = Components::new(state.path());
    let cut = &recovered.slots;
    let mut mistakes = Vec::new();
    let (slots, configured) = wire::slots(
        &pipeline,
        compiled,
        tasks,
        cut,
        Some(&components),
        &mut mistakes,
    )?;
    none_is_wrong(mistakes)?;
    for warning in pipeline.warnings.iter().chain(&of_models) {
        warn(&warning.to_string());
    }
    if let Some(warning) = wire::memory::warning(&pipeline, tasks) {
        warn(&warning);
    }
    wire::sweep(&components, &slots, &recovered.slots);
    let gateway = wire::gateway::Gateway::open(&pipeline, &state)?;
    let again = Again::all(&pipeline, &state, &recovered.tasks)?;
    let sources = wire::sources(&pipeline, gateway.as_ref(), &again, state.instance());
    if stopping.is_told() {
        return Ok(());
    }
    // Brokers that are away are known before the models are there.
    let feeds = wire::feeds::feeds(&pipeline, gateway.as_ref())?;
    if stopping.is_told() {
        return Ok(());
    }
    let served = wire::load_models(&pipeline, arguments.adapter.as_deref(), &opened.remote)?;
    if stopping.is_told() {
        return Ok(());
    }
    let topology = wire::topology(
        &pipeline,
        sources,
        &slots,
        &configured,
        &served,
        &feeds,
        gateway.as_ref(),
    )?;
    // The stages have them: what is left in them goes out when these end.
    drop(feeds);
    let ground = wire::Ground {
        recovered: &recovered,
        layer: &layer,
        log: &log,
        state: &state,
        gateway: gateway.as_ref(),
        again: &again,
        audit: audit.as_ref(),
    };
    let parts = wire::worker_parts(&pipeline, until, &ground)?;
    let collectors = Collectors::start(&pipeline)?;
    let live = Live::new(&pipeline);
    let stages = pipeline.stages.iter().map(|stage| stage.name.as_str());
    let meters = Meters::new(&pipeline.name, stages)
        .with_edges(live.edges())
        .with_ends(
            (pipeline.sources.iter().map(|source| source.name.as_str()))
                .chain(again.iter().map(|letters| letters.name.as_str())),
            pipeline.sinks.iter().map(|sink| sink.name.as_str()),
        );
    let meters = Arc::new(
        meters
            .with_tracer(collectors.tracer())
            .with_points(collectors.points()),
    );
    let serving = match (&gateway, &pipeline.gateway, opened.bound) {
        (Some(gateway), Some(configured), Some(bound)) => Some(Serving::start(
            &pipeline,
            configured,
            bound,
            gateway,
            (&served, &topology),
            (
                collectors.tracer(),
                audit.as_ref().map(|audit| audit.door()),
            ),
            starting.clone(),
        )?),
        _ => None,
    };
    let (mut models, mut remote) = (Vec::new(), Vec::new());
    for served in served.iter().flatten().cloned() {
        match served {
            Served::Hosted(model) => models.push(model),
            // Its base is among the hosted.
            Served::Lora(_) => {}
            Served::Remote(model) => remote.push(model),
        }
    }
    let adapter = models.first().map(|model| model.facts().adapter);
    // What is open is let go of in order: members leave their group.
    if !stopping.begins() {
        return Ok(());
    }
    RunStarted {
        pipeline: &pipeline.name,
        workers: parts.len(),
        cut: recovered.cut,
    }
    .emit();
    let digest = tidegate_operator::digest(pipeline.written().as_bytes());
    wire::begin_audit(
        &pipeline,
        &digest,
        audit.as_mut(),
        (log.as_ref(), &recovered),
        layer.as_ref(),
    )?;
    let lately = Lately::begins(meters.clock());
    let run = Run::start(topology, parts, log, recovered, meters.clone())?;
    stopping.runs(run.controls(), serving.clone());
    if let Some(serving) = &serving {
        tracing::info!(url = serving.url(), "the gateway listens");
        if !arguments.quiet {
            tell(format_args!("gateway listens on {}\n", serving.url()));
        }
    }
    let host = Arc::new(RunningHost {
        pipeline: pipeline.name.clone(),
        components,
        adapter: adapter.clone(),
        slots: hosted(&pipeline, slots),
        models,
        remote,
        serving,
        controls: run.controls(),
        meters: meters.clone(),
        account_since: state.created(),
        live,
        playground: Playground::new(
            pipeline.clone(),
            served,
            run.controls(),
            audit.as_ref().map(|audit| audit.door()),
        ),
        letters: wire::letters::open(
            &pipeline,
            committed,
            again,
            Some(wire::letters::seal(&state)),
        ),
        audit,
        silent_at_most: silent_at_most(&pipeline),
        stopped: Mutex::new(None),
        lately,
    });
    if let Some(serving) = &host.serving {
        let host = Arc::downgrade(&host);
        serving.health.known_by(move || match host.upgrade() {
            Some(host) => {
                let HealthReport { live, ready, .. } = host.health_now();
                WellBeing { live, ready }
            }
            None => WellBeing {
                live: true,
                ready: false,
            },
        });
    }
    starting.runs(host.clone());
    #[cfg(target_os = "linux")]
    if let Some(supervised) = &supervised {
        supervised.has_news();
    }
    collectors.measure(&host);
    let rounds = Rounds::begin(&host)?;
    progress.runs(&meters);
    let ended = run.join();
    drop(progress);
    #[cfg(target_os = "linux")]
    drop(supervised);
    rounds.end();
    let failure = match &ended.error {
        Some(_) => None,
        None => host.stopped().or_else(|| revisions::failure(&host.slots)),
    };
    stopping.stop_gateway();
    stopping.stop_admin();
    collectors.finish();
    let summary = summary(&meters, &ended, adapter, &host);
    RunEnded {
        pipeline: &pipeline.name,
        failure: (ended.error.as_ref().map(ToString::to_string))
            .or(failure.clone())
            .as_deref(),
    }
    .emit();
    if let Some(path) = &pipeline.summary {
        layer
            .replace(path, &summary.to_json())
            .with_context(|| format!("cannot write the summary {}", path.display()))?;
    }
    if arguments.json {
        print_json(&String::from_utf8_lossy(&summary.to_json()))?;
    } else if !arguments.quiet {
        tell_figures("summary", &summary.table(), &summary.to_json());
    }
    match ended.error {
        None => match failure {
            None => Ok(()),
            Some(why) => Err(Failure::Run(anyhow::anyhow!(why))),
        },
        Some(error @ FlowError::State(_)) => Err(Failure::Run(error.into())),
        Some(error) => {
            let way_on = way_on(&pipeline);
            Err(Failure::Run(anyhow::Error::new(error).context(way_on)))
        }
    }
}

/// Reads what the commit log says, which may be long.
fn replayed(log: TakenLog) -> Result<(FileCommitLog, Recovered), CommitLogError> {
    let work = works().begin(WorkKind::Replay, "commit log");
    let told = |done, of| work.done_of(done, of);
    log.replay(&told)
}

/// Tasks that can run at once: one for each file; of topics it is known only when the group has met.
pub(super) fn tasks(pipeline: &Pipeline) -> wire::Tasks {
    let (mut warm, mut most) = (0, 0);
    for source in &pipeline.sources {
        let (ahead, room) = match &source.kind {
            SourceKind::File { paths } => (paths.len(), paths.len()),
            SourceKind::Stdin | SourceKind::Gateway(_) | SourceKind::Ingest(_) => (1, 1),
            SourceKind::Kafka(_) => (TOPIC_WARM, TOPIC_MOST),
        };
        warm += ahead;
        most += room;
    }
    // What is sent again comes now and then: nothing is made ahead for it.
    most += wire::again::of(pipeline).count();
    wire::Tasks { warm, most }
}

fn hosted(
    pipeline: &Pipeline,
    slots: Vec<Arc<tidegate_operator::ComponentSlot>>,
) -> Vec<HostedSlot> {
    let stages = pipeline.stages.iter().enumerate();
    let operators = stages.filter_map(|(index, stage)| match &stage.kind {
        StageKind::Operator(operator) => Some((index, operator)),
        StageKind::Model(_) => None,
    });
    operators
        .zip(slots)
        .map(|((stage, operator), slot)| HostedSlot {
            slot,
            stage,
            deploying: Mutex::new(()),
            label: Mutex::new(String::new()),
            fell_back: Mutex::default(),
            component: operator.component.clone(),
            breaker: operator.breaker,
            max_failed_records: operator.max_failed_records,
        })
        .collect()
}

/// The summary: what this run did, and the records since the state directory was made, as the commit log has them.
fn summary(meters: &Meters, ended: &Ended, adapter: Option<String>, host: &RunningHost) -> Summary {
    let mut summary = meters.summary(adapter, host.slot_summaries());
    let counts = ended.counts;
    let records = &mut summary.records;
    records.input = counts.input;
    records.output = counts.output;
    records.dropped = counts.dropped;
    records.dead = counts.dead;
    records.split = counts.split;
    records.retried = counts.retried;
    records.in_flight = counts.in_flight();
    summary
}
