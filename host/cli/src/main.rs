//! The binary `tidegate`: wires the rooms, speaks to people, owns the exit codes.
//!
//! It is the only place that knows all rooms, and it decides nothing that a room could decide. Exit codes: 0 done,
//! 1 failed at run time, 2 wrong usage or configuration.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod breakers;
mod collectors;
mod commands;
mod component;
mod components;
mod exit;
mod health;
mod host;
mod letters;
mod live;
mod metrics;
mod models;
mod opening;
mod playground;
mod revisions;
mod stage_times;
mod starting;
#[cfg(target_os = "linux")]
mod supervised;
mod terminal;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use tidegate_trial::Lines;

use crate::commands::component::Trial;
use crate::exit::Failure;
use crate::terminal::Progress;

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
    /// The form of log lines.
    #[arg(
        long,
        global = true,
        value_name = "FORM",
        env = "TIDEGATE_LOG_FORMAT",
        default_value = "text"
    )]
    log_format: exit::LogFormat,
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
    #[command(
        after_help = "Examples:\n  tidegate check pipeline.toml\n  tidegate check --connect pipeline.toml"
    )]
    Check {
        /// The pipeline file.
        pipeline: PathBuf,
        /// Ask the brokers about every topic too, for about 10 s.
        #[arg(long)]
        connect: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Put a component or a configuration into a slot of a running pipeline.
    #[command(after_help = "Examples:\n  \
        tidegate deploy --pipeline pipeline.toml --slot redact redact-pii-2.wasm\n  \
        tidegate deploy --pipeline pipeline.toml --slot redact --config redact.json\n  \
        TIDEGATE_TOKEN=... tidegate deploy --address 127.0.0.1:4100 --slot redact redact-pii-2.wasm\n\n\
        The component is compiled and warmed beside the running one; then every task switches at a batch boundary.\n\
        A component that cannot run leaves the running one as it is.")]
    Deploy {
        /// The slot: the name of the stage.
        #[arg(long)]
        slot: String,
        /// The component, or a core module that carries its component type; the one that runs stays if there is none.
        #[arg(required_unless_present = "config")]
        component: Option<PathBuf>,
        /// A new configuration: a file with a JSON object; the one that runs stays if there is none.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
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
    /// Say whether a running pipeline is well: exit code 0, or 1 with the reasons. For probes.
    #[command(after_help = "Examples:\n  \
        tidegate health --state /var/lib/tidegate\n  \
        tidegate health --state /var/lib/tidegate --ready")]
    Health {
        #[command(flatten)]
        host: HostArguments,
        /// Whether it does its work, and not only whether it goes on.
        #[arg(long)]
        ready: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Look at the dead letters of a pipeline, and send them again.
    #[command(subcommand)]
    DeadLetters(commands::letters::LettersCommand),
    /// Print the link to the page of a running pipeline: what it does, in a browser on this machine.
    #[command(after_help = "Examples:\n  \
        tidegate page --pipeline pipeline.toml\n  \
        tidegate page --open --pipeline pipeline.toml\n\n\
        The link has the token of the host in it: whoever has it may do all that the host lets its owner do.")]
    Page {
        #[command(flatten)]
        host: HostArguments,
        /// Open it in the browser of this machine.
        #[arg(long)]
        open: bool,
    },
    /// Print what the operator of a slot has said lately.
    #[command(after_help = "Example:\n  tidegate logs redact --follow --pipeline pipeline.toml")]
    Logs {
        /// The slot: the name of the stage.
        slot: String,
        #[command(flatten)]
        host: HostArguments,
        /// Go on with what it says from now on, until Ctrl-C.
        #[arg(long, short)]
        follow: bool,
    },
    /// Read what a pipeline has written of who was answered what.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at models, convert and measure them, and change those of a running pipeline.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Make an operator's project in a language of your choice: it asks nothing and needs no network.
    #[command(after_help = "Examples:\n  \
        tidegate new redact-pii --lang python\n  \
        tidegate new keep-filled --lang js operators/keep-filled\n\n\
        The SDK, the contract and the schemas for editors come with it, in tidegate/.")]
    New {
        /// The operator's name, a verb: redact-pii.
        name: String,
        /// rust, c, javascript (js), typescript (ts), python (py) or go.
        #[arg(long = "lang", short, value_name = "LANGUAGE", value_parser = commands::project::language)]
        language: tidegate_project::Language,
        /// Where it is written: a new directory, or one that has nothing but .git. Default: one of the operator's name.
        directory: Option<PathBuf>,
    },
    /// Build an operator's component with the toolchain of its language.
    #[command(after_help = "Examples:\n  \
        tidegate build\n  \
        tidegate build --install operators/redact-pii\n\n\
        operator.toml says what it is made of. The component is NAME.wasm beside it. The same sources make the same one; with\n\
        Python and JavaScript on this machine alone, as long as its cache keeps it.\n\
        What is missing is named with the command that installs it; --install runs that, into ~/.cache/tidegate/toolchains\n\
        where the language can.")]
    Build {
        /// The project.
        #[arg(default_value = ".")]
        directory: PathBuf,
        /// Install the toolchain if it is missing.
        #[arg(long)]
        install: bool,
        /// Make it again even if a component of the same sources is kept, and keep the new one.
        #[arg(long)]
        fresh: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run an operator's tests: those in its own language, and its cases in the sandbox.
    #[command(after_help = "Examples:\n  \
        tidegate test\n  \
        tidegate test --case 'an e-mail address is replaced' operators/redact-pii\n  \
        tidegate test --update\n\n\
        The component is built first. Without any case or other test it fails. Cases are files of records and outcomes, cases/*.json; they are\n\
        run with the limits, the retries and the search for bad records that pipelines have. Each batch is also given\n\
        record by record: answers must not depend on it.")]
    Test {
        /// The project.
        #[arg(default_value = ".")]
        directory: PathBuf,
        /// Run only the case of this name, and nothing else.
        #[arg(long, value_name = "NAME")]
        case: Option<String>,
        /// Write what came into the files of cases, where it differs.
        #[arg(long)]
        update: bool,
        /// Leave out the tests in the language's own runner.
        #[arg(long)]
        no_native: bool,
        /// Install the toolchain if it is missing.
        #[arg(long)]
        install: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure what an operator costs: time for a record, start, memory, and how much of it is the border's.
    #[command(group(ArgGroup::new("on").required(true).args(["records", "lines"])), after_help = "Examples:\n  \
        tidegate bench redact.wasm --records samples.jsonl\n  \
        tidegate bench redact.wasm --lines tickets.jsonl --config '{\"longest\": 80}' --json\n\n\
        Beside it runs an operator that reads the same and lets everything pass. Rounds of both take turns; the median and\n\
        the fastest are shown.")]
    Bench {
        /// The component, or a core module that carries its component type.
        component: PathBuf,
        /// A file of records: JSON lines with key, value, headers, attributes and event-time.
        #[arg(long, value_name = "FILE")]
        records: Option<PathBuf>,
        /// A file of which each line is the value of a record.
        #[arg(long, value_name = "FILE")]
        lines: Option<PathBuf>,
        /// The configuration: JSON, or a file that has it.
        #[arg(long, default_value = "{}")]
        config: String,
        /// Records of a batch.
        #[arg(long, default_value_t = tidegate_trial::BATCH, value_parser = bench_batch)]
        batch: usize,
        /// About how long is measured.
        #[arg(long, default_value_t = 3.0, value_parser = seconds)]
        seconds: f64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Build an operator with every save, hold it against its cases and swap it into a running pipeline.
    #[command(after_help = "Example:\n  \
        tidegate dev --pipeline pipeline.toml --slot redact operators/redact-pii\n\n\
        A line says what each save came to and how long it took; what samples.jsonl comes to otherwise is shown.\n\
        What does not compile or does not pass is told, and what runs goes on. Ctrl-C ends it.")]
    Dev {
        /// The slot: the name of the stage.
        #[arg(long)]
        slot: String,
        /// The project.
        #[arg(default_value = ".")]
        directory: PathBuf,
        #[command(flatten)]
        host: HostArguments,
    },
    /// Write the SDK of a project anew, as this program has it.
    #[command(after_help = "Examples:\n  \
        tidegate sdk\n  \
        tidegate sdk operators/redact-pii\n\n\
        It is the directory tidegate/ of the project; only files that differ are written.")]
    Sdk {
        /// The project.
        #[arg(default_value = ".")]
        directory: PathBuf,
    },
    /// Turn a core module into a component, or show what a component imports and says of itself.
    #[command(after_help = "Examples:\n  \
        tidegate component target/wasm32-unknown-unknown/operator/my_operator.wasm\n  \
        tidegate component my_operator.wasm --output my-operator.component.wasm\n  \
        tidegate component my_operator.wasm --try records.jsonl --config '{\"language\": \"en\"}'")]
    Component {
        /// The core module or component.
        file: PathBuf,
        /// Where to write the component.
        #[arg(long, short)]
        output: Option<PathBuf>,
        /// Run it on records and check its answers: JSON lines with key, value, headers, attributes and event-time, or
        /// samples without a file.
        #[arg(long = "try", value_name = "FILE")]
        records: Option<Option<PathBuf>>,
        /// The configuration for --try, JSON.
        #[arg(long, requires = "records", default_value = "{}")]
        config: String,
    },
    /// Put answers together from their tokens as they are made, and show them as they grow.
    #[command(after_help = "Examples:\n  \
        curl -sN http://localhost:8080/v1/outputs/tokens | tidegate tokens\n  \
        kcat -b localhost:9092 -t tokens -u | tidegate tokens --json\n\n\
        It reads events from standard input: a line of JSON each, or server-sent events. Of attempts that follow each other\n\
        the last counts, what comes twice is shown once, and what is missing is said.")]
    Tokens {
        /// Print a line of JSON for each change, and one for each answer that is whole.
        #[arg(long)]
        json: bool,
    },
    /// What the host starts to compile a component: see `wire::compiler`.
    #[command(name = wire::COMPILER, hide = true)]
    Compile { order: Vec<String> },
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Check that no line of an audit was altered, taken away, doubled, moved or put in.
    #[command(after_help = "Examples:\n  \
        tidegate audit verify audit/audit.jsonl\n  \
        tidegate audit verify audit/audit.jsonl --head 5f0c...")]
    Verify {
        /// Its first file.
        path: PathBuf,
        /// A hash that was noted before, of any line: nothing up to that one may be missing at the end.
        #[arg(long)]
        head: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the lines.
    #[command(
        after_help = "Example:\n  tidegate audit show --decrypt --state state audit/audit.jsonl"
    )]
    Show {
        /// Its first file.
        path: PathBuf,
        /// With what was asked and answered, opened with the key of the state.
        #[arg(long)]
        decrypt: bool,
        /// The state directory of the pipeline; TIDEGATE_STATE_KEY goes before the key in it.
        #[arg(long, value_name = "DIRECTORY")]
        state: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum ModelCommand {
    /// Show a model's architecture, parameters, memory by part, tokenizer, and what fits on the adapter.
    #[command(after_help = "Examples:\n  \
        tidegate model info examples/support-bot/model\n  \
        tidegate model info --memory 8GiB llama-3.2-1b.Q4_K_M.gguf")]
    Info {
        /// A directory with config.json, safetensors and tokenizer.json, or a .gguf file.
        path: PathBuf,
        /// Index, part of a name, or cpu.
        #[arg(long)]
        adapter: Option<String>,
        /// Sequences to count memory for.
        #[arg(long, default_value_t = 32, value_parser = count)]
        sequences: usize,
        /// Positions of a sequence. Default: the model's own, at most 2048.
        #[arg(long, value_parser = count)]
        context: Option<usize>,
        /// Memory that may be used, to say what fits. Default on a software adapter: what the machine has available.
        #[arg(long, value_parser = tidegate_control::config::size)]
        memory: Option<u64>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a model with its matrices in 8 or 4 bits, and say what that costs in held-out loss.
    #[command(after_help = "Examples:\n  \
        tidegate model convert models/qwen2.5-1.5b models/qwen2.5-1.5b-int8 --to int8\n  \
        tidegate model convert tiny.gguf tiny-int4 --to int4 --text held-out.txt")]
    Convert {
        /// The model: a directory or a .gguf file.
        source: PathBuf,
        /// An empty or new directory.
        destination: PathBuf,
        /// How matrices are stored.
        #[arg(long, value_enum)]
        to: QuantizedFormat,
        /// The text on which both are compared. Default: a text of some 509 words that comes with the program.
        #[arg(long)]
        text: Option<PathBuf>,
        /// Index, part of a name, or cpu.
        #[arg(long)]
        adapter: Option<String>,
        /// Do not measure the loss.
        #[arg(long, conflicts_with = "text")]
        no_loss: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure how fast a model, or one with random weights, runs.
    #[command(after_help = "Examples:\n  \
        tidegate model bench examples/support-bot/model\n  \
        tidegate model bench --random 125M --quant int8 --json")]
    Bench(BenchArguments),
    /// Load a model of a running pipeline again, or put another in its place; old requests finish on the old one.
    #[command(after_help = "Example:\n  \
        tidegate model load support models/new --pipeline pipeline.toml\n\n\
        It holds until the run ends: the next one begins with what the pipeline file says.")]
    Load {
        /// Its name in the pipeline file.
        name: String,
        /// A directory or a .gguf file on the host's machine. Default: what the pipeline file says.
        path: Option<PathBuf>,
        #[command(flatten)]
        host: HostArguments,
        /// Print JSON: a list of the one model.
        #[arg(long)]
        json: bool,
    },
    /// Take a model of a running pipeline off its adapter; records for it wait until it is loaded again.
    #[command(after_help = "Example:\n  tidegate model unload support --pipeline pipeline.toml")]
    Unload {
        /// Its name in the pipeline file.
        name: String,
        #[command(flatten)]
        host: HostArguments,
        /// Print JSON: a list of the one model.
        #[arg(long)]
        json: bool,
    },
    /// Show the models of a running pipeline.
    #[command(after_help = "Example:\n  tidegate model list --pipeline pipeline.toml")]
    List {
        #[command(flatten)]
        host: HostArguments,
        /// Print JSON: a list of the models.
        #[arg(long)]
        json: bool,
    },
}

/// A format that models are converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuantizedFormat {
    /// Eight bits, a scale for 32 elements.
    Int8,
    /// Four bits, a scale for 32 elements.
    Int4,
}

impl QuantizedFormat {
    fn format(self) -> tidegate_weights::Format {
        match self {
            QuantizedFormat::Int8 => tidegate_weights::Format::Int8,
            QuantizedFormat::Int4 => tidegate_weights::Format::Int4,
        }
    }
}

#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).args(["model", "random"])))]
pub(crate) struct BenchArguments {
    /// The model: a directory or a .gguf file.
    model: Option<PathBuf>,
    /// A model of a known shape with random weights.
    #[arg(long, value_name = "SIZE", value_parser = ["125M", "1B", "8B"])]
    random: Option<String>,
    /// What the matrices are stored in. Default: what a model has them in, and f16 for random weights.
    #[arg(long, value_parser = ["f32", "f16", "int8", "int4"])]
    quant: Option<String>,
    /// About how long each rate may be measured, seconds.
    #[arg(long, default_value_t = 4.0, value_parser = seconds)]
    seconds: f64,
    /// Sequences that decode together, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32], value_parser = batch)]
    batches: Vec<usize>,
    /// Positions of each sequence, separated by commas; the first is the one whose rates stand at the top.
    #[arg(long, value_delimiter = ',', default_values_t = [128, 2048], value_parser = count)]
    contexts: Vec<usize>,
    /// The kernels by name. Default: the best that pass their test on the adapter.
    #[arg(long, value_parser = ["portable", "software", "subgroup", "f16", "cooperative", "dot"])]
    kernels: Option<String>,
    /// The same bits at any batch, as pipelines run unless they say otherwise.
    #[arg(long)]
    reproducible: bool,
    /// Index, part of a name, or cpu.
    #[arg(long)]
    adapter: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Only measure how long this process takes to be ready: for the process that starts it.
    #[arg(long, hide = true)]
    ready: bool,
}

/// A number of sequences or positions.
fn count(text: &str) -> Result<usize, String> {
    whole_number(text, 1 << 20)
}

/// Sequences that decode together; as many as a pipeline file may ask for.
fn batch(text: &str) -> Result<usize, String> {
    whole_number(text, 1024)
}

/// Records of a batch of `tidegate bench`.
fn bench_batch(text: &str) -> Result<usize, String> {
    whole_number(text, 65_536)
}

fn whole_number(text: &str, most: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("{text:?} is not a whole number from 1 to {most}")),
    }
}

/// A time that a measurement may take.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!(
            "{text:?} is not a number of seconds from 0.01 to 600"
        )),
    }
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
    /// Address of its admin API; its token is in the environment, as TIDEGATE_TOKEN: every user of a machine can read the
    /// command lines of all.
    #[arg(long)]
    address: Option<std::net::SocketAddr>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let quiet_default = if matches!(arguments.command, Command::Run(_)) {
        "warn"
    } else {
        "error"
    };
    let filter = arguments.log.as_deref().unwrap_or(quiet_default);
    if let Err(failure) = exit::log_to_stderr(filter, arguments.log_format) {
        return failure.report();
    }
    // A run shows its own, and the others have nothing that takes long.
    let progress = match arguments.command {
        Command::Check { .. }
        | Command::Model(_)
        | Command::Test { .. }
        | Command::Bench { .. }
        | Command::Component { .. } => Progress::show(),
        _ => Progress::hidden(),
    };
    let result: Result<(), Failure> = match arguments.command {
        Command::Run(run) => commands::run::run(&run),
        Command::Check {
            pipeline,
            connect,
            json,
        } => commands::check::check(&pipeline, connect, json),
        Command::Deploy {
            slot,
            component,
            config,
            label,
            host,
            json,
        } => {
            let what = commands::deploy::What {
                component: component.as_deref(),
                config: config.as_deref(),
                label: label.as_deref(),
            };
            commands::deploy::deploy(&slot, what, &host, json)
        }
        Command::Status { host, json } => commands::status::status(&host, json),
        Command::Health { host, ready, json } => commands::health::health(&host, ready, json),
        Command::DeadLetters(command) => commands::letters::letters(&command),
        Command::Page { host, open } => commands::page::page(&host, open),
        Command::Logs { slot, host, follow } => commands::logs::logs(&slot, &host, follow),
        Command::Audit(AuditCommand::Verify { path, head, json }) => {
            commands::audit::verify(&path, head.as_deref(), json)
        }
        Command::Audit(AuditCommand::Show {
            path,
            decrypt,
            state,
        }) => commands::audit::show(&path, decrypt, state.as_deref()),
        Command::Model(command) => model(&command),
        Command::New {
            name,
            language,
            directory,
        } => commands::project::new(&commands::project::New {
            name: &name,
            language,
            directory: directory.as_deref(),
        }),
        Command::Build {
            directory,
            install,
            fresh,
            json,
        } => commands::project::build(&directory, install, fresh, json),
        Command::Test {
            directory,
            case,
            update,
            no_native,
            install,
            json,
        } => commands::test::test(&commands::test::Test {
            directory: &directory,
            case: case.as_deref(),
            update,
            native: !no_native,
            install,
            json,
        }),
        Command::Bench {
            component,
            records,
            lines,
            config,
            batch,
            seconds,
            json,
        } => {
            // One of both is there.
            let (file, lines) = match lines {
                Some(lines) => (lines, Lines::Values),
                None => (records.unwrap_or_default(), Lines::Records),
            };
            commands::bench::measure(&commands::bench::Bench {
                component: &component,
                records: &file,
                lines,
                config: &config,
                batch,
                seconds,
                json,
            })
        }
        Command::Dev {
            slot,
            directory,
            host,
        } => commands::dev::dev(&directory, &slot, &host),
        Command::Sdk { directory } => commands::project::sdk(&directory),
        Command::Tokens { json } => commands::tokens::tokens(json),
        Command::Component {
            file,
            output,
            records,
            config,
        } => {
            let trial = records.as_ref().map(|records| Trial {
                records: records.as_deref(),
                config: &config,
            });
            commands::component::component(&file, output.as_deref(), trial)
        }
        Command::Compile { order } => return tidegate_operator::compile_for_parent(&order),
    };
    drop(progress);
    commands::interrupt::leave_to_signal();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// `tidegate model ...`.
fn model(command: &ModelCommand) -> Result<(), Failure> {
    use commands::model;
    match command {
        ModelCommand::Info {
            path,
            adapter,
            sequences,
            context,
            memory,
            json,
        } => model::info(
            path,
            &model::InfoOptions {
                adapter: adapter.as_deref(),
                sequences: *sequences,
                context: *context,
                memory: *memory,
                json: *json,
            },
        ),
        ModelCommand::Convert {
            source,
            destination,
            to,
            text,
            adapter,
            no_loss,
            json,
        } => model::convert(&model::ConvertOptions {
            source,
            destination,
            format: to.format(),
            text: text.as_deref(),
            adapter: adapter.as_deref(),
            no_loss: *no_loss,
            json: *json,
        }),
        ModelCommand::Bench(arguments) => model::bench(arguments),
        ModelCommand::Load {
            name,
            path,
            host,
            json,
        } => model::load(name, path.as_deref(), host, *json),
        ModelCommand::Unload { name, host, json } => model::unload(name, host, *json),
        ModelCommand::List { host, json } => model::list(host, *json),
    }
}
