//! The audit onto its files.

use std::sync::Arc;

use tidegate_contract::{FileLayer, Recovered};
use tidegate_control::config::Pipeline;
use tidegate_state::StateDirectory;
use tidegate_state::audit::{AuditFile, AuditLimits};

use crate::exit::Failure;

/// The audit of a pipeline that has one, cut back to the last cut.
pub(crate) fn audit(
    pipeline: &Pipeline,
    layer: &Arc<dyn FileLayer>,
    state: &StateDirectory,
    recovered: &Recovered,
) -> Result<Option<AuditFile>, Failure> {
    let Some(audit) = &pipeline.audit else {
        return Ok(None);
    };
    let limits = AuditLimits {
        file: audit.max_file,
        content: audit.max_content,
    };
    let opened = AuditFile::recover(
        &audit.path,
        layer.clone(),
        Arc::new(state.key().clone()),
        limits,
        (&recovered.sinks, recovered.ended),
    )?;
    Ok(Some(opened))
}
