//! Revisions that failed more often than the pipeline file allows: back to the one before, or an end of the run.

use std::sync::{MutexGuard, PoisonError};

use tidegate_contract::{OperatorError, OperatorVersion, Slot as _};
use tidegate_control::OpenBreaker;
use tidegate_control::config::Then;
use tidegate_operator::{Change, Deployment};
use tidegate_telemetry::events::RevisionTripped;

use crate::host::{DEPLOYMENT, HostedSlot, RunningHost, SWITCH_DEADLINE};
use crate::live::reported;
use crate::wire;

/// After a restart the slot has had no other revision: back to what the pipeline file names, unless that is what failed.
fn to_the_file(hosted: &HostedSlot, error: OperatorError) -> Result<Deployment, OperatorError> {
    let slot = &hosted.slot;
    let bytes = match crate::component::read(&hosted.component) {
        Ok(bytes) if !slot.has_tripped_with(&bytes) => bytes,
        _ => return Err(error),
    };
    let change = Change {
        component: Some(&bytes),
        label: &hosted.component.display().to_string(),
        config: Some(&slot.configured()),
    };
    slot.deploy_within(&change, DEPLOYMENT)
        .inspect(|deployment| slot.finish(deployment))
}

impl HostedSlot {
    /// The breaker that is open, if one is: what runs has failed too often, or was put in the place of what has.
    pub(crate) fn open(&self) -> Option<OpenBreaker> {
        let version = self.slot.version();
        match self.slot.tripped() {
            Some(reason) => Some(of(&version, reason)),
            None => self.fallen().clone(),
        }
    }

    /// Somebody has deployed something.
    pub(crate) fn close(&self) {
        *self.fallen() = None;
    }

    fn fallen(&self) -> MutexGuard<'_, Option<OpenBreaker>> {
        self.fell_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn of(version: &OperatorVersion, reason: String) -> OpenBreaker {
    OpenBreaker {
        revision: version.revision.digest.clone(),
        version: version.version.clone(),
        reason,
    }
}

impl RunningHost {
    /// Does what the pipeline file says about each slot whose revision has failed too often.
    pub(crate) fn look_after_breakers(&self) {
        for hosted in &self.slots {
            if let (Some(breaker), Some(why)) = (hosted.breaker, hosted.slot.tripped()) {
                self.on_trip(hosted, breaker.then, &why);
            }
        }
    }

    fn on_trip(&self, hosted: &HostedSlot, then: Then, why: &str) {
        if self.stopped().is_some() {
            return;
        }
        // A deployment that is under way puts another in its place, or does not: that is seen the next time.
        let Ok(_deploying) = hosted.deploying.try_lock() else {
            return;
        };
        let (slot, version) = (&hosted.slot, hosted.slot.version());
        let tell = |then: &str| {
            RevisionTripped {
                stage: hosted.stage,
                version: &version.version,
                revision: &version.revision.digest,
                reason: why,
                then,
            }
            .emit(&self.meters);
        };
        let stop = |more: &str| {
            let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            *stopped = Some(format!(
                "the operator of stage {} ({} {}) is run no more: {why}{more}",
                slot.name(),
                version.name,
                version.version
            ));
            self.controls.stop();
        };
        if then == Then::Stop {
            tell("the pipeline stops");
            stop("");
            return;
        }
        match slot.rollback().or_else(|error| to_the_file(hosted, error)) {
            Err(error) => {
                tell("the pipeline stops: there is none to fall back to");
                stop(&format!(", and there is none to fall back to: {error}"));
            }
            Ok(back) => {
                tell("the slot falls back");
                *hosted.fallen() = Some(of(&version, why.to_owned()));
                let fell = format!("fell back from {}", version.version);
                let (old, new) = (reported(&back.old), reported(&back.new));
                self.live.deployed(slot.name(), &fell, old, Ok(new), true);
                if let Ok(mut label) = hosted.label.lock() {
                    *label = fell;
                }
                if let Err(error) = self.controls.switch(slot.name(), SWITCH_DEADLINE) {
                    // Its tasks start it when they can; what waits goes on then.
                    tracing::warn!(
                        slot = slot.name(),
                        revision = back.new.revision.digest,
                        error,
                        "not every task runs the revision that was fallen back to"
                    );
                }
                let slots = self.slots.iter().map(|hosted| &hosted.slot);
                wire::sweep(&self.components, slots, &self.controls.committed_slots());
            }
        }
    }

    /// Why a breaker has stopped the pipeline.
    pub(crate) fn stopped(&self) -> Option<String> {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.clone()
    }
}
