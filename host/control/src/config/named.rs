//! Checks the files that the program lives by, each named by itself: components, models, certificates, texts. No output may
//! be written in their place.

use std::fs;
use std::path::PathBuf;

use super::disk::Directory;
use super::files::{kind_of, unreadable};
use super::findings::{Findings, Typed};
use crate::admin::MAX_COMPONENT;

/// The path of a file that the program lives by, and what `wrong` finds in what is there, if anything is.
fn check(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
    wrong: impl FnOnce(&fs::Metadata) -> Option<String>,
) -> PathBuf {
    let path = directory.resolve(&typed.value);
    directory.uses(&path, typed);
    let mistake = match fs::metadata(&path) {
        Ok(facts) => wrong(&facts),
        Err(error) => Some(unreadable(directory, &typed.value, &path, &error)),
    };
    if let Some(mistake) = mistake {
        found.about(typed, mistake);
    }
    path
}

/// The file of records that an operator is tried on.
pub(crate) fn check_samples(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    check(found, directory, typed, |facts| {
        let what = "is not a file; name one of records, a line of JSON each";
        (!facts.is_file()).then(|| format!("{:?} {what}", typed.value))
    })
}

/// A file that is read while the pipeline runs, such as a certificate.
pub(crate) fn check_file(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    check(found, directory, typed, |facts| {
        let what = "is a directory; name a file";
        facts.is_dir().then(|| format!("{:?} {what}", typed.value))
    })
}

/// A file that each machine has of its own: one that is not there yet is no mistake of the pipeline file.
pub(crate) fn check_file_of_machine(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    let path = directory.resolve(&typed.value);
    match fs::metadata(&path) {
        Ok(_) => check_file(found, directory, typed),
        Err(_) => {
            directory.uses(&path, typed);
            path
        }
    }
}

/// An operator's file.
pub(crate) fn check_component(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    check(found, directory, typed, |facts| {
        if !facts.is_file() {
            let what = "is not a file; name the component, a .wasm file";
            return Some(format!("{:?} {what}", typed.value));
        }
        (facts.len() > MAX_COMPONENT as u64).then(|| {
            format!(
                "{:?} has {} bytes, limit {MAX_COMPONENT} ({} MiB)",
                typed.value,
                facts.len(),
                MAX_COMPONENT >> 20
            )
        })
    })
}

/// What a model's directory has at least, and beside it.
const MODEL_FILES: [&str; 4] = [
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
];

/// What an adapter's directory has.
const ADAPTER_FILES: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

/// The directory of a low-rank adapter.
pub(crate) fn check_adapter(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    let path = directory.resolve(&typed.value);
    for file in ADAPTER_FILES {
        directory.uses(&path.join(file), typed);
    }
    let missing = ADAPTER_FILES
        .into_iter()
        .filter(|file| !path.join(file).is_file());
    let missing: Vec<&str> = missing.collect();
    if !path.is_dir() {
        let what = format!(
            "there is no directory {:?} in {}",
            typed.value,
            directory.path.display()
        );
        found.about(typed, what);
    } else if !missing.is_empty() {
        let what = format!("{:?} has no {}", typed.value, missing.join(", no "));
        found.about(typed, what);
    }
    path
}

/// A model's directory, or its `.gguf` file.
pub(crate) fn check_model(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    let path = directory.resolve(&typed.value);
    let has = |file: &str| path.join(file).is_file();
    if path.is_dir() {
        for file in MODEL_FILES {
            directory.uses(&path.join(file), typed);
        }
    } else {
        directory.uses(&path, typed);
    }
    let weights = has("model.safetensors") || has("model.safetensors.index.json");
    let missing: Vec<&str> = [
        ("config.json", has("config.json")),
        ("model.safetensors", weights),
        ("tokenizer.json", has("tokenizer.json")),
    ]
    .into_iter()
    .filter_map(|(file, there)| (!there).then_some(file))
    .collect();
    let is_gguf = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let usable = path.is_dir() || is_gguf && path.is_file();
    if !path.exists() {
        found.about(
            typed,
            format!(
                "there is no directory and no .gguf file {:?} in {}",
                typed.value,
                directory.path.display()
            ),
        );
    } else if !usable {
        found.about(
            typed,
            format!(
                "{:?} is a file; name the directory with config.json, model.safetensors and tokenizer.json, or a .gguf file",
                typed.value
            ),
        );
    } else if path.is_dir() && !missing.is_empty() {
        found.about(
            typed,
            format!("{:?} has no {}", typed.value, missing.join(", no ")),
        );
    }
    path
}

/// A small text that belongs to the pipeline, as a schema or a grammar.
pub(crate) fn read_text(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
    longest: u64,
) -> Option<String> {
    let path = directory.resolve(&typed.value);
    directory.uses(&path, typed);
    let what = match fs::metadata(&path) {
        Ok(facts) if facts.is_file() && facts.len() <= longest => match fs::read(&path) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => return Some(text),
                Err(error) => format!(
                    "{:?} is not UTF-8 at byte {}",
                    typed.value,
                    error.utf8_error().valid_up_to()
                ),
            },
            Err(error) => unreadable(directory, &typed.value, &path, &error),
        },
        Ok(facts) if facts.is_file() => format!(
            "{:?} has {} bytes; at most {longest} are read",
            typed.value,
            facts.len()
        ),
        Ok(facts) => format!("{:?} is {}; name a file", typed.value, kind_of(&facts)),
        Err(error) => unreadable(directory, &typed.value, &path, &error),
    };
    found.about(typed, what);
    None
}
