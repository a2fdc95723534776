//! `tidegate component`.

use std::path::Path;

use anyhow::Context;
use tidegate_operator::{Engine, EngineOptions, Grants, componentize};

use super::print;
use crate::exit::{Failure, told};

/// Shows what a component is, and writes it out if asked.
pub(crate) fn component(file: &Path, output: Option<&Path>) -> Result<(), Failure> {
    let bytes = std::fs::read(file)
        .with_context(|| format!("cannot read {}", file.display()))
        .map_err(|error| Failure::usage(told(&error)))?;
    let label = file.display().to_string();
    let engine = Engine::new(EngineOptions {
        instances: 4,
        ..EngineOptions::default()
    })?;
    let component = engine.compile(&bytes, &label)?;
    let description = component.describe(Grants::ALL)?;
    let version = &description.version;
    let list = |items: &[String]| {
        if items.is_empty() {
            "none".to_owned()
        } else {
            items.join(", ")
        }
    };
    print(&format!(
        "name      {}\nversion   {}\ndigest    {}\nimports   {}\noutputs   {}\nconfig    {}\n",
        version.name,
        version.version,
        component.digest(),
        list(component.imports()),
        list(&version.outputs),
        description.config_schema,
    ))?;
    if let Some(path) = output {
        let component = componentize(&bytes, &label)?;
        std::fs::write(path, component)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
