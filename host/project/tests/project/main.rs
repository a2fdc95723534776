//! What a project promises to the person whose it is.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod builds;
mod manifests;
mod templates;
#[cfg(unix)]
mod toolchains;

use std::path::Path;

use tidegate_project::{Language, Name, NewProject, Project};

/// A new project.
fn made(language: Language, name: &str, directory: &Path) -> Project {
    let wanted = NewProject {
        name: Name::new(name).unwrap(),
        language,
        directory: directory.to_owned(),
    };
    wanted
        .create()
        .unwrap_or_else(|error| panic!("{language}: {error}"))
}
