//! Toolchains that are installed by pip and npm, in the versions that are known to work.

use std::path::{Path, PathBuf};

use super::Build;
use crate::command::ask;
use crate::language::Language;
use crate::toolchain::{BuildError, INTO, Missing, Remedy, apt, version};

/// A package of npm with what else is installed beside it.
pub(super) struct Npm {
    /// `componentize-qjs`, also that of its program.
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// What is installed: `componentize-qjs@0.4.5`.
    pub(super) packages: &'static [&'static str],
    /// The program of it.
    pub(super) program: &'static str,
    /// Its package's directory below `node_modules`.
    pub(super) directory: &'static str,
}

pub(super) const QUICKJS: Npm = Npm {
    name: "componentize-qjs",
    version: "0.4.5",
    packages: &["componentize-qjs@0.4.5"],
    program: "componentize-qjs",
    directory: "componentize-qjs",
};

pub(super) const SPIDERMONKEY: Npm = Npm {
    name: "componentize-js",
    version: "0.23.0",
    packages: &[
        "@bytecodealliance/componentize-js@0.23.0",
        "@bytecodealliance/preview2-shim@0.26.1",
    ],
    program: "componentize-js",
    directory: "@bytecodealliance/componentize-js",
};

pub(super) const ESBUILD: Npm = Npm {
    name: "esbuild",
    version: "0.28.2",
    packages: &["esbuild@0.28.2"],
    program: "esbuild",
    directory: "esbuild",
};

pub(super) const TYPESCRIPT: Npm = Npm {
    name: "typescript",
    version: "7.0.2",
    packages: &["typescript@7.0.2"],
    program: "tsc",
    directory: "typescript",
};

/// The oldest Node.js that runs them.
const OLDEST_NODE: u32 = 20;

impl Npm {
    /// The `node_modules` that it is in: of the cache, or of what is on the `PATH`.
    pub(super) fn find(&self, build: &Build<'_>) -> Result<PathBuf, BuildError> {
        node(build)?;
        let name = format!("{}-{}", self.name, self.version);
        if let Some(kept) = build.machine().installed(&name) {
            return Ok(kept.directory.join("node_modules"));
        }
        let on_path = build.machine().program(self.program);
        let modules = on_path.as_deref().and_then(|file| self.modules(file));
        let found = modules
            .as_deref()
            .and_then(|modules| package_version(&modules.join(self.directory)));
        if let (Some(modules), Some(self_version)) = (modules, &found)
            && self_version == self.version
        {
            return Ok(modules);
        }
        let mut install = vec![
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--loglevel",
            "error",
            "--prefix",
            INTO,
        ];
        install.extend(self.packages);
        Err(Missing {
            language: build.project.language(),
            wanted: format!("{} {}", self.name, self.version),
            found: found.map(|found| format!("{} {found}", self.name)),
            remedy: build.machine().remedy(&name, &install),
        }
        .into())
    }

    /// The program of it within a `node_modules`.
    pub(super) fn program(&self, modules: &Path) -> PathBuf {
        modules.join(".bin").join(self.program)
    }

    /// The `node_modules` of a program on the `PATH`, which is in its `.bin` or links into it.
    fn modules(&self, program: &Path) -> Option<PathBuf> {
        let real = program.canonicalize().ok()?;
        let above = [program, real.as_path()].map(Path::ancestors);
        above.into_iter().flatten().find_map(|place| {
            let is_modules = place.file_name().is_some_and(|name| name == "node_modules");
            let has = is_modules && place.join(self.directory).is_dir();
            has.then(|| place.to_owned())
        })
    }
}

/// The version that a package's own file says.
fn package_version(package: &Path) -> Option<String> {
    let text = std::fs::read(package.join("package.json")).ok()?;
    let json: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(json["version"].as_str()?.to_owned())
}

/// Makes sure of Node.js.
pub(super) fn node(build: &Build<'_>) -> Result<(), BuildError> {
    let machine = build.machine();
    let said = machine
        .program("node")
        .and_then(|node| ask(build.command(node).arg("--version")));
    let found = said.as_deref().and_then(version);
    let is_new =
        found.is_some_and(|found| found.first().is_some_and(|major| *major >= OLDEST_NODE));
    let has_npm = machine.program("npm").is_some();
    if is_new && has_npm {
        return Ok(());
    }
    let without = if has_npm { "" } else { " without npm" };
    Err(Missing {
        language: build.project.language(),
        wanted: format!("Node.js {OLDEST_NODE} or newer with npm"),
        found: said.map(|said| format!("node {}{without}", said.trim())),
        remedy: Remedy::Words("Install it as https://nodejs.org/en/download says".into()),
    }
    .into())
}

/// Makes sure of Python 3, and gives its program.
pub(super) fn python(build: &Build<'_>) -> Result<PathBuf, BuildError> {
    let machine = build.machine();
    let found = machine.program("python3");
    let said = found
        .as_ref()
        .and_then(|python| ask(build.command(python).arg("--version")));
    let is_new = said
        .as_deref()
        .and_then(version)
        .is_some_and(|version| version >= vec![3, 10]);
    match found.filter(|_| is_new) {
        Some(python) => Ok(python),
        None => Err(Missing {
            language: Language::Python,
            wanted: "Python 3.10 or newer, as python3".into(),
            found: said.map(|said| said.trim().to_owned()),
            remedy: apt(machine, &["python3", "python3-pip"]).unwrap_or_else(|| {
                Remedy::Words("Install it as https://www.python.org/downloads says".into())
            }),
        }
        .into()),
    }
}

/// Makes sure of pip before it is told to install something: systems have Python without it.
pub(super) fn with_pip(build: &Build<'_>, python: &Path) -> Result<(), BuildError> {
    let machine = build.machine();
    // Not in the project, whose modules Python would take for its own.
    let mut asked = machine.command(python, Path::new("/"));
    if ask(asked.args(["-m", "pip", "--version"])).is_some() {
        return Ok(());
    }
    let is_systems = python
        .canonicalize()
        .is_ok_and(|python| python.starts_with("/usr/bin"));
    let remedy = is_systems.then(|| apt(machine, &["python3-pip"])).flatten();
    Err(Missing {
        language: build.project.language(),
        wanted: "pip for python3, which installs what they are built with".into(),
        found: None,
        remedy: remedy.unwrap_or_else(|| {
            Remedy::Words("Install it as https://pip.pypa.io/en/stable/installation/ says".into())
        }),
    }
    .into())
}
