//! What `benches/gateway/run.py` measures with: so many requests at once for so many seconds, asked of an engine in this
//! process, or over HTTP as a client would, and requests for the list of models.
//!
//! Every command prints one line of JSON. Requests are the same in both: greedy, numbered in their prompt, each stream's
//! next as soon as its last has ended. What comes after the time is over is waited for and not counted.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod bare;
mod connection;
mod events;
mod figures;
mod http;
mod list;
mod load;
mod model;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use serde_json::Value;

use crate::load::{Load, Period};

/// Puts a load onto an engine or a gateway, and says what it gave.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Of an engine in this process.
    Bare {
        /// Directory or .gguf file.
        #[arg(long, default_value = "examples/support-bot/model")]
        model: PathBuf,
        /// Sequences that it is loaded for, as in a pipeline file.
        #[arg(long, default_value_t = 32)]
        sequences: usize,
        /// Adapter: number, part of its name, or cpu.
        #[arg(long)]
        adapter: Option<String>,
        #[command(flatten)]
        load: Load,
    },
    /// Over HTTP, as streaming chat completions.
    Http {
        /// Up to and with /v1, as clients take it.
        url: String,
        /// What the model is called there.
        #[arg(long, default_value = "bench")]
        name: String,
        #[command(flatten)]
        load: Load,
    },
    /// GET /v1/models.
    Models {
        /// As for http.
        url: String,
        /// Connections, each with one request at a time.
        #[arg(long, default_value_t = 8)]
        connections: usize,
        #[command(flatten)]
        period: Period,
    },
}

fn main() -> anyhow::Result<()> {
    let found: Value = match Arguments::parse().command {
        Command::Bare {
            model,
            sequences,
            adapter,
            load,
        } => bare::run(&model, sequences, adapter.as_deref(), &load)?,
        Command::Http { url, name, load } => http::run(&url, &name, &load)?,
        Command::Models {
            url,
            connections,
            period,
        } => list::run(&url, connections, &period)?,
    };
    println!("{found}");
    Ok(())
}
