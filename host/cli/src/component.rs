//! Components as files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use tidegate_control::admin::MAX_COMPONENT;

/// Reads a component; no more of it than may be deployed.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let length = File::open(path)
        .and_then(|file| {
            let length = file.metadata()?.len();
            file.take(MAX_COMPONENT as u64 + 1)
                .read_to_end(&mut bytes)?;
            Ok(length.max(bytes.len() as u64))
        })
        .with_context(|| format!("cannot read {shown}"))?;
    if bytes.len() > MAX_COMPONENT {
        let limit = MAX_COMPONENT >> 20;
        bail!("{shown} has {length} bytes, limit {MAX_COMPONENT} ({limit} MiB)");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_what_may_be_deployed() -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("a.wasm");
        std::fs::write(&path, b"abc")?;
        assert_eq!(read(&path)?, b"abc");
        File::options()
            .write(true)
            .open(&path)?
            .set_len(100 << 20)?;
        let error = read(&path).map(drop).map_err(|error| error.to_string());
        let text = error.err().unwrap_or_default();
        assert!(
            text.ends_with("a.wasm has 104857600 bytes, limit 67108864 (64 MiB)"),
            "{text}"
        );
        Ok(())
    }
}
