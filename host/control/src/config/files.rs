//! Checks the files that a pipeline names: what is read is there, what is written clashes with nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_state::real_path;

use super::disk::{Directory, FileId, expand, fits};
use super::findings::{Findings, Typed};
use super::pipeline::{KafkaSink, SinkKind};
use super::text::Span;
use super::typed::TypedSinkKind;
use crate::admin::MAX_COMPONENT;

/// The files that are read and written.
pub(crate) struct Files<'f> {
    found: &'f Findings,
    directory: &'f Directory,
    /// Every file read.
    read: BTreeMap<FileId, Typed<String>>,
    patterns: Vec<(PathBuf, Typed<String>)>,
    /// Every file written, with its one path.
    written: Vec<(FileId, PathBuf, Typed<String>)>,
    summary: Option<PathBuf>,
    stdout: Option<String>,
}

impl<'f> Files<'f> {
    pub(crate) fn new(found: &'f Findings, directory: &'f Directory) -> Self {
        Self {
            found,
            directory,
            read: BTreeMap::new(),
            patterns: Vec::new(),
            written: Vec::new(),
            summary: None,
            stdout: None,
        }
    }

    /// What a sink writes.
    pub(crate) fn sink(&mut self, kind: TypedSinkKind) -> SinkKind {
        match kind {
            TypedSinkKind::File(path) => SinkKind::File {
                path: self.written(&path),
            },
            TypedSinkKind::Stdout { place, key } => {
                if let Some(other) = &self.stdout {
                    self.found.warning(
                        &place,
                        &key,
                        format!("{other} writes standard output too; their lines will mix"),
                    );
                }
                self.stdout = Some(key);
                SinkKind::Stdout
            }
            TypedSinkKind::Gateway { field } => SinkKind::Gateway {
                // Where it is not told, the stages before the sink say it.
                field: field.unwrap_or_default(),
            },
            TypedSinkKind::Output {
                max_records,
                max_bytes,
            } => SinkKind::Output {
                max_records,
                max_bytes,
            },
            TypedSinkKind::Kafka(topic) => SinkKind::Kafka(KafkaSink {
                brokers: topic.brokers,
                topic: topic.topic.value,
                properties: topic.properties,
                made: None,
                places: topic.places,
            }),
        }
    }

    /// A file that is written.
    pub(crate) fn written(&mut self, typed: &Typed<String>) -> PathBuf {
        let path = self.directory.resolve(&typed.value);
        let what = if typed.value.is_empty() || typed.value.ends_with('/') {
            Some(format!(
                "{:?} is not the path of a file; write for example \"out/answers.jsonl\"",
                typed.value
            ))
        } else if path.is_dir() {
            Some(format!(
                "{:?} is a directory; name a file in it",
                typed.value
            ))
        } else if let Some(facts) = fs::metadata(&path).ok().filter(|facts| !facts.is_file()) {
            let instead = if typed.key.ends_with(".path") {
                "name a file, or use type = \"stdout\""
            } else {
                "name a file"
            };
            Some(format!(
                "{:?} is {}; {instead}",
                typed.value,
                kind_of(&facts)
            ))
        } else if let Some(file) = path.ancestors().skip(1).find(|above| above.is_file()) {
            Some(format!(
                "{:?} cannot be made: {} is a file, not a directory",
                typed.value,
                self.directory.shown(file)
            ))
        } else {
            None
        };
        match what {
            Some(what) => self.found.about(typed, what),
            None => {
                let written = (FileId::of(&path), real_path(&path), typed.clone());
                self.written.push(written);
            }
        }
        path
    }

    /// The summary, which is written anew at the end of a run.
    pub(crate) fn summary(&mut self, typed: &Typed<String>) -> PathBuf {
        let path = self.written(typed);
        self.summary = Some(path.clone());
        path
    }

    /// What of sources reads this file, or would once it is there, in the order of the pipeline file.
    fn readings(&self, file: &FileId, path: &Path) -> Vec<&Typed<String>> {
        let real = real_path(path);
        let patterns = self.patterns.iter();
        let patterns = patterns.filter(|(pattern, _)| fits(pattern, &real));
        let mut readings: Vec<_> = self.read.get(file).into_iter().collect();
        readings.extend(patterns.map(|(_, typed)| typed));
        readings.sort_by_key(|typed| typed.place.0.start);
        // A pattern stands for the files that are there.
        readings.dedup_by_key(|typed| typed.place.0.start);
        readings
    }

    /// A source that read the dead letters would make more of them, without end. Of a pattern the first file is told.
    fn check_own_files_read(&self, own: &[PathBuf]) {
        let mut told = BTreeSet::new();
        for path in own {
            for typed in self.readings(&FileId::of(path), path) {
                if !told.insert(typed.place.0.start) {
                    continue;
                }
                self.found.about(
                    typed,
                    format!(
                        "{:?} is, or stands for, {}, a file of the state directory itself; read another file",
                        typed.value,
                        self.directory.shown(path)
                    ),
                );
            }
        }
    }

    /// No file is written twice, or written and read, or is one that the pipeline itself lives by.
    pub(crate) fn check_clashes(&self, pipeline: &Path, state: &Path, own: &[PathBuf]) {
        let pipeline = FileId::of(pipeline);
        let directories = [
            state.to_path_buf(),
            state.join("components"),
            state.join("compiled"),
        ]
        .map(|path| FileId::of(&path));
        self.check_own_files_read(own);
        let own: Vec<FileId> = own.iter().map(|path| FileId::of(path)).collect();
        let summary = self.summary.as_ref().map(|summary| replaced_by(summary));
        let replaced = summary.as_deref().map(FileId::of);
        if let (Some(file), Some(path)) = (&replaced, &summary) {
            for typed in self.readings(file, path) {
                self.found.about(
                    typed,
                    format!(
                        "{:?} stands for the summary while that is written; read another file",
                        typed.value
                    ),
                );
            }
        }
        let mut seen: BTreeMap<&FileId, &Typed<String>> = BTreeMap::new();
        for (file, path, typed) in &self.written {
            let line = |place: &Span| self.found.text.position(place).line;
            if let Some(other) = seen.insert(file, typed) {
                self.found.about(
                    typed,
                    format!(
                        "{:?} is written by {} already (line {}); give each its own file",
                        typed.value,
                        other.key.trim_end_matches(".path"),
                        line(&other.place)
                    ),
                );
            } else if *file == pipeline {
                self.found.about(
                    typed,
                    format!(
                        "{:?} is the pipeline file itself; write to another file",
                        typed.value
                    ),
                );
            } else if own.contains(file) {
                self.found.about(
                    typed,
                    format!(
                        "{:?} is a file of the state directory itself; write to another file",
                        typed.value
                    ),
                );
            } else if replaced.as_ref() == Some(file) {
                self.found.about(
                    typed,
                    format!(
                        "{:?} stands for the summary while that is written; write to another file",
                        typed.value
                    ),
                );
            } else if let Some(reading) = self.read.get(file) {
                self.found.about(
                    typed,
                    format!(
                        "{:?} is read by a source (line {}); write to another file",
                        typed.value,
                        line(&reading.place)
                    ),
                );
            } else if let Some((pattern, _)) = self
                .patterns
                .iter()
                .find(|(pattern, _)| fits(pattern, path))
            {
                self.found.about(
                    typed,
                    format!(
                        "{:?} would be read by a source through {}; write to another directory",
                        typed.value,
                        self.directory.shown(pattern)
                    ),
                );
            } else if directories.contains(file) {
                self.found.about(
                    typed,
                    format!(
                        "{:?} is where the state directory has its own files; write to another file",
                        typed.value
                    ),
                );
            }
        }
    }
}

/// What stands for a file while it is written anew: whatever has that name is removed first.
fn replaced_by(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// The files of a source, patterns expanded.
pub(crate) fn source_files(files: &mut Files<'_>, typed: &[Typed<String>]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for each in typed {
        let path = files.directory.resolve(&each.value);
        let wrong = |what: String| {
            files.found.about(each, what);
            Vec::new()
        };
        let last = path.file_name().unwrap_or_default().to_string_lossy();
        let above = path.parent().map(|above| above.to_string_lossy());
        let matching = if above.is_some_and(|above| above.contains('*'))
            && each
                .value
                .rsplit_once('/')
                .is_some_and(|(above, _)| above.contains('*'))
        {
            wrong(format!(
                "{:?}: * may stand in the last part of a path only",
                each.value
            ))
        } else if last.contains('*') {
            let real = path
                .parent()
                .map_or_else(|| path.clone(), |above| real_path(above).join(&*last));
            files.patterns.push((real, each.clone()));
            match expand(&path) {
                Ok(matching) if matching.is_empty() => {
                    wrong(format!("{:?} stands for no file", each.value))
                }
                Ok(matching) => matching,
                Err(error) => wrong(format!("{:?} cannot be listed: {error}", each.value)),
            }
        } else {
            match fs::metadata(&path) {
                Ok(facts) if facts.is_dir() => wrong(format!(
                    "{:?} is a directory; write for example {:?}",
                    each.value,
                    format!("{}/*.jsonl", each.value.trim_end_matches('/'))
                )),
                Ok(facts) if !facts.is_file() => wrong(format!(
                    "{:?} is {}; name a file, or use type = \"stdin\"",
                    each.value,
                    kind_of(&facts)
                )),
                Ok(_) => vec![path],
                Err(error) => wrong(unreadable(files.directory, &each.value, &path, &error)),
            }
        };
        for path in matching {
            let place = files.read.insert(FileId::of(&path), each.clone());
            match place {
                None => all.push(path),
                Some(before) => files.found.about(
                    each,
                    format!(
                        "{} is read already (line {})",
                        files.directory.shown(&path),
                        files.found.text.position(&before.place).line
                    ),
                ),
            }
        }
    }
    all
}

/// The files that a state directory has for itself, and those that stand for them while they are replaced. `lock` is
/// what an older version left there; it is nobody's output either.
pub(crate) fn own_files(state: &Path) -> Vec<PathBuf> {
    let names = [
        "commit.log",
        "commit.log.new",
        "key",
        "key.new",
        "lock",
        "admin.json",
    ];
    names.iter().map(|name| state.join(name)).collect()
}

/// What something is that is neither a file nor a directory.
fn kind_of(facts: &fs::Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = facts.file_type();
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if facts.is_dir() {
        "a directory"
    } else {
        "not a file"
    }
}

fn unreadable(directory: &Directory, typed: &str, path: &Path, error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        format!("there is no file {typed:?} in {}", directory.0.display())
    } else {
        format!("{} cannot be read: {error}", directory.shown(path))
    }
}

/// The file of records that an operator is tried on.
pub(crate) fn check_samples(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    let path = directory.resolve(&typed.value);
    match fs::metadata(&path) {
        Ok(facts) if facts.is_file() => {}
        Ok(_) => found.about(
            typed,
            format!(
                "{:?} is not a file; name one of records, a line of JSON each",
                typed.value
            ),
        ),
        Err(error) => found.about(typed, unreadable(directory, &typed.value, &path, &error)),
    }
    path
}

/// A file that is read while the pipeline runs, such as a certificate.
pub(crate) fn check_file(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    let path = directory.resolve(&typed.value);
    match fs::metadata(&path) {
        Ok(facts) if facts.is_dir() => {
            found.about(
                typed,
                format!("{:?} is a directory; name a file", typed.value),
            );
        }
        Ok(_) => {}
        Err(error) => found.about(typed, unreadable(directory, &typed.value, &path, &error)),
    }
    path
}

/// An operator's file.
pub(crate) fn check_component(
    found: &Findings,
    directory: &Directory,
    typed: &Typed<String>,
) -> PathBuf {
    let path = directory.resolve(&typed.value);
    match fs::metadata(&path) {
        Ok(facts) if facts.is_file() && facts.len() <= MAX_COMPONENT as u64 => {}
        Ok(facts) if facts.is_file() => found.about(
            typed,
            format!(
                "{:?} has {} bytes, limit {MAX_COMPONENT} ({} MiB)",
                typed.value,
                facts.len(),
                MAX_COMPONENT >> 20
            ),
        ),
        Ok(_) => found.about(
            typed,
            format!(
                "{:?} is not a file; name the component, a .wasm file",
                typed.value
            ),
        ),
        Err(error) => found.about(typed, unreadable(directory, &typed.value, &path, &error)),
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
                directory.0.display()
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

/// The state directory: it may be missing.
pub(crate) fn check_state(
    found: &Findings,
    directory: &Directory,
    typed: Option<&Typed<String>>,
) -> PathBuf {
    let Some(typed) = typed else {
        return directory.resolve("state");
    };
    let path = directory.resolve(&typed.value);
    if typed.value.is_empty() {
        found.about(
            typed,
            "\"\" is not a directory; write for example \"state\"",
        );
    } else if path.exists() && !path.is_dir() {
        found.about(
            typed,
            format!(
                "{:?} is a file; name a directory, which may be missing",
                typed.value
            ),
        );
    }
    path
}
