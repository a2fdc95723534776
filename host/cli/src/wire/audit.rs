//! The audit onto its files.

use std::sync::Arc;

use tidegate_contract::{
    AuditLog as _, CommitLog, CommitPoint, Cut, FileLayer, Recovered, SinkPosition,
};
use tidegate_control::config::Pipeline;
use tidegate_state::StateDirectory;
use tidegate_state::audit::{self, AuditFile, AuditLimits};

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
        decided_elsewhere: pipeline.commit_point() != CommitPoint::Log,
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

/// The run begins: the audit says so, and the commit log where the pipeline runs without the audit that it had, or with
/// another.
pub(crate) fn begin(
    pipeline: &Pipeline,
    digest: &str,
    audit: Option<&mut AuditFile>,
    (log, recovered): (&dyn CommitLog, &Recovered),
) -> Result<(), Failure> {
    let known = &recovered.sinks;
    let commit = |sinks: Vec<SinkPosition>| {
        let cut = Cut {
            sinks,
            ..Cut::default()
        };
        log.commit(&cut)
    };
    let goes_on = audit.as_deref().map(AuditFile::path);
    let left = audit::left(known, goes_on, recovered.cut);
    let Some(audit) = audit else {
        if let Some(left) = left {
            commit(vec![left])?;
        }
        return Ok(());
    };
    // A crash from here on leaves a file that recovery knows how to cut: the log says that a run is under way.
    commit(left.into_iter().chain(audit.position()).collect())?;
    let gap = audit::gap(known, audit.path());
    let begun = audit.begin(&pipeline.name, digest, recovered.cut, gap)?;
    let told = audit::told(known, audit.path());
    commit([begun].into_iter().chain(told).collect())?;
    audit.logged();
    Ok(())
}
