//! Checks the files that a pipeline names: what is read is there, what is written clashes with nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_state::audit::taken_by;
use tidegate_state::real_path;

use super::disk::{Directory, FileId, expand, fits};
use super::findings::{Findings, Typed};
use super::pipeline::{KafkaSink, SinkKind};
use super::text::Span;
use super::typed::TypedSinkKind;

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
    /// The first file of the audit: those that follow it have its name and a number.
    audit: Option<PathBuf>,
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
            audit: None,
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

    /// The audit, whose further files have its name and a number.
    pub(crate) fn audit(&mut self, typed: &Typed<String>) -> PathBuf {
        let path = self.written(typed);
        if let Some(first) = taken_by(&real_path(&path)) {
            self.found.about(
                typed,
                format!(
                    "{:?} is how a further file of the audit {} is called; write to another file",
                    typed.value,
                    self.directory.shown(&first)
                ),
            );
        }
        self.audit = Some(real_path(&path));
        path
    }

    /// Whether this is the name of a further file of the audit.
    fn is_of_audit(&self, path: &Path) -> bool {
        let rest = self.audit.as_ref().and_then(|audit| {
            let (audit, path) = (audit.to_str()?, path.to_str()?);
            path.strip_prefix(audit)?.strip_prefix('.')
        });
        rest.is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
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
        let state = real_path(state);
        let directories = OWN_DIRECTORIES.map(|name| real_path(&state.join(name)));
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
            } else if self.is_of_audit(path) {
                self.found.about(
                    typed,
                    format!(
                        "{:?} is how a further file of the audit is called; write to another file",
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
            } else if let Some(using) = self.directory.used(file) {
                self.found.about(
                    typed,
                    format!(
                        "{:?} is what {} names (line {}); write to another file",
                        typed.value,
                        using.key,
                        line(&using.place)
                    ),
                );
            } else if *path == state || directories.iter().any(|own| path.starts_with(own)) {
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

/// The directories that a state directory has for itself, with all that is in them.
const OWN_DIRECTORIES: [&str; 4] = ["answers", "compiled", "components", "ingest"];

/// The files that a state directory has for itself, and those that stand for them while they are replaced. `lock` is
/// what an older version left there; it is nobody's output either.
pub(crate) fn own_files(state: &Path) -> Vec<PathBuf> {
    let names = [
        "commit.log",
        "commit.log.new",
        "key",
        "key.new",
        "instance",
        "instance.new",
        "lock",
        "admin.json",
    ];
    names.iter().map(|name| state.join(name)).collect()
}

/// What something is that is neither a file nor a directory.
pub(crate) fn kind_of(facts: &fs::Metadata) -> &'static str {
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

/// Why a file is of no use that cannot be looked at.
pub(crate) fn unreadable(
    directory: &Directory,
    typed: &str,
    path: &Path,
    error: &std::io::Error,
) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        format!("there is no file {typed:?} in {}", directory.path.display())
    } else {
        format!("{} cannot be read: {error}", directory.shown(path))
    }
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
