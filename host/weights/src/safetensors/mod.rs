//! Weights in the safetensors format: one file, or several under an index.
//!
//! Format: a u64 length, a JSON header, data. Every offset in it is checked by the `safetensors` crate before any tensor
//! is looked at. The index is transformers' `model.safetensors.index.json`: `weight_map` names the file of each tensor.

mod damage;
mod lookup;
mod packed;
mod together;
mod unread;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::checkpoint::{FileBytes, ReadFile, json, read};
use crate::error::CheckpointError;

pub(crate) use lookup::{SCALE_SUFFIX, Weights};

/// One file with all tensors.
pub(crate) const WHOLE: &str = "model.safetensors";

/// Names the files that the tensors are in.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Most files of a model.
const MOST_SHARDS: usize = 1 << 12;

/// The tensors of one or more safetensors files.
pub(crate) struct Store {
    shards: Vec<Shard>,
    tensors: BTreeMap<String, Entry>,
}

/// One of the files.
struct Shard {
    path: PathBuf,
    bytes: FileBytes,
}

/// Where a tensor lies.
struct Entry {
    shard: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// A tensor as it is stored.
pub(crate) struct StoredTensor<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: &'a [u8],
}

/// Most bytes of a tensor that may be taken for nothing but zeros. A bias of a model that is published has a few hundred KiB, zero
/// points of a matrix a few MiB: what is larger is neither, and is not read through to find that out.
const MOST_ZEROS: usize = 16 << 20;

impl StoredTensor<'_> {
    /// Whether it is all zeros, and no larger than biases and zero points are.
    fn is_of_zeros(&self) -> bool {
        self.bytes.len() <= MOST_ZEROS && self.bytes.iter().all(|byte| *byte == 0)
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Store {
    /// Opens the weights in a model's directory; nothing if there are none.
    pub(crate) fn open(
        directory: &Path,
        files: &dyn ReadFile,
    ) -> Result<Option<Store>, CheckpointError> {
        let mut store = Store {
            shards: Vec::new(),
            tensors: BTreeMap::new(),
        };
        let whole = directory.join(WHOLE);
        if let Some(bytes) = read(files, &whole)? {
            store.add(whole, bytes)?;
            return Ok(Some(store));
        }
        let path = directory.join(INDEX);
        let Some(bytes) = read(files, &path)? else {
            return Ok(None);
        };
        let index: Index = json(&path, (*bytes).as_ref(), "an index of safetensors files")?;
        let wrong = |reason: String| CheckpointError::Index {
            path: path.clone(),
            reason,
        };
        let mut names: Vec<&str> = index.weight_map.values().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() || names.len() > MOST_SHARDS {
            let found = names.len();
            return Err(wrong(format!(
                "it names {found} files, must be between 1 and {MOST_SHARDS}"
            )));
        }
        for name in &names {
            if !is_plain_file_name(name) {
                return Err(wrong(format!(
                    "{name:?} is not the plain name of a .safetensors file in this directory"
                )));
            }
            let shard = directory.join(name);
            let bytes = read(files, &shard)?
                .ok_or_else(|| wrong(format!("it names the file {name:?}, which is not there")))?;
            store.add(shard, bytes)?;
        }
        for (tensor, file) in &index.weight_map {
            let entry = store.tensors.get(tensor);
            let there = entry.is_some_and(|entry| {
                store.shards[entry.shard].path.file_name() == Some(file.as_ref())
            });
            if !there {
                return Err(wrong(format!(
                    "it says that tensor `{tensor}` is in {file:?}, where it is not"
                )));
            }
        }
        Ok(Some(store))
    }

    /// Opens one file; nothing if it is not there.
    pub(crate) fn open_file(
        path: &Path,
        files: &dyn ReadFile,
    ) -> Result<Option<Store>, CheckpointError> {
        let Some(bytes) = read(files, path)? else {
            return Ok(None);
        };
        let mut store = Store {
            shards: Vec::new(),
            tensors: BTreeMap::new(),
        };
        store.add(path.to_owned(), bytes)?;
        Ok(Some(store))
    }

    fn add(&mut self, path: PathBuf, bytes: FileBytes) -> Result<(), CheckpointError> {
        let content: &[u8] = (*bytes).as_ref();
        let header = |reason: String| CheckpointError::Header {
            path: path.clone(),
            kind: "safetensors",
            bytes: content.len() as u64,
            reason,
        };
        let (length, metadata) = SafeTensors::read_metadata(content)
            .map_err(|error| header(damage::reason(content, &error)))?;
        let data = length + 8;
        let shard = self.shards.len();
        for (name, info) in metadata.tensors() {
            let entry = Entry {
                shard,
                dtype: info.dtype,
                shape: info.shape.clone(),
                range: data + info.data_offsets.0..data + info.data_offsets.1,
            };
            if let Some(before) = self.tensors.insert(name.clone(), entry) {
                let other = self
                    .shards
                    .get(before.shard)
                    .map_or(&path, |shard| &shard.path);
                return Err(header(format!(
                    "tensor `{name}` is in {} too",
                    other.display()
                )));
            }
        }
        self.shards.push(Shard { path, bytes });
        Ok(())
    }

    /// A tensor, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<StoredTensor<'_>> {
        let entry = self.tensors.get(name)?;
        let content: &[u8] = (*self.shards.get(entry.shard)?.bytes).as_ref();
        Some(StoredTensor {
            dtype: entry.dtype,
            shape: &entry.shape,
            bytes: content.get(entry.range.clone())?,
        })
    }

    /// Names of every tensor, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The files, in the order of their names, with their content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.shards
            .iter()
            .map(|shard| (shard.path.as_path(), (*shard.bytes).as_ref()))
    }
}

/// Whether a name out of an index is a file of the same directory on every system.
fn is_plain_file_name(name: &str) -> bool {
    name.ends_with(".safetensors")
        && !name.starts_with('.')
        && name.len() <= 255
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}
