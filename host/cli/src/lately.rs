//! What has grown of late that ought to stay as it is: totals are noted once a second, whether anybody looks or not.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::host::RunningHost;

/// How far back is looked.
const LATELY: Duration = Duration::from_secs(10);
/// Totals are noted so often.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Totals at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    aborted: u64,
    /// Of each source, in the order of the file.
    rejected: Vec<(String, u64)>,
    /// Of each model, here and elsewhere.
    models: Vec<ModelTotals>,
    /// Of each stage, in the order of the file.
    stages: Vec<StageTotals>,
}

#[derive(Clone, Debug, Default)]
struct ModelTotals {
    name: String,
    /// When it was loaded, from which its totals count; none of another server's.
    since: Option<SystemTime>,
    failed: u64,
}

#[derive(Clone, Debug, Default)]
struct StageTotals {
    name: String,
    dead: u64,
    full: Duration,
    /// Records that failed and instances that were lost, of each revision by its digest.
    revisions: Vec<(String, u64, u64)>,
}

/// By how much they have grown; only what has.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Grown {
    /// Since when, as a time before now.
    pub(crate) since: Duration,
    /// Cuts that came to nothing.
    pub(crate) aborted: u64,
    /// Input of sources that became no record.
    pub(crate) rejected: Vec<(String, u64)>,
    /// Requests to models that failed.
    pub(crate) failed: Vec<(String, u64)>,
    pub(crate) stages: Vec<GrownStage>,
}

/// By how much the totals of a stage have grown.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct GrownStage {
    pub(crate) name: String,
    pub(crate) dead: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    /// Part of the time in which it, or one behind it, took no more.
    pub(crate) full: f64,
}

/// Totals of the last [`LATELY`], the oldest first: at least one.
#[derive(Debug)]
pub(crate) struct Lately(Mutex<VecDeque<(Duration, Totals)>>);

impl Lately {
    /// A run begins at this time: nothing has grown before it.
    pub(crate) fn begins(now: Duration) -> Lately {
        Lately(Mutex::new(VecDeque::from([(now, Totals::default())])))
    }

    /// The totals at this time are these.
    fn note(&self, now: Duration, totals: Totals) {
        // Each change is whole before anything can panic.
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.push_back((now, totals));
        // One that is older stays, so that all of the time is looked at.
        let is_old = |noted: &(Duration, Totals)| now.saturating_sub(noted.0) >= LATELY;
        while noted.get(1).is_some_and(is_old) {
            noted.pop_front();
        }
    }

    fn grown(&self, now: Duration, totals: &Totals) -> Grown {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match noted.front() {
            Some((at, before)) => grown(before, totals, now.saturating_sub(*at)),
            None => Grown::default(),
        }
    }
}

fn grown(before: &Totals, now: &Totals, since: Duration) -> Grown {
    let named = |now: &[(String, u64)], before: &[(String, u64)]| {
        let of = now.iter().map(|(name, number)| {
            let before = before.iter().find(|(other, _)| other == name);
            let more = number.saturating_sub(before.map_or(0, |(_, before)| *before));
            (name.clone(), more)
        });
        of.filter(|(_, more)| *more > 0).collect()
    };
    let failed = now.models.iter().map(|model| {
        // One that was loaded since had not failed yet.
        let is = |other: &&ModelTotals| (&other.name, other.since) == (&model.name, model.since);
        let before = before.models.iter().find(is);
        let more = model
            .failed
            .saturating_sub(before.map_or(0, |before| before.failed));
        (model.name.clone(), more)
    });
    let none = StageTotals::default();
    let stages = now.stages.iter().enumerate().map(|(at, stage)| {
        let before = before.stages.get(at).unwrap_or(&none);
        let (mut failed, mut lost) = (0, 0);
        for (digest, now_failed, now_lost) in &stage.revisions {
            // One that was not there yet had not failed yet.
            let known = before.revisions.iter().find(|known| known.0 == *digest);
            failed += now_failed.saturating_sub(known.map_or(0, |known| known.1));
            lost += now_lost.saturating_sub(known.map_or(0, |known| known.2));
        }
        let full = stage.full.saturating_sub(before.full).as_secs_f64();
        let seconds = since.as_secs_f64();
        GrownStage {
            name: stage.name.clone(),
            dead: stage.dead.saturating_sub(before.dead),
            failed,
            lost,
            full: if seconds > 0.0 { full / seconds } else { 0.0 },
        }
    });
    let grows = |one: &GrownStage| one.dead + one.failed + one.lost > 0 || one.full > 0.0;
    Grown {
        since,
        aborted: now.aborted.saturating_sub(before.aborted),
        rejected: named(&now.rejected, &before.rejected),
        failed: failed.filter(|(_, more)| *more > 0).collect(),
        stages: stages.filter(grows).collect(),
    }
}

impl RunningHost {
    /// Notes the totals of now.
    pub(crate) fn note_totals(&self) {
        self.lately.note(self.meters.clock(), self.totals());
    }

    /// What has grown of late.
    pub(crate) fn grown(&self) -> Grown {
        self.lately.grown(self.meters.clock(), &self.totals())
    }

    fn totals(&self) -> Totals {
        let sources = self.meters.sources().iter();
        let remote = self.remote.iter().map(|model| {
            let stats = model.stats();
            ModelTotals {
                name: stats.name,
                since: None,
                failed: stats.failed + stats.expired,
            }
        });
        let hosted = self.models.iter().map(|model| {
            let (since, failed) = model.failed();
            ModelTotals {
                name: model.model().name.clone(),
                since,
                failed,
            }
        });
        let stages = self.meters.stages().iter().enumerate();
        let revisions = |stage: usize| {
            let hosted = self.slots.iter().find(|hosted| hosted.stage == stage);
            let known = hosted.map(|hosted| hosted.slot.revisions());
            let of = known.into_iter().flatten().map(|known| {
                let stats = &known.stats;
                let digest = known.version.revision.digest.clone();
                (digest, stats.failed, stats.lost_instances)
            });
            of.collect()
        };
        Totals {
            aborted: self.meters.cuts_aborted.get(),
            rejected: sources
                .map(|source| (source.name.clone(), source.rejected.get()))
                .collect(),
            models: hosted.chain(remote).collect(),
            stages: stages
                .map(|(at, stage)| StageTotals {
                    name: stage.name.clone(),
                    dead: stage.records_dead.get(),
                    full: stage.full.get(),
                    revisions: revisions(at),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(dead: u64, revisions: &[(&str, u64, u64)]) -> Totals {
        let revisions = revisions
            .iter()
            .map(|(digest, failed, lost)| ((*digest).to_owned(), *failed, *lost));
        Totals {
            aborted: 1,
            rejected: vec![("in".into(), dead)],
            models: vec![ModelTotals {
                name: "support".into(),
                since: None,
                failed: 7,
            }],
            stages: vec![StageTotals {
                name: "guest".into(),
                dead,
                full: Duration::from_secs(dead),
                revisions: revisions.collect(),
            }],
        }
    }

    #[test]
    fn a_total_has_grown_only_as_long_as_that_is_not_long_ago() {
        let second = Duration::from_secs;
        let noted = VecDeque::from([(second(1), totals(3, &[]))]);
        let lately = Lately(Mutex::new(noted));
        let calm = lately.grown(second(2), &totals(3, &[]));
        assert_eq!((calm.aborted, calm.stages.len()), (0, 0), "{calm:?}");
        assert!(calm.rejected.is_empty() && calm.failed.is_empty());
        let more = lately.grown(second(3), &totals(4, &[]));
        assert_eq!(more.rejected, [("in".to_owned(), 1)]);
        let stage = &more.stages[0];
        assert_eq!((stage.dead, stage.full), (1, 0.5));
        // It stays for ten seconds, and is a fact afterwards.
        for at in 3..=12 {
            lately.note(second(at), totals(4, &[]));
        }
        assert_eq!(lately.grown(second(12), &totals(4, &[])).stages.len(), 1);
        lately.note(second(13), totals(4, &[]));
        let later = lately.grown(second(13), &totals(4, &[]));
        assert!(later.stages.is_empty(), "{later:?}");
        assert!(lately.0.lock().unwrap().len() <= 12);
    }

    #[test]
    fn what_went_wrong_in_the_first_moments_of_a_run_has_grown() {
        let second = Duration::from_secs;
        let lately = Lately::begins(second(3));
        lately.note(second(4), totals(1, &[("guest", 1, 1)]));
        let grown = lately.grown(second(8), &totals(1, &[("guest", 1, 1)]));
        assert_eq!((grown.since, grown.aborted), (second(5), 1));
        assert_eq!(grown.rejected, [("in".to_owned(), 1)]);
        assert_eq!(grown.failed, [("support".to_owned(), 7)]);
        let stage = &grown.stages[0];
        assert_eq!((stage.dead, stage.failed, stage.lost), (1, 1, 1));
        assert_eq!(stage.full, 0.2);
    }

    #[test]
    fn a_model_that_was_loaded_anew_has_failed_as_often_as_it_has_since() {
        let loaded = |at, failed| {
            let mut totals = totals(0, &[]);
            totals.models[0].since = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(at));
            totals.models[0].failed = failed;
            totals
        };
        let lately = |before: &Totals, now: &Totals| grown(before, now, LATELY).failed;
        let (before, again) = (loaded(1, 500), loaded(2, 30));
        assert_eq!(lately(&before, &again), [("support".to_owned(), 30)]);
        assert_eq!(lately(&again, &loaded(2, 31)), [("support".to_owned(), 1)]);
        assert_eq!(lately(&before, &before), []);
    }

    #[test]
    fn what_a_revision_failed_at_is_counted_whatever_others_come_and_go() {
        let before = totals(0, &[("old", 40, 4), ("runs", 2, 0)]);
        let now = totals(0, &[("runs", 5, 0), ("new", 6, 1)]);
        let grown = grown(&before, &now, Duration::from_secs(10));
        let stage = &grown.stages[0];
        assert_eq!((stage.failed, stage.lost), (9, 1));
    }
}
