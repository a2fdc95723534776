//! Whether a project has tests of its own: where it has none, some runners pass and others fail.

use std::path::Path;

use super::Build;
use crate::language::Language;
use crate::project::{ProjectError, SDK};

/// Files in which people say that their tests have other names.
const SETTINGS: [&str; 4] = ["pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"];

impl Build<'_> {
    /// Whether its language's runner would find a file of tests. Tests in Rust stand anywhere; those in C and TypeScript are
    /// looked for where they are compiled.
    pub(super) fn has_tests(&self) -> Result<bool, ProjectError> {
        let language = self.project.language();
        let is_test = match language {
            Language::JavaScript => is_of_node,
            Language::Python => is_of_python,
            Language::Go => is_of_go,
            Language::Rust | Language::C | Language::TypeScript => return Ok(true),
        };
        let mut has = false;
        self.each_file(|path, _| {
            has = !path.starts_with(SDK) && is_test(&path);
            !has
        })?;
        Ok(has)
    }
}

fn stem(path: &Path) -> &str {
    path.file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default()
}

fn ends_with(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extensions.contains(&extension))
}

/// As `node --test` looks for them.
fn is_of_node(path: &Path) -> bool {
    let stem = stem(path);
    let is_named = stem == "test"
        || stem.starts_with("test-")
        || [".test", "-test", "_test"]
            .iter()
            .any(|end| stem.ends_with(end));
    let is_within = path
        .parent()
        .is_some_and(|above| above.iter().any(|part| part == "test"));
    ends_with(path, &["js", "mjs", "cjs"]) && (is_named || is_within)
}

/// As unittest and pytest look for them, where nothing else is said.
fn is_of_python(path: &Path) -> bool {
    let stem = stem(path);
    let is_named = stem.starts_with("test") || stem.ends_with("_test");
    let is_settings = SETTINGS.iter().any(|name| path == Path::new(name));
    is_settings || (ends_with(path, &["py"]) && is_named)
}

/// Of the one package that is the operator.
fn is_of_go(path: &Path) -> bool {
    let is_beside = path.parent() == Some(Path::new(""));
    is_beside && ends_with(path, &["go"]) && stem(path).ends_with("_test")
}
