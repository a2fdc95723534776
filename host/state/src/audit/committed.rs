//! Where an audit ends at least: the commit log has its last line, and nobody without the state directory writes that.

use std::path::{Path, PathBuf};

use tidegate_contract::Recovered;

use super::files::number_of;
use super::log::NAME;

/// Most bytes that a run writes at once: what waits before a cut is forced, what came in at the door, and what one batch
/// of answers adds. So much can lie behind the last mark where a run was cut short.
pub const ONE_APPEND: u64 = 64 << 20;

/// The last line of an audit as a commit log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The file that it is in, as the pipeline named it.
    pub file: String,
    /// Where it ends in that.
    pub length: u64,
    /// Its hash.
    pub head: String,
    /// Whether the file is looked at where the pipeline wrote it, and not a copy elsewhere.
    in_place: bool,
}

impl Committed {
    /// What a commit log has of the audit of which this is the first file; none where it has none with a line. Of a copy that
    /// lies elsewhere it is the one that was written last.
    pub fn of(recovered: &Recovered, first: &Path) -> Option<Committed> {
        let known = recovered.sinks.iter().rev();
        let mut known = known.filter(|known| known.sink == NAME && !known.head.is_empty());
        let names = names(first);
        let is_own =
            |identity: &str| (names.iter()).any(|name| number_of(name, identity).is_some());
        let own = known.clone().find(|known| is_own(&known.identity));
        let in_place = own.is_some();
        let position = own.or_else(|| known.next())?;
        Some(Committed {
            file: position.identity.clone(),
            length: position.length,
            head: position.head.clone(),
            in_place,
        })
    }

    /// Whether the file is looked at where the pipeline wrote it.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Whether its line ends here.
    pub(super) fn is_at(&self, file: &Path, length: u64) -> bool {
        let name = Path::new(&self.file).file_name();
        length == self.length && (!self.in_place || name == file.file_name())
    }
}

/// What a path may be called in a pipeline.
fn names(first: &Path) -> Vec<PathBuf> {
    let absolute = std::path::absolute(first).ok();
    let real = (first.parent().zip(first.file_name())).and_then(|(directory, name)| {
        let directory = match directory.as_os_str().is_empty() {
            true => Path::new("."),
            false => directory,
        };
        Some(directory.canonicalize().ok()?.join(name))
    });
    absolute.into_iter().chain(real).collect()
}
