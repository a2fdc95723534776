//! `tidegate component`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tidegate_component::{Producer, producers};
use tidegate_operator::{Engine, EngineOptions, Grants, Ungranted};
use tidegate_telemetry::plain;

use super::print;
use super::project::size;
use super::try_out::try_out;
use crate::exit::{Failure, with_causes};
use crate::wire;

/// Turn a core module into a component, or show what a component imports and says of itself.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate component target/wasm32-unknown-unknown/operator/my_operator.wasm\n  \
    tidegate component my_operator.wasm --output my-operator.component.wasm\n  \
    tidegate component my_operator.wasm --try records.jsonl --config '{\"language\": \"en\"}'")]
pub(crate) struct Arguments {
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
}

/// Shows what a component is; writes it out and tries it if asked.
pub(crate) fn component(arguments: &Arguments) -> Result<(), Failure> {
    let label = arguments.file.display().to_string();
    let engine = Engine::new(EngineOptions {
        instances: 4,
        ..wire::Compiled::User.options()?
    })?;
    let given = engine
        .open(&arguments.file, crate::component::read)
        .map_err(|error| Failure::usage(with_causes(&error)))?;
    let component = engine.compile(&given, &label)?;
    // What it imports is shown; whether that is granted is a pipeline's to say.
    let description = component.describe(Grants {
        ungranted: Ungranted::Trap,
        ..Grants::ALL
    })?;
    let version = &description.version;
    let bytes = given.bytes(&label)?;
    let made = Made::of(&bytes);
    print(&format!(
        "name      {}\nversion   {}\nlanguage  {}\nsdk       {}\nmade by   {}\nsize      {}\n\
         digest    {}\nimports   {}\noutputs   {}\nhandlers  {}\nconfig    {}\n",
        version.name,
        version.version,
        made.language,
        made.sdk,
        made.by,
        size(bytes.len()),
        component.digest(),
        list(component.imports()),
        list(&version.outputs),
        if description.handles_tokens {
            "tokens"
        } else {
            "none"
        },
        schema(&description.config_schema),
    ))?;
    if let Some(path) = &arguments.output {
        let component = engine.componentize(&bytes, &label)?;
        std::fs::write(path, component)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    match &arguments.records {
        None => Ok(()),
        Some(records) => try_out(
            &engine,
            (&bytes, &label),
            records.as_deref(),
            &arguments.config,
        ),
    }
}

/// What a component says made it. Anybody may have written it.
struct Made {
    language: String,
    sdk: String,
    by: String,
}

impl Made {
    fn of(bytes: &[u8]) -> Made {
        // One that cannot be read says nothing.
        let producers = producers(bytes).unwrap_or_default();
        let field = |field: &str| {
            let producers = producers.iter().filter(|producer| producer.field == field);
            let said = producers.take(SHOWN).map(|Producer { name, version, .. }| {
                let said = format!("{name} {version}");
                plain(said.trim_end(), PRODUCER_BYTES).into_owned()
            });
            match said.collect::<Vec<_>>() {
                said if said.is_empty() => "unknown".to_owned(),
                said => said.join(", "),
            }
        };
        Made {
            language: field("language"),
            sdk: field("sdk"),
            by: field("processed-by"),
        }
    }
}

/// Most bytes that are shown of one that made a component.
const PRODUCER_BYTES: usize = 128;
/// Most imports or outputs that are shown; the others are counted.
const SHOWN: usize = 256;
/// Most bytes of a configuration's schema that are shown: as many as the host takes.
const SCHEMA_BYTES: usize = 256 << 10;

fn list(items: &[String]) -> String {
    match items.len() {
        0 => "none".to_owned(),
        1..=SHOWN => items.join(", "),
        all => format!("{} and {} more", items[..SHOWN].join(", "), all - SHOWN),
    }
}

/// A schema on one line, whatever its component has written.
fn schema(text: &str) -> String {
    let compact = serde_json::from_str::<serde_json::Value>(text);
    let compact = compact.map_or_else(|_| text.to_owned(), |json| json.to_string());
    plain(&compact, SCHEMA_BYTES).into_owned()
}
