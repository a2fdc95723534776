//! The audit onto its files.

use std::sync::Arc;

use tidegate_contract::{
    AuditLog as _, CommitLog, CommitPoint, Cut, FileLayer, Recovered, SinkError, SinkPosition,
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
        &recovered.sinks,
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
    layer: &dyn FileLayer,
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
    // It goes on without what cannot be reached: that is taken away when the chain goes on.
    let settled = audit::cut_short(known, goes_on).and_then(|cut_short| {
        let settled = audit::settle(layer, cut_short);
        let said = |error: &SinkError| {
            tracing::warn!(%error, "the audit that is left keeps what the last run left behind its last cut");
        };
        settled.inspect_err(said).ok()
    });
    let left: Vec<SinkPosition> = settled.into_iter().chain(left).collect();
    let Some(audit) = audit else {
        if !left.is_empty() {
            commit(left)?;
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
