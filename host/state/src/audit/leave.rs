//! A chain that is no longer written: what a crash left behind its last cut is taken away before others go on without it.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_contract::{FileLayer, SinkError, SinkPosition};

use super::files::{chain_of, no_file_of_it, number_of, numbered};
use super::log::NAME;
use super::recover::{begins_after, fail, head_of, open};

/// The chain that was written last, if that is none whose first file is `goes_on` and its last run was cut short.
pub fn cut_short<'k>(
    known: &'k [SinkPosition],
    goes_on: Option<&Path>,
) -> Option<&'k SinkPosition> {
    let last = known.iter().rev().find(|known| known.sink == NAME)?;
    let is_left = goes_on.is_none_or(|first| number_of(first, &last.identity).is_none());
    (is_left && !last.ended).then_some(last)
}

/// Takes away what lies behind the last cut of a chain whose last run was cut short. Returns what the commit log is to have
/// of it: that it is as a run that ended leaves it. Nothing is taken from a file that does not end, at the last cut, with the
/// line that the log has.
pub fn settle(layer: &dyn FileLayer, left: &SinkPosition) -> Result<SinkPosition, SinkError> {
    let path = PathBuf::from(&left.identity);
    let io = |error: io::Error| fail(&path, error.to_string());
    let settled = SinkPosition {
        ended: true,
        ..left.clone()
    };
    let Some(found) = layer.length(&path).map_err(io)? else {
        // One that was never begun leaves nothing.
        return match left.length {
            0 => Ok(settled),
            _ => Err(fail(&path, "it is not there".to_owned())),
        };
    };
    if let Some(what) = layer.no_file(&path).map_err(io)? {
        return Err(fail(&path, no_file_of_it(what)));
    }
    let mut file = open(layer, &path)?;
    let lines = match left.length {
        0 if found == 0 => return Ok(settled),
        0 => {
            return Err(fail(
                &path,
                format!("no line of its {found} bytes is known"),
            ));
        }
        length => {
            let bytes = file.read().map_err(io)?;
            let whole = bytes.get(..length as usize).and_then(head_of);
            let head = whole.filter(|head| head.hash == left.head);
            let head = head.ok_or_else(|| {
                fail(
                    &path,
                    format!("byte {length} does not end line {}", left.head),
                )
            })?;
            head.lines
        }
    };
    // One that was begun and not committed. The name alone does not tell whether it is the first file that ends so.
    let first = Path::new(chain_of(&left.identity));
    let next = number_of(first, &left.identity).map(|number| numbered(first, number + 1));
    for next in next.into_iter().chain([numbered(&path, 2)]) {
        let io = |error: io::Error| fail(&next, error.to_string());
        if layer
            .length(&next)
            .map_err(io)?
            .is_none_or(|length| length == 0)
        {
            continue;
        }
        let mut begun = open(layer, &next)?;
        if begins_after(&begun.read().map_err(io)?, lines) {
            begun.truncate(0).map_err(io)?;
        }
    }
    if found > left.length {
        file.truncate(left.length).map_err(io)?;
    }
    Ok(settled)
}
