//! The running host, as the admin API sees it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use tidegate_connect::remote::RemoteModel;
use tidegate_contract::Slot as _;
use tidegate_control::config::Breaker;
use tidegate_control::{
    AuditReport, DeployRefused, DeployReport, DeployRequest, GatewayReport, HealthReport, Hearer,
    Host, LetterPage, LetterQuery, LetterReport, LettersRefused, LogReport, ModelAnswer,
    ModelQuestion, ModelRefused, ModelReport, OpenBreaker, Percentiles, PlaygroundRefused,
    RecordCounts, RunState, SendLetters, SentLetters, ShedReport, SlotReport, SlotTrouble,
    StatusReport, TriedRecord, TryRecord,
};
use tidegate_flow::Controls;
use tidegate_operator::{Change, ComponentSlot, digest};
use tidegate_state::audit::AuditFile;
use tidegate_telemetry::events::{Deployed, DeploymentRefused};
use tidegate_telemetry::metrics::{Exposition, table};
use tidegate_telemetry::{Meters, SlotSummary};

use crate::components::Components;
use crate::lately::Lately;
use crate::letters::Letters;
use crate::live::{Live, counters, log_report, reported};
use crate::models::{HostedModel, remote_report};
use crate::playground::Playground;
use crate::terminal::under_way;
use crate::wire::gateway::Serving;
use crate::{live, metrics, revisions, wire};

/// How long all tasks have to switch: one call of the operator each, however slow, and then some.
pub(crate) const SWITCH_DEADLINE: Duration = Duration::from_secs(60);

/// How long a version may take until it is ready. With a start, a switch and the way back it is less than a client
/// waits: who was told nothing of a deployment must not find it done later.
pub(crate) const DEPLOYMENT: Duration = Duration::from_secs(600);

/// A slot and what it is doing.
pub(crate) struct HostedSlot {
    pub(crate) slot: Arc<ComponentSlot>,
    /// Index of its stage in the pipeline.
    pub(crate) stage: usize,
    /// Held while a deployment is under way.
    pub(crate) deploying: Mutex<()>,
    pub(crate) label: Mutex<String>,
    /// What it fell back from, if nothing was deployed since.
    pub(crate) fell_back: Mutex<Option<OpenBreaker>>,
    /// The component that the pipeline file names.
    pub(crate) component: PathBuf,
    /// When its revisions are run no more.
    pub(crate) breaker: Option<Breaker>,
    /// Most records that may fail in a run that ends well.
    pub(crate) max_failed_records: Option<u64>,
}

/// The running host.
pub(crate) struct RunningHost {
    pub(crate) pipeline: String,
    pub(crate) components: Components,
    pub(crate) adapter: Option<String>,
    pub(crate) slots: Vec<HostedSlot>,
    pub(crate) models: Vec<Arc<HostedModel>>,
    /// Models of other servers.
    pub(crate) remote: Vec<Arc<RemoteModel>>,
    /// The gateway, if there is one.
    pub(crate) serving: Option<Arc<Serving>>,
    pub(crate) controls: Controls,
    pub(crate) meters: Arc<Meters>,
    /// When the records were none that the cuts account for.
    pub(crate) account_since: SystemTime,
    pub(crate) live: Live,
    pub(crate) playground: Playground,
    pub(crate) letters: Letters,
    /// The audit, if there is one.
    pub(crate) audit: Option<AuditFile>,
    /// After how long in one round a worker is taken for hung.
    pub(crate) silent_at_most: Duration,
    /// Why a breaker has stopped the pipeline, if one has.
    pub(crate) stopped: Mutex<Option<String>>,
    /// What has grown of late.
    pub(crate) lately: Lately,
}

impl RunningHost {
    /// What each slot runs, for the summary.
    pub(crate) fn slot_summaries(&self) -> Vec<SlotSummary> {
        let summary = |hosted: &HostedSlot| {
            let version = hosted.slot.version();
            SlotSummary {
                slot: hosted.slot.name().to_owned(),
                name: version.name.clone(),
                version: version.version.clone(),
                digest: version.digest.clone(),
            }
        };
        self.slots.iter().map(summary).collect()
    }

    /// The model of a name, unless the run is ending.
    fn model(&self, name: &str) -> Result<&HostedModel, ModelRefused> {
        if self.controls.is_stopping() {
            return Err(ModelRefused::Ending);
        }
        let reports = self.models();
        let at = reports.iter().position(|report| report.name == name);
        match at.and_then(|at| self.models.get(at)) {
            Some(model) => Ok(model),
            None => Err(ModelRefused::Unknown {
                name: name.to_owned(),
                models: reports.into_iter().map(|report| report.name).collect(),
            }),
        }
    }

    /// All that is measured, at this moment.
    pub(crate) fn exposition(&self) -> Exposition {
        let mut exposition = Exposition::of_process(*metrics::BEGAN);
        metrics::process(&mut exposition, &self.pipeline, self.health_now().ready);
        self.meters.expose(&mut exposition);
        let counts = self.controls.committed();
        for (fate, number) in [
            ("in", counts.input),
            ("out", counts.output),
            ("dropped", counts.dropped),
            ("dead", counts.dead),
            ("split", counts.split),
        ] {
            exposition.add_since(&table::ACCOUNT, &[fate], number, self.account_since);
        }
        let slots: Vec<_> = self.slots.iter().map(|hosted| &*hosted.slot).collect();
        metrics::revisions(&mut exposition, &slots);
        let models: Vec<_> = self.models.iter().map(|model| model.now()).collect();
        metrics::models(&mut exposition, &models);
        let remote: Vec<_> = self.remote.iter().map(|model| model.stats()).collect();
        metrics::remote(&mut exposition, &remote);
        if let Some(serving) = &self.serving {
            metrics::gateway(&mut exposition, &serving.now());
        }
        let measured = slots.iter().map(|slot| (slot.name(), slot.metrics()));
        metrics::operators(&mut exposition, measured);
        metrics::playground(&mut exposition, &self.playground.now());
        exposition
    }

    /// What keeps a slot's stage from answering.
    fn trouble(&self, hosted: &HostedSlot) -> Option<SlotTrouble> {
        let stage = self.meters.stages().get(hosted.stage)?;
        let unavailable = stage.unavailable()?;
        Some(SlotTrouble {
            reason: unavailable.reason,
            seconds: unavailable.since.elapsed().as_secs(),
            tasks: unavailable.tasks,
        })
    }

    fn switch(
        &self,
        hosted: &HostedSlot,
        deployment: &DeployRequest,
    ) -> Result<DeployReport, String> {
        let began = Instant::now();
        let name = hosted.slot.name();
        // On disk before any task can run it: a cut that names it must find it after a restart.
        let component = deployment.component.as_deref();
        let _kept = component
            .map(|component| self.components.keep(&digest(component), component))
            .transpose()
            .map_err(|error| format!("the component cannot be kept for a restart: {error}"))?;
        let change = Change {
            component,
            label: &deployment.label,
            config: deployment.config.as_deref(),
        };
        let deployed = hosted
            .slot
            .deploy_within(&change, DEPLOYMENT)
            .map_err(|error| error.to_string())?;
        let report = match self.controls.switch(name, SWITCH_DEADLINE) {
            Ok(report) => report,
            Err(why) => {
                hosted
                    .slot
                    .undo(&deployed)
                    .map_err(|error| format!("{why}; and no way back: {error}"))?;
                return match self.controls.switch(name, SWITCH_DEADLINE) {
                    Ok(_) => Err(why),
                    Err(again) => Err(format!("{why}; and on the way back: {again}")),
                };
            }
        };
        hosted.slot.finish(&deployed);
        Deployed {
            slot: name,
            old: &deployed.old.version,
            new: &deployed.new.version,
            digest: &deployed.new.digest,
            revision: &deployed.new.revision.digest,
            tasks: report.tasks,
            longest_wait: report.longest_wait,
        }
        .emit(&self.meters);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(DeployReport {
            slot: name.to_owned(),
            old: reported(&deployed.old),
            new: reported(&deployed.new),
            tasks: report.tasks,
            switched_ms: ms(began.elapsed()),
            max_wait_ms: ms(report.longest_wait),
        })
    }
}

impl Host for RunningHost {
    fn status(&self) -> StatusReport {
        let now = self.meters.snapshot();
        // What the meters count begins with the run; what waits came before it too.
        let (before, again) = (self.controls.restored(), self.controls.taken_back());
        let slots = self.slots.iter().map(|hosted| {
            let version = hosted.slot.version();
            let counters = self.meters.stages().get(hosted.stage).map(counters);
            SlotReport {
                slot: hosted.slot.name().to_owned(),
                name: version.name.clone(),
                version: version.version.clone(),
                digest: version.digest.clone(),
                generation: hosted.slot.generation(),
                label: hosted
                    .label
                    .lock()
                    .map(|label| label.clone())
                    .unwrap_or_default(),
                counters: counters.unwrap_or_default(),
                trouble: self.trouble(hosted),
                open: hosted.open(),
                revisions: revisions::reports(&hosted.slot),
            }
        });
        StatusReport {
            pipeline: self.pipeline.clone(),
            uptime_seconds: now.elapsed.as_secs_f64(),
            state: if self.controls.is_stopping() {
                RunState::Draining
            } else {
                RunState::Running
            },
            records: RecordCounts {
                input: (before.input + now.records.input).saturating_sub(again.input),
                output: (before.output + now.records.output).saturating_sub(again.output),
                dropped: (before.dropped + now.records.dropped).saturating_sub(again.dropped),
                dead: (before.dead + now.records.dead).saturating_sub(again.dead),
                split: (before.split + now.records.split).saturating_sub(again.split),
                in_flight: now.records.in_flight,
            },
            tokens: now.tokens,
            tokens_per_second: now.tokens_per_second,
            latency_ms: Percentiles {
                p50: now.latency_ms.p50,
                p95: now.latency_ms.p95,
                p99: now.latency_ms.p99,
            },
            adapter: self.adapter.clone(),
            slots: slots.collect(),
            models: self.models(),
            remote: self
                .remote
                .iter()
                .map(|model| remote_report(model))
                .collect(),
            gateway: self.serving.as_ref().map(|serving| GatewayReport {
                url: serving.url(),
                waiting: serving.waiting() as u64,
                answered: serving.counted().iter().map(|(.., count)| count).sum(),
                shed: shed_reports(serving.shed()),
            }),
            swaps: now.swaps,
            max_swap_wait_ms: now.longest_swap_wait_ms,
            stages: self.live.stages(&self.meters),
            sources: live::sources(&self.meters),
            cuts: live::cuts(&self.meters),
            graph: self.live.graph(&self.meters),
            deployments: self.live.deployments(),
            instance: String::new(),
            audit: self.audit.as_ref().map(|audit| {
                let head = audit.head();
                AuditReport {
                    path: audit.path().to_owned(),
                    lines: head.lines,
                    head: head.hash,
                }
            }),
            progress: under_way(),
            troubles: self.troubles(),
        }
    }

    fn models(&self) -> Vec<ModelReport> {
        self.models.iter().map(|model| model.report()).collect()
    }

    fn load_model(&self, name: &str, path: Option<&Path>) -> Result<ModelReport, ModelRefused> {
        self.model(name)?.replace(path)
    }

    fn unload_model(&self, name: &str) -> Result<ModelReport, ModelRefused> {
        self.model(name)?.unload()
    }

    fn health(&self) -> HealthReport {
        self.health_now()
    }

    fn dead_letters(&self, query: &LetterQuery) -> Result<LetterPage, LettersRefused> {
        self.letters.page(query)
    }

    fn dead_letter(&self, id: &str) -> Result<LetterReport, LettersRefused> {
        self.letters.one(id)
    }

    fn send_dead_letters(&self, letters: &SendLetters) -> Result<SentLetters, LettersRefused> {
        self.letters.send(letters)
    }

    fn log(&self, slot: &str, after: u64) -> Option<LogReport> {
        let hosted = self
            .slots
            .iter()
            .find(|hosted| hosted.slot.name() == slot)?;
        Some(log_report(hosted.slot.log(after)))
    }

    fn ask_model(
        &self,
        question: &ModelQuestion,
        hearer: &dyn Hearer,
    ) -> Result<ModelAnswer, PlaygroundRefused> {
        if self.controls.is_stopping() {
            return Err(PlaygroundRefused::NotRunning);
        }
        self.playground.ask(question, hearer)
    }

    fn try_record(
        &self,
        record: &TryRecord,
        hearer: &dyn Hearer,
    ) -> Result<TriedRecord, PlaygroundRefused> {
        if self.controls.is_stopping() {
            return Err(PlaygroundRefused::NotRunning);
        }
        let slots = self.slots.iter().map(|hosted| &hosted.slot);
        self.playground.try_record(slots, record, hearer)
    }

    fn metrics(&self) -> Option<String> {
        Some(self.exposition().text())
    }

    fn deploy(&self, slot: &str, deployment: DeployRequest) -> Result<DeployReport, DeployRefused> {
        let Some(hosted) = self.slots.iter().find(|hosted| hosted.slot.name() == slot) else {
            let slots = self
                .slots
                .iter()
                .map(|hosted| hosted.slot.name().to_owned())
                .collect();
            return Err(DeployRefused::UnknownSlot {
                slot: slot.to_owned(),
                slots,
            });
        };
        if self.controls.is_stopping() {
            return Err(DeployRefused::Ending);
        }
        // Refused components are a matter of course; the lock is let go however the deployment ends.
        let _deploying = match hosted.deploying.try_lock() {
            Ok(deploying) => deploying,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(DeployRefused::UnderWay {
                    slot: slot.to_owned(),
                });
            }
        };
        let old = reported(&hosted.slot.version());
        let switched = self.switch(hosted, &deployment);
        let new = switched.as_ref().map(|report| report.new.clone());
        let new = new.map_err(String::as_str);
        self.live.deployed(slot, &deployment.label, old, new, false);
        // However it ended: what no slot and no cut needs now is taken away.
        let slots = self.slots.iter().map(|hosted| &hosted.slot);
        wire::sweep(&self.components, slots, &self.controls.committed_slots());
        match switched {
            Ok(report) => {
                if let Ok(mut known) = hosted.label.lock() {
                    *known = deployment.label;
                }
                hosted.close();
                Ok(report)
            }
            Err(why) => {
                DeploymentRefused { slot, reason: &why }.emit();
                Err(DeployRefused::Refused(why))
            }
        }
    }
}

fn shed_reports(shed: Vec<(String, String, u64)>) -> Vec<ShedReport> {
    let report = |(source, step, requests)| ShedReport {
        source,
        step,
        requests,
    };
    shed.into_iter().map(report).collect()
}
