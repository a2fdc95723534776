//! Installs what is missing, as the language has it: into a cache of its own where that is possible.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;

use super::{BuildError, Machine, Missing, Remedy};
use crate::command::{ask, work_aloud};
use crate::language::Language;
use crate::lock::hold;
use crate::project::ProjectError;

/// Stands in a command for the directory that it installs into.
pub(crate) const INTO: &str = "{into}";

/// A toolchain in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Its directory, which has its version in its name.
    pub(crate) directory: PathBuf,
}

impl Machine {
    /// A toolchain that was installed into the cache.
    pub(crate) fn installed(&self, name: &str) -> Option<Kept> {
        let directory = self.kept(name)?;
        directory.is_dir().then_some(Kept { directory })
    }

    /// What installs a toolchain into the cache; [`INTO`] stands for its directory. Without a cache there is no way.
    pub(crate) fn remedy(&self, name: &str, command: &[&str]) -> Remedy {
        let Some(into) = self.kept(name) else {
            return Remedy::Words("Set HOME or XDG_CACHE_HOME, so that it can be installed".into());
        };
        let into = into.display().to_string();
        let words = command.iter().map(|word| word.replace(INTO, &into));
        Remedy::Commands(vec![words.collect()])
    }
}

impl Missing {
    /// Runs its remedy: of Rust, whose version the project may pin, in the project's directory, and else outside of it. What the programs say goes to standard error.
    pub(crate) fn install(self, machine: &Machine, directory: &Path) -> Result<(), BuildError> {
        let Remedy::Commands(commands) = &self.remedy else {
            return Err(self.into());
        };
        // What runs in a project takes it for its own: Python its modules, npm its settings. Only rustup is meant to.
        let directory = match self.language {
            Language::Rust => directory,
            _ => Path::new("/"),
        };
        for words in commands {
            eprintln!("installing {}: {}", self.wanted, words.join(" "));
            run(machine, words, directory).map_err(|error| match error {
                BuildError::Failed {
                    program,
                    status,
                    said,
                } => BuildError::NotInstalled {
                    wanted: self.wanted.clone(),
                    program,
                    status,
                    said,
                },
                other => other,
            })?;
        }
        Ok(())
    }
}

/// Runs one command. One that installs into the cache does so beside its place first: what is there is whole.
fn run(machine: &Machine, words: &[String], directory: &Path) -> Result<(), BuildError> {
    let place = words
        .iter()
        .map(Path::new)
        .find(|word| is_kept(machine, word));
    let _alone = match place {
        Some(place) => Some(alone(place)?),
        None => None,
    };
    // Whoever was waited for has installed it.
    if place.is_some_and(Path::is_dir) {
        return Ok(());
    }
    let beside = place.map(|place| {
        let mut name = place.as_os_str().to_owned();
        name.push(format!(".new-{}", process::id()));
        PathBuf::from(name)
    });
    let words = words.iter().map(|word| match (&beside, place) {
        (Some(beside), Some(place)) if Path::new(word) == place => beside.clone().into_os_string(),
        _ => word.into(),
    });
    let mut words = words;
    let Some(program) = words.next() else {
        return Ok(());
    };
    let mut command = machine.command(program, directory);
    command
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Nothing of the system's is changed by what is put into the cache.
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    let ran = work_aloud(&mut command).map(drop);
    let (Some(beside), Some(place)) = (beside, place) else {
        return ran;
    };
    let moved = ran.and_then(|()| {
        fs::rename(&beside, place).map_err(|error| ProjectError::disk("make", place)(error).into())
    });
    let _ = fs::remove_dir_all(&beside);
    moved
}

/// Waits until nobody else installs into the cache, and takes away what one that was killed has left there.
fn alone(place: &Path) -> Result<File, BuildError> {
    let parent = place.parent().unwrap_or(place);
    fs::create_dir_all(parent).map_err(ProjectError::disk("make", parent))?;
    let held = hold(
        &parent.join(".lock"),
        "another build that installs into",
        parent,
    )?;
    for entry in fs::read_dir(parent).map_err(ProjectError::disk("list", parent))? {
        let entry = entry.map_err(ProjectError::disk("list", parent))?;
        if entry.file_name().to_string_lossy().contains(".new-") {
            // One that cannot be taken away is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(held)
}

fn is_kept(machine: &Machine, word: &Path) -> bool {
    let toolchains = machine.kept("");
    toolchains.is_some_and(|toolchains| word.starts_with(&toolchains) && word != toolchains)
}

/// What installs packages of Debian: commands of root, or of somebody who has `sudo`. None on another system.
pub(crate) fn apt(machine: &Machine, packages: &[&str]) -> Option<Remedy> {
    if !Path::new("/etc/debian_version").exists() {
        return None;
    }
    let id = ask(machine.command("id", Path::new("/")).arg("-u"));
    let as_root: &[&str] = match id.as_deref().map(str::trim) {
        Some("0") => &[],
        _ if machine.program("sudo").is_some() => &["sudo"],
        _ => {
            let packages = packages.join(" ");
            let words =
                format!("Install it as root: apt-get update && apt-get install -y {packages}");
            return Some(Remedy::Words(words));
        }
    };
    let command = |words: &[&str]| -> Vec<String> {
        let words = as_root.iter().chain(words);
        words.map(|word| (*word).to_owned()).collect()
    };
    let install: Vec<&str> = ["apt-get", "install", "-y", "--no-install-recommends"]
        .into_iter()
        .chain(packages.iter().copied())
        .collect();
    Some(Remedy::Commands(vec![
        command(&["apt-get", "update"]),
        command(&install),
    ]))
}
