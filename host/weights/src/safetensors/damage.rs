//! What is wrong with a file whose header the `safetensors` crate refuses, with the value and the limit.

use std::collections::BTreeMap;

use safetensors::SafeTensorError;
use serde::Deserialize;

/// Bytes of the length at the beginning.
const LENGTH: usize = 8;
/// Longest header that the crate takes.
const LONGEST_HEADER: u64 = 100_000_000;

/// What `error` says of the file `content`.
pub(super) fn reason(content: &[u8], error: &SafeTensorError) -> String {
    match error {
        SafeTensorError::HeaderTooSmall => {
            format!("it begins with a length of {LENGTH} bytes")
        }
        SafeTensorError::HeaderTooLarge | SafeTensorError::InvalidHeaderLength => {
            match header_length(content) {
                Some(length) if length > LONGEST_HEADER => format!(
                    "its header should be {length} bytes long, the limit is {LONGEST_HEADER}"
                ),
                Some(length) => format!("its header should be {length} bytes long"),
                None => error.to_string(),
            }
        }
        SafeTensorError::MetadataIncompleteBuffer => match announced(content) {
            Some(bytes) => format!("its header announces {bytes} bytes"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

fn header_length(content: &[u8]) -> Option<u64> {
    let (length, _) = content.split_first_chunk::<LENGTH>()?;
    Some(u64::from_le_bytes(*length))
}

#[derive(Deserialize)]
struct Announced {
    data_offsets: (u64, u64),
}

/// Bytes that the file should have: to the end of the tensor that lies last.
fn announced(content: &[u8]) -> Option<u64> {
    let length = header_length(content)?;
    let (_, rest) = content.split_first_chunk::<LENGTH>()?;
    let header = rest.get(..usize::try_from(length).ok()?)?;
    let entries: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
    let ends = entries
        .into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(_, entry)| Announced::deserialize(entry).map(|entry| entry.data_offsets.1));
    let end: u64 = ends
        .collect::<Result<Vec<u64>, _>>()
        .ok()?
        .into_iter()
        .max()?;
    end.checked_add(length)?.checked_add(LENGTH as u64)
}
