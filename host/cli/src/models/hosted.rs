//! A model of the pipeline while it runs: asked by stages, loaded, replaced and unloaded by an administrator.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::SystemTime;

use anyhow::Context;
use tidegate_contract::{
    Makes, Model, ModelError, ModelFacts, Prompt, Request, RequestId, Structure,
};
use tidegate_control::config::{self, Ask, Generate, ModelStage, Pipeline};
use tidegate_control::{LoraReport, ModelRefused, ModelReport, ReplicaReport, ReplicaState};
use tidegate_serving::{
    LoadedLora, LoraStats, MissingReplica, ModelHandle, ReplicaStanding, ReplicaStats,
    load_replicas,
};
use tidegate_text::Tokenizer;
use tidegate_weights::{TextPrompts, adapted_digest};

use super::biased;
use super::fit::{adapting, around_prompt, asking, bias, mistakes};
use super::gpu::{Adapters, Used};
use super::open::{ModelFile, Splits, name, read_lora};
use super::pinned;
use super::source::{digest, source};
use crate::exit::with_causes;
use crate::metrics::ModelNow;
use crate::stage_times::in_milliseconds;

/// A name that stages ask. While no model is loaded under it, requests are given back, and their records wait.
pub(crate) struct HostedModel {
    pipeline: Arc<Pipeline>,
    /// Its place among the pipeline's models.
    index: usize,
    adapters: Arc<Adapters>,
    /// What its replicas run on.
    used: Used,
    /// Held while it is loaded or unloaded.
    changing: Mutex<()>,
    /// Follows the name on its engine, whatever is loaded there.
    handle: ModelHandle,
    /// Positions of the model that the pipeline began with, which its stages count on.
    context: u32,
    /// What was loaded last, also while nothing is.
    last: RwLock<Last>,
    /// How often it was loaded again, or another.
    loads: AtomicU64,
}

#[derive(Clone)]
struct Last {
    path: PathBuf,
    tokenizer: Arc<Tokenizer>,
    facts: ModelFacts,
    makes: Makes,
    loaded: bool,
    /// What the biases of each of its stages mean.
    biases: Vec<Vec<(u32, f32)>>,
    /// What may stand before its texts.
    prompts: Arc<TextPrompts>,
    /// Its low-rank adapters, in the order of their numbers.
    adapted: Vec<Adapted>,
}

/// A low-rank adapter of a loaded model.
#[derive(Clone)]
struct Adapted {
    /// Index of the model that it makes of its base.
    index: usize,
    lora: LoadedLora,
    /// What the biases of each stage mean that asks that model.
    biases: Vec<Vec<(u32, f32)>>,
}

impl HostedModel {
    /// Loads the model that the pipeline file names.
    pub(crate) fn load(
        pipeline: &Arc<Pipeline>,
        index: usize,
        adapters: &Arc<Adapters>,
        used: Used,
    ) -> anyhow::Result<HostedModel> {
        let file = ModelFile::of(&pipeline.models[index])?;
        let (handle, last) = load(pipeline, index, adapters, &used, &file)?;
        Ok(HostedModel {
            pipeline: pipeline.clone(),
            index,
            adapters: adapters.clone(),
            used,
            changing: Mutex::new(()),
            handle,
            context: last.facts.context,
            last: RwLock::new(last),
            loads: AtomicU64::new(0),
        })
    }

    /// What the biases of a stage mean, by the stage's index in the pipeline: of one that asks `model`, which is this one or one of
    /// its adapters.
    pub(crate) fn biases(&self, model: usize, stage: usize) -> Vec<(u32, f32)> {
        let place = asking(&self.pipeline, model).position(|(index, ..)| index == stage);
        let last = self.last();
        let adapted = last.adapted.into_iter().find(|of| of.index == model);
        let biases = adapted.map_or(last.biases, |of| of.biases);
        place
            .and_then(|place| biases.into_iter().nth(place))
            .unwrap_or_default()
    }

    /// What stands before the texts of a stage that wants vectors.
    pub(crate) fn text_prompt(&self, stage: &ModelStage) -> String {
        let prompts = self.last().prompts;
        prompts
            .get(stage.prompt_name())
            .unwrap_or_default()
            .to_owned()
    }

    /// Its place among the pipeline's models.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// What follows the name on its engine, through its adapter of this number.
    pub(crate) fn through(&self, lora: u32) -> ModelHandle {
        self.handle.through(lora)
    }

    /// What was loaded last, through an adapter: by the index of the model that it makes.
    pub(crate) fn last_through(&self, model: usize) -> ModelFacts {
        let Last { facts, adapted, .. } = self.last();
        let adapted = adapted.into_iter().find(|of| of.index == model);
        match adapted.map(|of| of.lora.makes) {
            Some((name, digest)) => ModelFacts {
                name,
                digest,
                ..facts
            },
            None => facts,
        }
    }

    /// Positions that are no room for a user message: those of the chat template and the system message; of a raw prompt
    /// those of the tokens that the tokenizer begins a text with.
    pub(crate) fn around_prompt(&self, generate: &Generate) -> anyhow::Result<usize> {
        Ok(around_prompt(&self.tokenizer(), generate)?)
    }

    /// Tokens that stand around every text: those for its beginning and its end.
    pub(crate) fn special_tokens(&self) -> usize {
        self.tokenizer()
            .encode_text("")
            .map_or(0, |tokens| tokens.len())
    }

    /// Loads it again, or another in its place.
    pub(crate) fn replace(&self, path: Option<&Path>) -> Result<ModelReport, ModelRefused> {
        let _changing = self.change()?;
        let refused = |error: anyhow::Error| ModelRefused::Refused(with_causes(&error));
        let file = match path {
            None => ModelFile::of(self.model()),
            Some(path) => {
                let named = self.model().pre_tokenizer.as_deref();
                ModelFile::open(path, Splits::IfNeeded(named))
            }
        };
        let file = file.map_err(refused)?;
        let mut wrong: Vec<_> = with_adapters(&self.pipeline, self.index)
            .flat_map(|index| mistakes(&self.pipeline, index, &file))
            .collect();
        wrong.extend(biased::mistakes(&self.pipeline, Some((self.index, &file))));
        if let Some(wrong) = wrong.first() {
            return Err(ModelRefused::Refused(format!(
                "{}: {}",
                wrong.key, wrong.what
            )));
        }
        // What the running pipeline took from the model it began with must hold for this one.
        let before = self.last();
        let context = super::fit::context(self.model(), &file);
        if context < self.context as usize {
            return Err(ModelRefused::Refused(format!(
                "its context of {context} positions is less than the {} that the pipeline counts on",
                self.context
            )));
        }
        let mut same = biases(&self.pipeline, self.index, &file).map_err(refused)? == before.biases;
        for adapted in &before.adapted {
            let now = biases(&self.pipeline, adapted.index, &file).map_err(refused)?;
            same &= now == adapted.biases;
        }
        if !same {
            return Err(ModelRefused::Refused(
                "logit-bias means other tokens in its vocabulary; start the pipeline with it"
                    .to_owned(),
            ));
        }
        let mut asking = asking(&self.pipeline, self.index);
        let same = asking.all(|(_, _, kind)| {
            let name = kind.prompt_name();
            file.prompts().get(name) == before.prompts.get(name)
        });
        if !same {
            return Err(ModelRefused::Refused(
                "it has another prompt for the texts of a stage; start the pipeline with it"
                    .to_owned(),
            ));
        }
        let (_, last) = load(
            &self.pipeline,
            self.index,
            &self.adapters,
            &self.used,
            &file,
        )
        .map_err(refused)?;
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = last;
        self.loads.fetch_add(1, Ordering::SeqCst);
        Ok(self.report())
    }

    /// Takes it off its adapter when its requests have ended.
    pub(crate) fn unload(&self) -> Result<ModelReport, ModelRefused> {
        let _changing = self.change()?;
        let name = &self.model().name;
        // The first engine has the name.
        let first = self
            .used
            .there
            .first()
            .map(|first| first.engine.unload(name));
        first
            .unwrap_or(Err(ModelError::Unknown(name.clone())))
            .map_err(|error| ModelRefused::Refused(error.to_string()))?;
        let mut last = self.last.write().unwrap_or_else(PoisonError::into_inner);
        last.loaded = false;
        drop(last);
        tracing::info!(model = name, "model unloaded");
        Ok(self.report())
    }

    /// For how long the thread of its engine has been in one round.
    pub(crate) fn silent(&self) -> std::time::Duration {
        self.handle.silent()
    }

    /// Requests of the stream that failed, and since which load: none where nothing is loaded.
    pub(crate) fn failed(&self) -> (Option<SystemTime>, u64) {
        let stats = self.handle.stats();
        (stats.since, stats.failed)
    }

    /// How it stands.
    pub(crate) fn report(&self) -> ModelReport {
        let last = self.last();
        let stats = self.handle.stats();
        ModelReport {
            name: self.model().name.clone(),
            path: last.path,
            loaded: last.loaded,
            // One that was unloaded is away from nobody.
            away: last.loaded && (stats.away || stats.closed),
            digest: last.facts.digest,
            adapter: last.facts.adapter,
            context: last.facts.context,
            sequences: last.facts.sequences,
            memory: stats.memory,
            waiting: stats.waiting,
            running: stats.running,
            blocks: stats.blocks,
            blocks_used: stats.blocks_used,
            blocks_pinned: stats.blocks_pinned,
            answered: stats.answered,
            // Those that expired or were hopeless are among them.
            failed: stats.failed,
            left: stats.cancelled,
            prompt_tokens: stats.prompt_tokens,
            prefix_hit_tokens: stats.prefix_hit_tokens,
            tokens: stats.tokens,
            first_token_ms: in_milliseconds(&stats.first_token_seconds),
            drafted: stats.drafted,
            accepted: stats.accepted,
            preemptions: stats.preemptions,
            draft_failures: stats.draft_failures,
            reloads: stats.reloads,
            moved: stats.moved,
            replicas: stats.replicas.into_iter().map(replica).collect(),
            loras: stats.loras.into_iter().map(lora).collect(),
        }
    }

    /// The same for metrics.
    pub(crate) fn now(&self) -> ModelNow {
        let adapters = self.used.there.iter().map(|used| {
            let (engine, adapter) = (used.engine.stats(), used.info());
            let (index, name) = (adapter.index as u32, adapter.name.clone());
            (index, name, engine.budget, engine.used)
        });
        ModelNow {
            name: self.model().name.clone(),
            loaded: self.last().loaded,
            stats: self.handle.stats(),
            adapters: adapters.collect(),
        }
    }

    pub(crate) fn model(&self) -> &config::Model {
        &self.pipeline.models[self.index]
    }

    fn change(&self) -> Result<MutexGuard<'_, ()>, ModelRefused> {
        match self.changing.try_lock() {
            Ok(changing) => Ok(changing),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(ModelRefused::UnderWay {
                name: self.model().name.clone(),
            }),
        }
    }

    fn last(&self) -> Last {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    fn tokenizer(&self) -> Arc<Tokenizer> {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        last.tokenizer.clone()
    }
}

/// A low-rank adapter as the admin API says it.
fn lora(stats: LoraStats) -> LoraReport {
    LoraReport {
        name: stats.lora.name,
        digest: stats.lora.digest,
        rank: stats.lora.rank,
        answered: stats.answered,
        failed: stats.failed,
        left: stats.cancelled,
        prompt_tokens: stats.prompt_tokens,
        prefix_hit_tokens: stats.prefix_hit_tokens,
        tokens: stats.tokens,
    }
}

/// A replica as the admin API says it.
fn replica(stats: ReplicaStats) -> ReplicaReport {
    let (standing, reason) = match stats.standing {
        ReplicaStanding::Serves => (ReplicaState::Serves, String::new()),
        ReplicaStanding::Away => (ReplicaState::Away, String::new()),
        ReplicaStanding::Stalled => (ReplicaState::Stalled, String::new()),
        ReplicaStanding::LeftOut(reason) => (ReplicaState::LeftOut, reason),
    };
    ReplicaReport {
        adapter: stats.adapter,
        standing,
        reason,
        again_seconds: stats.again.map(|again| again.as_secs_f64().ceil() as u64),
        memory: stats.memory,
        running: stats.running,
        blocks: stats.blocks,
        blocks_used: stats.blocks_used,
        answered: stats.answered,
        tokens: stats.tokens,
        steps: stats.steps,
        prefix_hit_tokens: stats.prefix_hit_tokens,
        moved: stats.moved,
        reloads: stats.reloads,
    }
}

/// A model and those that it makes through its adapters.
fn with_adapters(pipeline: &Pipeline, index: usize) -> impl Iterator<Item = usize> {
    std::iter::once(index).chain(adapting(pipeline, index).map(|(index, ..)| index))
}

/// Puts the model in these files onto its adapters; new requests go to it from now on.
fn load(
    pipeline: &Pipeline,
    index: usize,
    adapters: &Adapters,
    used: &Used,
    file: &ModelFile,
) -> anyhow::Result<(ModelHandle, Last)> {
    let model = &pipeline.models[index];
    let biases = biases(pipeline, index, file)?;
    let mut loras = Vec::new();
    for (_, model, of) in adapting(pipeline, index) {
        let lora = read_lora(&of.path, &file.checkpoint)
            .with_context(|| format!("model {}", model.name))?;
        loras.push(lora);
    }
    // Of the bytes that go onto the device, whatever becomes of the files.
    let known: Vec<(String, u32)> = (loras.iter())
        .map(|lora| (lora.digest(), lora.most_rank() as u32))
        .collect();
    let adapted_file = match loras.is_empty() {
        true => None,
        false => Some(file.adapted(loras)?),
    };
    let source_file = adapted_file.as_ref().unwrap_or(file);
    let pins = pinned::pins(pipeline, index, file)?;
    let digest = digest(source_file)?;
    let mut adapted = Vec::new();
    for ((index, model, of), (own, rank)) in adapting(pipeline, index).zip(known) {
        adapted.push(Adapted {
            index,
            lora: LoadedLora {
                name: model.name.clone(),
                makes: (name(&of.path), adapted_digest(&digest, &own)),
                digest: own,
                rank,
            },
            biases: self::biases(pipeline, index, file)?,
        });
    }
    let asking = with_adapters(pipeline, index).flat_map(|index| asking(pipeline, index));
    let structures = asking.filter_map(|(_, _, kind)| match &kind.ask {
        Ask::Generate(generate) => generate.parameters.structure.clone(),
        Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => None,
    });
    let structures: Vec<Structure> = structures.collect();
    for missing in &used.missing {
        let MissingReplica { place, reason, .. } = missing;
        tracing::error!(model = model.name, replica = place, %reason, "a replica is left out");
    }
    let mut replicas = Vec::with_capacity(used.there.len());
    for adapter in &used.there {
        let pinned = (digest.as_str(), pins.clone());
        let mut source = source(model, adapters.limits(), adapter, source_file, pinned)?;
        source.options.structures.clone_from(&structures);
        source.options.loras = adapted.iter().map(|of| of.lora.clone()).collect();
        replicas.push((&adapter.engine, source));
    }
    let handle = load_replicas(&model.name, replicas, &used.missing)?;
    let facts = handle.facts();
    tracing::info!(
        model = model.name,
        path = %file.path.display(),
        digest = facts.digest,
        adapter = facts.adapter,
        replicas = used.there.len(),
        loras = adapted.len(),
        "model loaded"
    );
    let last = Last {
        prompts: Arc::new(file.prompts().clone()),
        path: file.path.clone(),
        tokenizer: file.tokenizer.clone(),
        facts,
        makes: file.makes(),
        loaded: true,
        biases,
        adapted,
    };
    Ok((handle, last))
}

/// What the biases of each stage that asks a model mean.
fn biases(
    pipeline: &Pipeline,
    index: usize,
    file: &ModelFile,
) -> anyhow::Result<Vec<Vec<(u32, f32)>>> {
    let stages = asking(pipeline, index).map(|(_, stage, kind)| match &kind.ask {
        Ask::Generate(generate) => {
            bias(generate, file).map_err(|why| anyhow::anyhow!("stage {}: {why}", stage.name))
        }
        Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => {
            Ok(Vec::new())
        }
    });
    stages.collect()
}

impl Model for HostedModel {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        self.handle.submit(request)
    }

    fn cancel(&self, id: RequestId) {
        self.handle.cancel(id);
    }

    fn end(&self, id: RequestId) {
        self.handle.end(id);
    }

    /// While nothing is loaded, the tokens of the texts alone: those who ask wait until it is loaded again.
    fn prompt_tokens(&self, prompt: &Prompt) -> Result<usize, ModelError> {
        match self.handle.prompt_tokens(prompt) {
            Err(ModelError::Unknown(_)) => self.text_tokens(prompt),
            counted => counted,
        }
    }

    /// Also while nothing is loaded: prompts are rendered before it is known whether a model takes them.
    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        let count = self.tokenizer().count(text);
        count.map_err(|error| ModelError::Prompt(error.to_string()))
    }

    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        let cut = self.tokenizer().truncate(text, tokens);
        cut.map_err(|error| ModelError::Prompt(error.to_string()))
    }

    fn token_text(&self, token: u32) -> Option<String> {
        self.handle.token_text(token)
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.handle.token_id(text)
    }

    fn makes(&self) -> Makes {
        self.last().makes
    }

    /// Of the model that takes requests now, so that what is made is never ascribed to another; while there is none, of
    /// the last one.
    fn facts(&self) -> ModelFacts {
        let now = self.handle.facts();
        if now.digest.is_empty() {
            self.last().facts
        } else {
            now
        }
    }

    fn loads(&self) -> u64 {
        self.loads.load(Ordering::SeqCst)
    }
}
