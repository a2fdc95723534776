//! What a newcomer runs: `cargo xtask demo` and `cargo xtask test`. Both install what is missing.

mod binaries;
mod clients;
mod demo;
mod docs;
mod fuzz;
mod kafka;
mod operators;
mod planted;
mod projects;
mod prometheus;
mod setup;
mod steps;
mod swiftshader;
mod test;
mod toolchains;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "cargo xtask COMMAND

  demo          build everything and run examples/support-bot over its tickets
  test          set up and run every test, lint and format check
  test --full   the same, and what takes minutes: the whole of banking77 if it is at hand, long crash and swap runs,
                planted, swiftshader --full, whole models with wgpu's checks in the shaders of every device, operators
                made by componentize-py and componentize-js, the guide of each language word by word, the book
  swiftshader   run the tests of kernels on SwiftShader, a second Vulkan driver, as test does; --full runs all tests of
                what a device computes
  fuzz          fuzz what reads models, batches and answers for a minute; --seconds N for another time
  operators     build the shipped operators and the test guests into target/operators, those of other languages with
                tidegate build
  toolchains    make the test guests of other languages (C, Go, JavaScript, Python) anew, the committed ones included
  clients       fetch the clients that the gateway is tested with into target/clients
  prometheus    fetch the Prometheus and promtool that metrics and alerts are tested with into target/prometheus
  docs          make the book of docs/ in target/book, and look at every link in it; test --full does too
  planted       put faults into a copy of the sources, one at a time, and see that the scenes on Kafka find them
  kafka         run an Apache Kafka broker for tests until Enter is pressed; the lines kill and start kill it and start
                it again with its data

What is missing is installed: the WebAssembly target by rustup; on Debian and Ubuntu a Vulkan loader with Mesa's
software driver, OpenSSL's headers, Java and Maven, pip, npm and clang by apt-get; what tidegate build takes by tidegate build --install. TIDEGATE_KAFKA=host:port uses a broker that runs already.";

/// The variable that tells tests to take minutes.
const FULL: &str = "TIDEGATE_TEST_FULL";

/// How long the parsers are fuzzed where nothing else is said.
const FUZZ_SECONDS: u32 = 60;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root()?;
    match arguments.as_slice() {
        ["demo"] => demo::demo(&root),
        ["test"] => test::test(&root, false),
        ["test", "--full"] => test::test(&root, true),
        ["swiftshader"] => swiftshader::test(&root, false),
        ["swiftshader", "--full"] => swiftshader::test(&root, true),
        ["fuzz"] => fuzz::fuzz(&root, FUZZ_SECONDS),
        ["fuzz", "--seconds", seconds] => {
            let seconds = seconds
                .parse()
                .with_context(|| format!("--seconds {seconds} is no number"))?;
            fuzz::fuzz(&root, seconds)
        }
        ["operators"] => {
            setup::wasm_target(&root)?;
            operators::build(&root)?;
            projects::build(&root, false)
        }
        ["toolchains"] => {
            toolchains::small(&root)?;
            toolchains::large(&root)
        }
        ["clients"] => clients::fetch(&root),
        ["prometheus"] => prometheus::fetch(&root),
        ["docs"] => docs::book(&root),
        ["planted"] => planted::find_all(&root, &kafka::start_or_find(&root)?),
        ["kafka"] => {
            let mut broker = kafka::start_or_find(&root)?;
            for (name, value) in broker.variables() {
                println!("{name}={value}");
            }
            println!("press Enter to stop the broker");
            for line in std::io::stdin().lines() {
                match line.context("reading standard input")?.trim() {
                    "kill" => {
                        broker.kill()?;
                        println!("killed");
                    }
                    "start" => {
                        broker.start_again()?;
                        println!("started");
                    }
                    _ => break,
                }
            }
            Ok(())
        }
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("unknown command {:?}\n\n{USAGE}", other.join(" ")),
    }
}

/// The top of the repository.
fn root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(manifest
        .parent()
        .context("xtask has no parent directory")?
        .to_path_buf())
}
