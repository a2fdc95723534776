//! The replicas of a model: which of them a request goes to, and where it goes on when one can do no more.
//!
//! Each is a model of its own on an engine of its own. What they share is the name, the queue's places and the revision: they
//! are put under the name together, so a request goes to one revision whole, and moves only among its replicas.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tidegate_contract::{BLOCK, ModelFacts};

use crate::blocks::beginnings;
use crate::engine::Shared;
use crate::model::Loaded;
use crate::request::Work;
use crate::stats::{Counters, ModelStats, ReplicaStanding, ReplicaStats};
use crate::worker::Command;

/// Tokens that an answer is taken to have before any has ended.
const USUAL_ANSWER: u64 = 64;
/// Nanoseconds that a step, a prompt token and a decode row are taken to need before any was measured.
const USUAL_COSTS: [u64; 3] = [20_000, 1000, 1000];

/// A model on an engine.
#[derive(Clone)]
pub(crate) struct Replica {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) engine: Arc<Shared>,
}

/// One that takes no more requests.
#[derive(Clone)]
pub(crate) struct LeftOut {
    /// As [`Loaded::place`].
    pub(crate) place: usize,
    /// What it ran on, or was to.
    pub(crate) adapter: String,
    pub(crate) reason: String,
    /// What it did before; none if it never ran.
    pub(crate) counters: Option<Arc<Counters>>,
    /// The replica, if it is tried again.
    pub(crate) tried_again: Option<Replica>,
}

/// What stands under a name: a model's replicas, at least one, and those that were left out of them.
#[derive(Clone)]
pub(crate) struct Replicas {
    pub(crate) serving: Vec<Replica>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Another replica of the same revision, if it is still there.
#[derive(Clone)]
pub(crate) struct Peer {
    loaded: Weak<Loaded>,
    engine: Arc<Shared>,
}

/// The other replicas of a revision; set before the first request.
pub(crate) type Peers = OnceLock<Vec<Peer>>;

impl Replicas {
    /// These, each of which knows the others from now on.
    pub(crate) fn new(serving: Vec<Replica>, left_out: Vec<LeftOut>) -> Replicas {
        for (at, replica) in serving.iter().enumerate() {
            let others = serving.iter().enumerate().filter(|(other, _)| *other != at);
            let peers = others.map(|(_, other)| Peer {
                loaded: Arc::downgrade(&other.loaded),
                engine: Arc::clone(&other.engine),
            });
            // Set once: each is put under its name once.
            let _ = replica.loaded.peers.set(peers.collect());
        }
        Replicas { serving, left_out }
    }

    /// What they do together, and each of them.
    pub(crate) fn stats(&self, name: &str) -> ModelStats {
        let mut all = ModelStats::default();
        let mut each = Vec::new();
        let mut serves = false;
        for (at, replica) in self.serving.iter().enumerate() {
            let loaded = &replica.loaded;
            // They share their places: those of one are those of all.
            let stats = loaded.counters.snapshot(name, loaded.places.by_class());
            let standing = replica.standing();
            serves |= standing == ReplicaStanding::Serves;
            each.push((
                loaded.place,
                stats.of_replica(&loaded.facts.adapter, standing),
            ));
            match at {
                0 => all = stats,
                _ => all.add(&stats),
            }
        }
        for gone in &self.left_out {
            let stats = gone.counters.as_ref().map(|counters| ModelStats {
                memory: 0,
                running: 0,
                blocks: 0,
                blocks_used: 0,
                blocks_cached: 0,
                blocks_pinned: 0,
                ..counters.snapshot(name, Default::default())
            });
            let stats = stats.unwrap_or_default();
            let standing = ReplicaStanding::LeftOut(gone.reason.clone());
            let again = gone.tried_again.as_ref().map(|replica| {
                let at = replica.loaded.again_at.load(Ordering::Relaxed);
                Duration::from_millis(at).saturating_sub(replica.engine.now())
            });
            let of_it = ReplicaStats {
                again,
                ..stats.of_replica(&gone.adapter, standing)
            };
            each.push((gone.place, of_it));
            all.add(&stats);
        }
        all.away = !serves;
        if each.len() > 1 {
            each.sort_unstable_by_key(|(place, _)| *place);
            all.replicas = each.into_iter().map(|(_, stats)| stats).collect();
        }
        all
    }

    /// What they are through a low-rank adapter of this number, or through none; their adapters are said together.
    pub(crate) fn facts(&self, lora: u32) -> ModelFacts {
        let mut adapters: Vec<&str> = Vec::new();
        for replica in &self.serving {
            let adapter = replica.loaded.facts.adapter.as_str();
            if !adapters.contains(&adapter) {
                adapters.push(adapter);
            }
        }
        let first = self.serving.first().map(|first| first.loaded.facts.clone());
        let sequences = self.serving.iter().map(|one| one.loaded.facts.sequences);
        let first = first.unwrap_or_else(|| ModelFacts {
            name: String::new(),
            digest: String::new(),
            adapter: String::new(),
            context: 0,
            sequences: 0,
        });
        let (mut name, mut digest) = (first.name.clone(), first.digest.clone());
        let loras = self.serving.first().map(|one| one.loaded.loras.as_slice());
        let through = lora.checked_sub(1).zip(loras);
        if let Some(lora) = through.and_then(|(number, loras)| loras.get(number as usize)) {
            (name, digest) = lora.makes.clone();
        }
        ModelFacts {
            name,
            digest,
            adapter: adapters.join(", "),
            sequences: sequences.fold(0, u32::saturating_add),
            ..first
        }
    }

    /// Whether a model of this number is among them, or may be again.
    pub(crate) fn has(&self, number: u64) -> bool {
        let left_out = self.left_out.iter();
        let again = left_out.filter_map(|gone| gone.tried_again.as_ref());
        let mut all = self.serving.iter().chain(again);
        all.any(|replica| replica.loaded.number == number)
    }

    /// The first that can be asked; its engine has not ended.
    pub(crate) fn first(&self) -> Option<&Replica> {
        let mut serving = self.serving.iter();
        serving.find(|replica| !replica.engine.is_closed())
    }

    /// The one whose engine has the fewest requests with documents to encode.
    pub(crate) fn least_ranking(&self) -> Option<&Replica> {
        let open = self.serving.iter();
        let open = open.filter(|replica| !replica.engine.is_closed());
        open.min_by_key(|replica| replica.engine.rankings())
    }

    /// The one that is expected to have a request done first.
    pub(crate) fn choose(&self, wanted: &Wanted) -> Option<Chosen<'_>> {
        best(&self.serving, wanted)
    }
}

impl Replica {
    /// Whether it takes requests.
    fn standing(&self) -> ReplicaStanding {
        if self.engine.is_closed() {
            return ReplicaStanding::LeftOut("its engine has ended".to_owned());
        }
        match (self.engine.is_stalled(), self.loaded.is_away()) {
            (true, _) => ReplicaStanding::Stalled,
            (false, true) => ReplicaStanding::Away,
            (false, false) => ReplicaStanding::Serves,
        }
    }

    /// Whether what it is asked now would have to wait.
    fn has_to_wait(&self) -> bool {
        self.loaded.is_away() || self.engine.is_stalled()
    }
}

/// Of the others of a model's revision, the one that is expected to have a request done first, which has it to do from now on:
/// of those that can serve at once, or, where the model is given up, of all that may do so again.
pub(crate) fn other(
    loaded: &Loaded,
    wanted: &Wanted,
    is_given_up: bool,
) -> Option<(Replica, Burden)> {
    let there: Vec<Replica> = others(loaded)
        .filter(|replica| !replica.loaded.counters.closed.load(Ordering::Acquire))
        .filter(|replica| is_given_up || !replica.has_to_wait())
        .collect();
    let chosen = best(&there, wanted)?;
    Some((chosen.replica.clone(), chosen.burden(wanted)))
}

/// Of a replica and the others that can serve at once, the one that is expected to have a request done first, which has it to do
/// from now on; of equals the first. None is for what is not there any more.
pub(crate) fn it_or_other(it: &Replica, wanted: &Wanted) -> Option<(Replica, Burden)> {
    let mut there = vec![it.clone()];
    there.extend(
        others(&it.loaded)
            .filter(|replica| !replica.loaded.counters.closed.load(Ordering::Acquire))
            .filter(|replica| !replica.has_to_wait()),
    );
    let chosen = best(&there, wanted)?;
    Some((chosen.replica.clone(), chosen.burden(wanted)))
}

/// The others of a model's revision that are still there, also those that do not serve.
fn others(loaded: &Loaded) -> impl Iterator<Item = Replica> {
    let peers = loaded.peers.get().into_iter().flatten();
    peers.filter_map(|peer| {
        Some(Replica {
            loaded: peer.loaded.upgrade()?,
            engine: Arc::clone(&peer.engine),
        })
    })
}

/// The others of a model's revision whose engines do not go on.
pub(crate) fn stalled_others(loaded: &Loaded) -> Vec<Replica> {
    let stalled = others(loaded).filter(|replica| replica.engine.is_stalled());
    stalled.collect()
}

/// Has the others of a model's revision share out anew what they have not begun.
pub(crate) fn have_others_share(loaded: &Loaded) {
    for replica in others(loaded) {
        let share = Command::ShareOut(replica.loaded.number);
        let _ = replica.engine.commands.send(share);
    }
}

/// Whether a model has others of its revision that may serve.
pub(crate) fn has_others(loaded: &Loaded) -> bool {
    loaded.peers.get().is_some_and(|peers| !peers.is_empty())
}

fn best<'a>(replicas: &'a [Replica], wanted: &Wanted) -> Option<Chosen<'a>> {
    let open = || {
        replicas
            .iter()
            .filter(|replica| !replica.engine.is_closed())
    };
    // What is not measured yet is taken to be as another is.
    let mut measured = open().filter_map(|replica| replica.loaded.costs());
    let usual = measured.next().unwrap_or(USUAL_COSTS);
    // One that has to wait is asked where there is no other: it keeps the request until it is back.
    let best = open().min_by_key(|replica| {
        let loaded = &replica.loaded;
        let costs = loaded.costs().unwrap_or(usual);
        let rows = loaded.rows_of(wanted);
        (replica.has_to_wait(), loaded.expected(wanted, rows, costs))
    });
    best.map(|replica| Chosen {
        replica,
        rows: replica.loaded.rows_of(wanted),
    })
}

/// The replica that a request goes to.
pub(crate) struct Chosen<'a> {
    pub(crate) replica: &'a Replica,
    /// Rows of its prompt or texts that are to be computed there.
    pub(crate) rows: u64,
}

impl Chosen<'_> {
    /// It has this to do as well.
    pub(crate) fn burden(&self, wanted: &Wanted) -> Burden {
        self.replica.loaded.load.take(self.rows, wanted.answers)
    }
}

/// What a request asks of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Rows of its prompt or texts.
    pub(crate) rows: u64,
    /// Answers.
    pub(crate) answers: u64,
    /// Most tokens of one.
    pub(crate) tokens: u64,
    /// What its prompt's blocks can be found by, where there are several replicas.
    pub(crate) beginnings: Vec<u64>,
}

impl Wanted {
    /// What is asked through this low-rank adapter; by `several`, whether there are others to choose from.
    pub(crate) fn of(work: &Work, lora: u32, several: bool) -> Wanted {
        match work {
            Work::Generate {
                prompt,
                prefix,
                parameters,
                ..
            } => {
                let tokens = u64::from(parameters.max_tokens);
                Wanted {
                    rows: (prompt.len() + prefix.len()) as u64,
                    answers: u64::from(parameters.n),
                    tokens: tokens.saturating_sub(prefix.len() as u64),
                    beginnings: match several {
                        true => beginnings(lora, prompt),
                        false => Vec::new(),
                    },
                }
            }
            Work::Encode { texts, .. } => Wanted {
                rows: texts.iter().map(|text| text.tokens.len() as u64).sum(),
                ..Wanted::default()
            },
        }
    }
}

/// What a replica still has to do, as far as it was asked.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// The adapter that it runs on.
    adapter: Arc<str>,
    rows: AtomicU64,
    answers: AtomicU64,
    /// What a test takes steps to cost, whatever they took.
    #[cfg(test)]
    pretended: OnceLock<[u64; 3]>,
}

impl Load {
    /// Of a replica on this adapter, which was asked nothing yet.
    pub(crate) fn of(adapter: &str) -> Load {
        Load {
            adapter: adapter.into(),
            ..Load::default()
        }
    }

    /// What it has to do once it is asked this as well.
    fn take(self: &Arc<Load>, rows: u64, answers: u64) -> Burden {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.answers.fetch_add(answers, Ordering::Relaxed);
        Burden {
            load: Arc::clone(self),
            rows,
            answers,
        }
    }

    /// Requests' answers that have not ended.
    #[cfg(test)]
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// From now on steps are taken to cost this: as [`Loaded::costs`].
    #[cfg(test)]
    pub(crate) fn pretend_costs(&self, costs: [u64; 3]) {
        let _ = self.pretended.set(costs);
    }
}

/// A request's part of what its replica has to do, until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Burden {
    load: Arc<Load>,
    rows: u64,
    answers: u64,
}

impl Burden {
    /// The adapter of its replica.
    pub(crate) fn adapter(&self) -> Arc<str> {
        Arc::clone(&self.load.adapter)
    }

    /// Its prompt was taken in.
    pub(crate) fn prompt_is_in(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        self.load.rows.fetch_sub(rows, Ordering::Relaxed);
    }

    /// All of it was done, or is not to be.
    pub(crate) fn is_done(&mut self) {
        self.prompt_is_in();
        let answers = std::mem::take(&mut self.answers);
        self.load.answers.fetch_sub(answers, Ordering::Relaxed);
    }
}

impl Drop for Burden {
    fn drop(&mut self) {
        self.is_done();
    }
}

/// What the blocks that a replica keeps can be found by; its engine's thread writes, callers look.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashSet<u64>>);

impl Known {
    fn with<T>(&self, act: impl FnOnce(&mut HashSet<u64>) -> T) -> T {
        // It is whole after any panic: what is in it is looked at as a hint only.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, hash: u64) {
        self.with(|known| known.insert(hash));
    }

    pub(crate) fn remove(&self, hash: u64) {
        self.with(|known| known.remove(&hash));
    }

    pub(crate) fn forget(&self) {
        self.with(HashSet::clear);
    }

    /// Rows that need not be computed of a prompt with these beginnings.
    pub(crate) fn found(&self, beginnings: &[u64]) -> u64 {
        let known = self.with(|known| {
            beginnings
                .iter()
                .take_while(|hash| known.contains(hash))
                .count()
        });
        (known * BLOCK) as u64
    }
}

impl Loaded {
    /// Whether it has nothing to run with, until it is loaded again.
    pub(crate) fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire)
    }

    /// Nanoseconds that a step, a prompt token and a decode row take; none before any was measured.
    fn costs(&self) -> Option<[u64; 3]> {
        #[cfg(test)]
        if let Some(pretended) = self.load.pretended.get() {
            return Some(*pretended);
        }
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let measured = self.counters.costs.each_ref().map(counted);
        (measured != [0; 3]).then(|| measured.map(|cost| cost.max(1)))
    }

    /// Rows of a request that it would have to compute.
    fn rows_of(&self, wanted: &Wanted) -> u64 {
        let known = self.known.as_ref();
        let found = known.map_or(0, |known| known.found(&wanted.beginnings));
        wanted.rows.saturating_sub(found)
    }

    /// Nanoseconds until a request would be done, with so many rows to compute: the prompts before it and its own, what its
    /// answers and those beside them make longer of each step, and, where all places are taken, a place.
    fn expected(&self, wanted: &Wanted, own_rows: u64, costs: [u64; 3]) -> u128 {
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [step, prompt_token, row] = costs;
        let (rows, answers) = (counted(&self.load.rows), counted(&self.load.answers));
        let (ended, made) = (
            counted(&self.counters.answered),
            counted(&self.counters.tokens),
        );
        let usual = made.checked_div(ended).unwrap_or(USUAL_ANSWER).max(1);
        let tokens = usual.min(wanted.tokens);
        let places = u64::from(self.facts.sequences).max(1);
        let all = answers + wanted.answers;
        let beside = all.min(places);
        let prompts = u128::from(rows + own_rows) * u128::from(prompt_token);
        let own = u128::from(tokens) * u128::from(beside * row);
        let one = u128::from(usual) * u128::from(step + places * row);
        let waits = u128::from(all.saturating_sub(places)) * one / u128::from(places);
        prompts + own + waits
    }
}
