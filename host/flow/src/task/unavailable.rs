//! A stage without an instance: its records wait, uncounted, until one can be started.

use std::time::Instant;

use tidegate_telemetry::Meters;
use tidegate_telemetry::events::{StageAvailable, StageUnavailable};

use super::Task;

impl Task {
    /// The stage has no instance and could not start one: records that come for it wait from now on.
    pub(super) fn suspend(&mut self, stage: usize, why: &str, meters: &Meters) {
        let first = !std::mem::replace(&mut self.unavailable[stage], true);
        StageUnavailable {
            stage,
            first,
            reason: why,
        }
        .emit(meters);
    }

    /// The stage has an instance.
    pub(super) fn resume(&mut self, stage: usize, meters: &Meters) {
        if std::mem::take(&mut self.unavailable[stage]) {
            StageAvailable { stage }.emit(meters);
        }
    }

    /// Whether a stage cannot answer, or has to be looked at by itself for another reason.
    pub(crate) fn is_suspended(&self) -> bool {
        self.unavailable.contains(&true) || self.to_start.contains(&true)
    }

    /// Whether records of the stage are to wait for the next try.
    pub(super) fn must_wait(&self, stage: usize, now: Instant) -> bool {
        self.unavailable[stage] && self.starts.until(stage).is_some_and(|until| until > now)
    }

    /// Has an instance ready: of the slot's current version, or of the one that ran here if that cannot be started.
    pub(super) fn ready(&mut self, stage: usize) -> Result<(), String> {
        self.to_start[stage] = false;
        let started = self.start(stage);
        let Some(instance) = &mut self.operators[stage] else {
            return started.map(drop);
        };
        if instance.operator.is_started() {
            return Ok(());
        }
        self.starts.may(stage, instance.generation)?;
        let began = Instant::now();
        match instance.operator.start() {
            Ok(()) => {
                self.starts.succeeded(stage);
                Ok(())
            }
            Err(error) => {
                let why = error.to_string();
                (self.starts).failed(stage, instance.generation, began.elapsed(), &why);
                Err(why)
            }
        }
    }

    /// Whether a stage has an instance that can be called.
    pub(super) fn is_started(&self, stage: usize) -> bool {
        let instance = self.operators[stage].as_ref();
        instance.is_some_and(|instance| instance.operator.is_started())
    }

    /// Tries to start the operator of a stage that has no instance. Returns whether it has one now.
    pub(super) fn retry_start(&mut self, stage: usize, meters: &Meters) -> bool {
        let stood = self.is_started(stage);
        let waits = !self.waiting[stage].is_empty() || !self.inboxes[stage].is_empty();
        match self.ready(stage) {
            // It had one all along, which could not answer: whether it can now, what waits will show.
            Ok(()) if stood && waits => true,
            Ok(()) => {
                self.resume(stage, meters);
                true
            }
            Err(why) => {
                self.suspend(stage, &why, meters);
                false
            }
        }
    }

    /// The task ends: none of its stages waits for an instance any more.
    pub(crate) fn forget_suspended(&self, meters: &Meters) {
        for (stage, unavailable) in self.unavailable.iter().enumerate() {
            if *unavailable {
                StageAvailable { stage }.emit(meters);
            }
        }
    }
}
