//! A model in several files, as `llama-gguf-split` and the gguf package write them.
//!
//! Every part is a GGUF file by itself with the keys `split.no` (from 0), `split.count` and `split.tensors.count`. The first
//! has the keys of the model. Their names end in `-00001-of-00003.gguf`, counted from 1.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::header::{Entry, Header, MOST_TENSORS, Value};
use super::keys::Keys;
use super::{GgufError, PartError};
use crate::checkpoint::{FileBytes, ReadFile, read};
use crate::config::ConfigError;
use crate::error::CheckpointError;

/// Most parts of a model.
pub(crate) const MOST_PARTS: u64 = 1024;

const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// A file of a model.
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) bytes: FileBytes,
}

/// The files of a model, in order.
pub(super) struct Parts(pub(super) Vec<Part>);

impl Parts {
    /// The bytes of a tensor; none of a file that there is not.
    pub(super) fn data(&self, entry: &Entry) -> &[u8] {
        let part = self.0.get(entry.part);
        part.and_then(|part| (*part.bytes).as_ref().get(entry.range.clone()))
            .unwrap_or_default()
    }

    /// The first file, by which the model is called where its keys are wrong.
    pub(super) fn first(&self) -> &Path {
        self.0.first().map_or(Path::new(""), |part| &part.path)
    }
}

/// What a header says of its place among the parts.
#[derive(Clone, Copy)]
pub(super) struct Split {
    /// From 0.
    pub(super) number: u64,
    /// Of all parts; more than 1.
    pub(super) count: u64,
}

impl Split {
    /// Nothing of a file that is whole.
    pub(super) fn of(keys: &BTreeMap<String, Value>) -> Result<Option<Split>, ConfigError> {
        let keys = Keys(keys);
        let Some(count) = keys.count(COUNT)?.filter(|count| *count > 1) else {
            return Ok(None);
        };
        if count > MOST_PARTS {
            let limit = format!("at most {MOST_PARTS}");
            return Err(ConfigError::out_of_range(COUNT, count, limit));
        }
        let number = keys
            .count(NUMBER)?
            .ok_or_else(|| ConfigError::missing(NUMBER))?;
        if number >= count {
            let limit = format!("below {COUNT}, {count}");
            return Err(ConfigError::out_of_range(NUMBER, number, limit));
        }
        Ok(Some(Split { number, count }))
    }
}

/// The end of the name of part `number` (from 0) of `count`.
fn ending(number: u64, count: u64) -> String {
    format!("-{:05}-of-{count:05}.gguf", number + 1)
}

/// The path of every part, given the path of one, whose name must say what its header says.
pub(super) fn paths(path: &Path, split: Split) -> Result<Vec<PathBuf>, PartError> {
    let ending_here = ending(split.number, split.count);
    let name = path.file_name().and_then(|name| name.to_str());
    let stem = name.and_then(|name| {
        let at = name.len().checked_sub(ending_here.len())?;
        let (stem, end) = (name.get(..at)?, name.get(at..)?);
        end.eq_ignore_ascii_case(&ending_here).then_some(stem)
    });
    let Some(stem) = stem else {
        return Err(PartError::Name {
            number: split.number + 1,
            count: split.count,
            ending: ending_here,
        });
    };
    Ok((0..split.count)
        .map(|number| match number == split.number {
            true => path.to_owned(),
            false => path.with_file_name(format!("{stem}{}", ending(number, split.count))),
        })
        .collect())
}

/// Reads the header of a file, and of all other parts if it is one of several; gives the keys of the first part and the
/// tensors of all.
pub(super) fn open(path: &Path, files: &dyn ReadFile) -> Result<(Header, Parts), CheckpointError> {
    let bytes = read(files, path)?.ok_or_else(|| CheckpointError::NoModel {
        path: path.to_owned(),
    })?;
    let header = parse(path, &bytes)?;
    let split = Split::of(&header.keys).map_err(|source| CheckpointError::Config {
        path: path.to_owned(),
        source,
    })?;
    let Some(split) = split else {
        let path = path.to_owned();
        return Ok((header, Parts(vec![Part { path, bytes }])));
    };
    // Headers can be large, and that of this part is read again with the others.
    drop(header);
    let paths = paths(path, split).map_err(|source| wrong(path, source))?;
    let mut parts = Vec::with_capacity(paths.len());
    let mut missing = Vec::new();
    for path in paths {
        match read(files, &path)? {
            Some(bytes) => parts.push(Part { path, bytes }),
            None => missing.push(path),
        }
    }
    if !missing.is_empty() {
        return Err(CheckpointError::MissingParts {
            path: path.to_owned(),
            count: split.count,
            missing,
        });
    }
    let parts = Parts(parts);
    Ok((join(&parts, split.count)?, parts))
}

pub(super) fn parse(path: &Path, bytes: &FileBytes) -> Result<Header, CheckpointError> {
    let content: &[u8] = (**bytes).as_ref();
    Header::parse(content).map_err(|source| CheckpointError::Gguf {
        path: path.to_owned(),
        bytes: content.len() as u64,
        source,
    })
}

fn wrong(path: &Path, source: PartError) -> CheckpointError {
    CheckpointError::Part {
        path: path.to_owned(),
        source,
    }
}

/// The header of the first part with the tensors of all, if they belong together.
fn join(parts: &Parts, count: u64) -> Result<Header, CheckpointError> {
    let mut whole: Option<Header> = None;
    for (index, part) in parts.0.iter().enumerate() {
        let mut header = parse(&part.path, &part.bytes)?;
        let split = Split::of(&header.keys).map_err(|source| CheckpointError::Config {
            path: part.path.clone(),
            source,
        })?;
        let refuse = |source| Err(wrong(&part.path, source));
        let number = index as u64 + 1;
        match split {
            None => return refuse(PartError::Whole { number, count }),
            Some(split) if split.count != count => {
                return refuse(PartError::Count {
                    found: split.count,
                    count,
                });
            }
            Some(split) if split.number != index as u64 => {
                return refuse(PartError::Number {
                    found: split.number + 1,
                    number,
                });
            }
            Some(_) => {}
        }
        header
            .tensors
            .values_mut()
            .for_each(|entry| entry.part = index);
        let Some(whole) = &mut whole else {
            whole = Some(header);
            continue;
        };
        if let Some(key) = differing(&whole.keys, &header.keys) {
            let first = parts.first().to_owned();
            return refuse(PartError::Key { key, first });
        }
        for (name, entry) in header.tensors {
            if let Some(other) = whole.tensors.get(&name).and_then(|e| parts.0.get(e.part)) {
                let other = other.path.clone();
                return refuse(PartError::Tensor { name, other });
            }
            whole.tensors.insert(name, entry);
        }
        if whole.tensors.len() as u64 > MOST_TENSORS {
            return Err(CheckpointError::Gguf {
                path: part.path.clone(),
                bytes: (*part.bytes).as_ref().len() as u64,
                source: GgufError::TooMany {
                    what: "the number of tensors of all parts so far".to_owned(),
                    count: whole.tensors.len() as u64,
                    limit: MOST_TENSORS,
                },
            });
        }
    }
    let whole = whole.unwrap_or_else(Header::empty);
    let in_config = |source| CheckpointError::Config {
        path: parts.first().to_owned(),
        source,
    };
    let expected = Keys(&whole.keys).count(TENSORS).map_err(in_config)?;
    let found = whole.tensors.len() as u64;
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        return Err(wrong(
            parts.first(),
            PartError::Tensors {
                count,
                found,
                expected,
            },
        ));
    }
    Ok(whole)
}

/// A key that two parts have with different values, but for their number.
fn differing(first: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) -> Option<String> {
    let differs = |(key, value): &(&String, &Value)| {
        *key != NUMBER && first.get(*key).is_some_and(|first| !first.is(value))
    };
    other.iter().find(differs).map(|(key, _)| key.clone())
}
