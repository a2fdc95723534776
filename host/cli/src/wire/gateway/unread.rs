//! What clients handed over to a source that the pipeline no longer has.

use std::collections::BTreeMap;

use tidegate_contract::{TaskId, TaskImage};
use tidegate_control::config::{Pipeline, SourceKind};
use tidegate_state::UnreadLog;

use crate::wire::again;

/// Why this pipeline cannot run over its state directory: records were acknowledged that no cut has, and nobody would read
/// them. `tasks` is what the commit log has.
pub(crate) fn refusal(
    pipeline: &Pipeline,
    tasks: &BTreeMap<TaskId, TaskImage>,
) -> anyhow::Result<Option<String>> {
    let is_read = |name: &str| {
        let mut sources = pipeline.sources.iter();
        sources.any(|one| one.name == name && matches!(one.kind, SourceKind::Ingest(_)))
    };
    let letters = |name: &str| again::in_log(pipeline).any(|(_, known)| known == name);
    let letters = UnreadLog::all(&pipeline.state, again::DIRECTORY, letters)?;
    let refused: Vec<String> = UnreadLog::all(&pipeline.state, "ingest", is_read)?
        .iter()
        .filter_map(|log| {
            let records = match log.waiting(tasks) {
                0 => return None,
                1 => "1 record".to_owned(),
                records => format!("{records} records"),
            };
            Some(format!(
                "{records} of ingest source {} wait in {}, acknowledged and not read, and the pipeline no longer has the \
                 source; give it its name back, let the pipeline finish, then rename or remove it, or delete the directory \
                 and with it the records",
                log.source,
                log.directory.display()
            ))
        })
        .chain(letters.iter().filter_map(|log| {
            let records = log.waiting(tasks);
            (records > 0).then(|| {
                format!(
                    "{records} dead letters wait in {}, sent again as {} and not read, and the pipeline no longer has what \
                     reads them; give the source its name back, or have cuts in the commit log, let the pipeline finish, \
                     then change it, or delete the directory and with it the letters",
                    log.directory.display(),
                    log.source
                )
            })
        }))
        .collect();
    Ok((!refused.is_empty()).then(|| refused.join("; ")))
}
