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
mod lately;
mod letters;
mod live;
mod metrics;
mod models;
mod opening;
mod playground;
mod printing;
mod revisions;
mod rounds;
mod stage_times;
mod starting;
#[cfg(target_os = "linux")]
mod supervised;
mod terminal;
mod wire;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

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
    Run(commands::run::Arguments),
    Check(commands::check::Arguments),
    Deploy(commands::deploy::Arguments),
    Status(commands::status::Arguments),
    Top(commands::top::Arguments),
    Health(commands::health::Arguments),
    /// Look at the dead letters of a pipeline, and send them again.
    #[command(subcommand)]
    DeadLetters(commands::letters::LettersCommand),
    Page(commands::page::Arguments),
    Logs(commands::logs::Arguments),
    /// Read what a pipeline has written of who was answered what.
    #[command(subcommand)]
    Audit(commands::audit::AuditCommand),
    /// Look at models, convert and measure them, and change those of a running pipeline.
    #[command(subcommand)]
    Model(commands::model::ModelCommand),
    New(commands::project::New),
    Build(commands::project::Build),
    Test(commands::test::Arguments),
    Bench(commands::bench::Arguments),
    Dev(commands::dev::Arguments),
    Sdk(commands::project::Sdk),
    Component(commands::component::Arguments),
    Tokens(commands::tokens::Arguments),
    /// What the host starts to compile a component: see `wire::compiler`.
    #[command(name = wire::COMPILER, hide = true)]
    Compile {
        order: Vec<String>,
    },
}

fn main() -> ExitCode {
    LazyLock::force(&metrics::BEGAN);
    let arguments = Arguments::parse();
    // Whoever sends letters is told what a run would be: that marks of them are lost.
    let quiet_default = match arguments.command {
        Command::Run(_) | Command::DeadLetters(_) => "warn",
        _ => "error",
    };
    let filter = arguments.log.as_deref().unwrap_or(quiet_default);
    if let Err(failure) = exit::log_to_stderr(filter, arguments.log_format) {
        return failure.report();
    }
    // A run shows its own, and the others have nothing that takes long.
    let progress = match arguments.command {
        Command::Check(_)
        | Command::Model(_)
        | Command::Test(_)
        | Command::Bench(_)
        | Command::Component(_) => Progress::show(),
        _ => Progress::hidden(),
    };
    let result: Result<(), Failure> = match &arguments.command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Check(arguments) => commands::check::check(arguments),
        Command::Deploy(arguments) => commands::deploy::deploy(arguments),
        Command::Status(arguments) => commands::status::status(arguments),
        Command::Top(arguments) => commands::top::top(arguments),
        Command::Health(arguments) => commands::health::health(arguments),
        Command::DeadLetters(command) => commands::letters::letters(command),
        Command::Page(arguments) => commands::page::page(arguments),
        Command::Logs(arguments) => commands::logs::logs(arguments),
        Command::Audit(command) => commands::audit::audit(command),
        Command::Model(command) => commands::model::model(command),
        Command::New(arguments) => commands::project::new(arguments),
        Command::Build(arguments) => commands::project::build(arguments),
        Command::Test(arguments) => commands::test::test(arguments),
        Command::Bench(arguments) => commands::bench::measure(arguments),
        Command::Dev(arguments) => commands::dev::dev(arguments),
        Command::Sdk(arguments) => commands::project::sdk(arguments),
        Command::Component(arguments) => commands::component::component(arguments),
        Command::Tokens(arguments) => commands::tokens::tokens(arguments),
        Command::Compile { order } => return tidegate_operator::compile_for_parent(order),
    };
    drop(progress);
    commands::interrupt::leave_to_signal();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
