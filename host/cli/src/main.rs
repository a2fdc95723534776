//! The binary `tidegate`: wires the rooms, speaks to people, owns the exit codes.
//!
//! It is the only place that knows all rooms, and it decides nothing that a room could decide. Exit codes: 0 done,
//! 1 failed at run time, 2 wrong usage or configuration.

mod commands;
mod exit;
mod host;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::Failure;

/// Runs real-time language-model pipelines: sandboxed WebAssembly operators and the model itself in one program.
#[derive(Parser)]
#[command(
    name = "tidegate",
    version,
    after_help = "Exit codes: 0 done, 1 failed at run time, 2 wrong usage or configuration.\n\n\
        Examples:\n  \
        tidegate check pipeline.toml\n  \
        tidegate run pipeline.toml\n  \
        tidegate deploy --pipeline pipeline.toml --slot redact new.wasm"
)]
struct Arguments {
    /// Log lines to standard error: error, warn, info, debug, trace, or a filter such as tidegate_flow=debug.
    #[arg(long, global = true, value_name = "FILTER", env = "TIDEGATE_LOG")]
    log: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a pipeline.
    #[command(after_help = "Examples:\n  \
        tidegate run pipeline.toml\n  \
        tidegate run --until forever pipeline.toml\n  \
        tidegate run --adapter cpu --json pipeline.toml\n\n\
        A run that was killed goes on from its last cut when it is started again.\n\
        Ctrl-C or SIGTERM ends it after a cut; a second one ends it at once.")]
    Run(RunArguments),
    /// Read a pipeline file, report every mistake in it, and say what it guarantees.
    #[command(after_help = "Example:\n  tidegate check pipeline.toml")]
    Check {
        /// The pipeline file.
        pipeline: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Put a component into a slot of a running pipeline.
    #[command(after_help = "Examples:\n  \
        tidegate deploy --pipeline pipeline.toml --slot redact redact-pii-2.wasm\n  \
        tidegate deploy --address 127.0.0.1:4100 --token TOKEN --slot redact redact-pii-2.wasm\n\n\
        The component is compiled and warmed beside the running one; then every task switches at a batch boundary.\n\
        A component that cannot run leaves the running one as it is.")]
    Deploy {
        /// The slot: the name of the stage.
        #[arg(long)]
        slot: String,
        /// The component, or a core module that carries its component type.
        component: PathBuf,
        /// A word for the log and the status; default the file's name.
        #[arg(long)]
        label: Option<String>,
        #[command(flatten)]
        host: HostArguments,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show how a running pipeline stands.
    #[command(after_help = "Example:\n  tidegate status --pipeline pipeline.toml")]
    Status {
        #[command(flatten)]
        host: HostArguments,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Look at models.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Turn a core module into a component, or show what a component imports and says of itself.
    #[command(after_help = "Examples:\n  \
        tidegate component target/wasm32-unknown-unknown/operator/my_operator.wasm\n  \
        tidegate component my_operator.wasm --output my-operator.component.wasm")]
    Component {
        /// The core module or component.
        file: PathBuf,
        /// Where to write the component.
        #[arg(long, short)]
        output: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum ModelCommand {
    /// Show a model's architecture, parameters, memory by part, and what fits on the adapter.
    #[command(after_help = "Example:\n  tidegate model info examples/support-bot/model")]
    Info {
        /// Directory with config.json, model.safetensors and tokenizer.json.
        directory: PathBuf,
        /// Index, part of a name, or cpu.
        #[arg(long)]
        adapter: Option<String>,
        /// Sequences to count memory for.
        #[arg(long, default_value_t = 32)]
        sequences: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct RunArguments {
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

/// Which running host is meant.
#[derive(Args)]
struct HostArguments {
    /// The pipeline file of the running host; its state directory says where it listens.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["state", "address"])]
    pipeline: Option<PathBuf>,
    /// The state directory of the running host.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "address")]
    state: Option<PathBuf>,
    /// Address of its admin API.
    #[arg(long, requires = "token")]
    address: Option<std::net::SocketAddr>,
    /// Token of its admin API.
    #[arg(long, env = "TIDEGATE_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let quiet_default = if matches!(arguments.command, Command::Run(_)) {
        "warn"
    } else {
        "error"
    };
    let filter = arguments.log.as_deref().unwrap_or(quiet_default);
    if let Err(failure) = exit::log_to_stderr(filter) {
        return failure.report();
    }
    let result: Result<(), Failure> = match arguments.command {
        Command::Run(run) => commands::run::run(&run),
        Command::Check { pipeline, json } => commands::check::check(&pipeline, json),
        Command::Deploy {
            slot,
            component,
            label,
            host,
            json,
        } => commands::deploy::deploy(&slot, &component, label.as_deref(), &host, json),
        Command::Status { host, json } => commands::status::status(&host, json),
        Command::Model(ModelCommand::Info {
            directory,
            adapter,
            sequences,
            json,
        }) => commands::model::info(&directory, adapter.as_deref(), sequences, json),
        Command::Component { file, output } => {
            commands::component::component(&file, output.as_deref())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
