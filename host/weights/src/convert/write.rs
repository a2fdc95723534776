//! Safetensors files, written as a stream.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::ConvertError;
use super::plan::Planned;

/// A file that has its name only when it is whole and on disk.
pub(super) struct Pending {
    temporary: PathBuf,
    path: PathBuf,
    kept: bool,
}

impl Pending {
    /// Begins a file that will be called `name` in `directory`.
    pub(super) fn begin(
        directory: &Path,
        name: &str,
    ) -> Result<(Pending, BufWriter<File>), ConvertError> {
        let pending = Pending {
            temporary: directory.join(format!(".{name}.part")),
            path: directory.join(name),
            kept: false,
        };
        let file = File::create(&pending.temporary)
            .map_err(|source| ConvertError::write(&pending.temporary, source))?;
        Ok((pending, BufWriter::with_capacity(1 << 20, file)))
    }

    /// Brings what was written to the disk.
    pub(super) fn finish(&self, writer: BufWriter<File>) -> Result<(), ConvertError> {
        let wrong = |source| ConvertError::write(&self.temporary, source);
        let file = writer
            .into_inner()
            .map_err(|error| wrong(error.into_error()))?;
        file.sync_all().map_err(wrong)
    }

    /// Gives the file its name.
    pub(super) fn keep(mut self) -> Result<PathBuf, ConvertError> {
        std::fs::rename(&self.temporary, &self.path)
            .map_err(|source| ConvertError::write(&self.path, source))?;
        self.kept = true;
        Ok(self.path.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.kept {
            // It may never have been made.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// The length and header of a safetensors file with these tensors.
pub(super) fn header(shard: &[Planned]) -> Vec<u8> {
    let mut object = Map::new();
    object.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut at = 0;
    for tensor in shard.iter().flat_map(Planned::written) {
        let end = at + tensor.bytes();
        object.insert(
            tensor.name,
            json!({
                "dtype": format!("{:?}", tensor.dtype),
                "shape": tensor.shape,
                "data_offsets": [at, end],
            }),
        );
        at = end;
    }
    let mut text = Value::Object(object).to_string().into_bytes();
    // Data begins at a multiple of 8.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.extend(text);
    header
}

/// Writes a small file whole.
pub(super) fn small(
    directory: &Path,
    name: &str,
    content: &Value,
) -> Result<Pending, ConvertError> {
    let (pending, mut writer) = Pending::begin(directory, name)?;
    let text = format!("{content:#}\n");
    writer
        .write_all(text.as_bytes())
        .map_err(|source| ConvertError::write(&pending.temporary, source))?;
    pending.finish(writer)?;
    Ok(pending)
}
