//! Models, those of this machine and those of other servers.

use tidegate_connect::remote::{RemoteStats, Standing};
use tidegate_serving::{ModelStats, ReplicaStanding};
use tidegate_telemetry::metrics::{Exposition, Family, Since, Value, table};

/// A model of this machine, as it stands.
#[derive(Clone)]
pub(crate) struct ModelNow {
    pub(crate) name: String,
    pub(crate) loaded: bool,
    pub(crate) stats: ModelStats,
    /// Its adapters: which each is, its name, and the bytes that models may hold there and hold.
    pub(crate) adapters: Vec<(u32, String, u64, u64)>,
}

/// Models of this machine, and their adapters.
pub(crate) fn models(exposition: &mut Exposition, models: &[ModelNow]) {
    type Figure = (&'static Family, fn(&ModelStats) -> u64);
    const FIGURES: [Figure; 22] = [
        (&table::MODEL_MEMORY, |m| m.memory),
        (&table::MODEL_RUNNING, |m| m.running as u64),
        (&table::MODEL_KV_BLOCKS, |m| m.blocks as u64),
        (&table::MODEL_KV_USED, |m| m.blocks_used as u64),
        (&table::MODEL_KV_CACHED, |m| m.blocks_cached as u64),
        (&table::MODEL_KV_PINNED, |m| m.blocks_pinned as u64),
        (&table::MODEL_REPLACED_MEMORY, |m| m.replaced.memory),
        (&table::MODEL_REPLACED_WAITING, |m| m.replaced.waiting),
        (&table::MODEL_REPLACED_RUNNING, |m| m.replaced.running),
        (&table::MODEL_REPLACED_TOKENS, |m| m.replaced.tokens),
        (&table::MODEL_ANSWERED, |m| m.answered),
        (&table::MODEL_LEFT, |m| m.cancelled),
        (&table::MODEL_REFUSED, |m| m.refused),
        (&table::MODEL_RETRIED, |m| m.retried),
        (&table::MODEL_MOVED, |m| m.moved),
        (&table::MODEL_REASONING, |m| m.reasoning_tokens),
        (&table::MODEL_FORCED, |m| m.forced),
        (&table::MODEL_PREFIX_QUERIED, |m| m.prefix_query_tokens),
        (&table::MODEL_PREEMPTIONS, |m| m.preemptions),
        (&table::MODEL_FAILED_STEPS, |m| m.failed_steps),
        (&table::MODEL_RELOADS, |m| m.reloads),
        (&table::MODEL_DRAFT_FAILURES, |m| m.draft_failures),
    ];
    for model in models {
        let (name, stats) = (model.name.as_str(), &model.stats);
        exposition.add(&table::MODEL_LOADED, &[name], model.loaded);
        // A model that is not loaded has counted nothing: its counters begin with its load.
        let mut add = |family: &'static Family, labels: &[&str], value: Value| match (
            family.since,
            stats.since,
        ) {
            (Since::Load, Some(since)) => exposition.add_since(family, labels, value, since),
            (Since::Load, None) => {}
            _ => exposition.add(family, labels, value),
        };
        for (class, waiting) in stats.waiting_by_class.iter().enumerate() {
            let class = class.to_string();
            add(&table::MODEL_WAITING, &[name, &class], (*waiting).into());
        }
        for (family, figure) in FIGURES {
            add(family, &[name], figure(stats).into());
        }
        for (reason, number) in [
            ("expired", stats.expired),
            ("hopeless", stats.hopeless),
            ("failed", stats.failed_otherwise),
        ] {
            add(&table::MODEL_FAILED, &[name, reason], number.into());
        }
        for (kind, number) in [
            ("prompt", stats.prompt_tokens),
            ("cached", stats.prefix_hit_tokens),
            ("generated", stats.tokens),
        ] {
            add(&table::MODEL_TOKENS, &[name, kind], number.into());
        }
        for (outcome, number) in [("accepted", stats.accepted), ("rejected", stats.rejected)] {
            add(&table::MODEL_DRAFTED, &[name, outcome], number.into());
        }
        for (kind, number) in [("prompt", stats.prompt_rows), ("answer", stats.answer_rows)] {
            add(&table::MODEL_ROWS, &[name, kind], number.into());
        }
        for (family, spread) in [
            (&table::MODEL_STEP_SECONDS, &stats.step_seconds),
            (&table::MODEL_QUEUE_SECONDS, &stats.queue_seconds),
            (
                &table::MODEL_FIRST_TOKEN_SECONDS,
                &stats.first_token_seconds,
            ),
            (
                &table::MODEL_BETWEEN_TOKENS_SECONDS,
                &stats.between_tokens_seconds,
            ),
        ] {
            add(family, &[name], spread.clone().into());
        }
    }
    for model in models {
        replicas(exposition, &model.name, &model.stats);
        loras(exposition, &model.name, &model.stats);
    }
    // Several models share an adapter, and several adapters may have one name.
    let mut adapters: Vec<&(u32, String, u64, u64)> =
        models.iter().flat_map(|model| &model.adapters).collect();
    adapters.sort();
    adapters.dedup_by_key(|(index, ..)| *index);
    for (at, (_, name, ..)) in adapters.iter().enumerate() {
        if adapters[..at].iter().any(|(_, other, ..)| other == name) {
            continue;
        }
        let same = || adapters.iter().filter(|(_, other, ..)| other == name);
        let budget = same().fold(0, |sum: u64, (_, _, budget, _)| sum.saturating_add(*budget));
        let used = same().map(|(_, _, _, used)| used).sum::<u64>();
        exposition.add(&table::ADAPTER_BUDGET, &[name], budget);
        exposition.add(&table::ADAPTER_USED, &[name], used);
    }
}

/// The replicas of a model that has several.
fn replicas(exposition: &mut Exposition, model: &str, stats: &ModelStats) {
    for (number, replica) in stats.replicas.iter().enumerate() {
        let number = number.to_string();
        let labels = [model, number.as_str(), replica.adapter.as_str()];
        let serves = replica.standing == ReplicaStanding::Serves;
        exposition.add(&table::REPLICA_SERVES, &labels, serves);
        exposition.add(&table::REPLICA_RUNNING, &labels, replica.running as u64);
        exposition.add(&table::REPLICA_KV_USED, &labels, replica.blocks_used as u64);
        let Some(since) = stats.since else { continue };
        for (family, value) in [
            (&table::REPLICA_ANSWERED, replica.answered),
            (&table::REPLICA_TOKENS, replica.tokens),
            (&table::REPLICA_STEPS, replica.steps),
            (&table::REPLICA_RELOADS, replica.reloads),
        ] {
            exposition.add_since(family, &labels, value, since);
        }
    }
}

/// The low-rank adapters that a model is loaded with: what they were asked is in its own figures, too.
fn loras(exposition: &mut Exposition, model: &str, stats: &ModelStats) {
    let Some(since) = stats.since else { return };
    for of in &stats.loras {
        let lora = of.lora.name.as_str();
        for (family, value) in [
            (&table::LORA_ANSWERED, of.answered),
            (&table::LORA_FAILED, of.failed),
            (&table::LORA_LEFT, of.cancelled),
        ] {
            exposition.add_since(family, &[model, lora], value, since);
        }
        for (kind, value) in [
            ("prompt", of.prompt_tokens),
            ("cached", of.prefix_hit_tokens),
            ("generated", of.tokens),
        ] {
            exposition.add_since(&table::LORA_TOKENS, &[model, lora, kind], value, since);
        }
    }
}

/// Models of other servers.
pub(crate) fn remote(exposition: &mut Exposition, models: &[RemoteStats]) {
    type Figure = (&'static Family, fn(&RemoteStats) -> u64);
    const FIGURES: [Figure; 10] = [
        (&table::REMOTE_ASKED, |m| m.asked),
        (&table::REMOTE_ANSWERED, |m| m.answered),
        (&table::REMOTE_LEFT, |m| m.cancelled),
        (&table::REMOTE_REFUSED, |m| m.refused),
        (&table::REMOTE_RETRIED, |m| m.retried),
        (&table::REMOTE_HEDGED, |m| m.hedged),
        (&table::REMOTE_HEDGE_WINS, |m| m.hedge_wins),
        (&table::REMOTE_BREAKER_OPENED, |m| m.breaker_opened),
        (&table::REMOTE_UNDER_WAY, |m| m.running as u64),
        (&table::REMOTE_WAITING, |m| m.waiting as u64),
    ];
    for model in models {
        let name = model.name.as_str();
        for (family, figure) in FIGURES {
            exposition.add(family, &[name], figure(model));
        }
        let open = matches!(
            model.standing,
            Standing::Open { .. } | Standing::HalfOpen { .. }
        );
        exposition.add(&table::REMOTE_BREAKER_OPEN, &[name], open);
        for (reason, number) in [("expired", model.expired), ("failed", model.failed)] {
            exposition.add(&table::REMOTE_FAILED, &[name, reason], number);
        }
        for (kind, number) in [("prompt", model.prompt_tokens), ("generated", model.tokens)] {
            exposition.add(&table::REMOTE_TOKENS, &[name, kind], number);
        }
        exposition.add(&table::REMOTE_REASONING, &[name], model.reasoning_tokens);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use tidegate_serving::{LoadedLora, LoraStats, ReplicaStats};
    use tidegate_telemetry::metrics::Kind;

    use super::*;

    fn model(name: &str, index: u32, adapter: &str) -> ModelNow {
        ModelNow {
            name: name.into(),
            loaded: true,
            stats: ModelStats {
                since: Some(SystemTime::now()),
                expired: 2,
                failed_otherwise: 4,
                cancelled: 5,
                accepted: 7,
                rejected: 3,
                prompt_rows: 20,
                answer_rows: 30,
                ..ModelStats::default()
            },
            adapters: vec![(index, adapter.into(), 100, 40)],
        }
    }

    fn has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_is_part_of_something_adds_up_to_it() {
        let mut exposition = Exposition::default();
        models(
            &mut exposition,
            &[
                model("one", 0, "gpu"),
                model("two", 0, "gpu"),
                model("three", 1, "gpu"),
            ],
        );
        has(
            &exposition.text(),
            &[
                "tidegate_model_failed_requests_total{model=\"one\",reason=\"expired\"} 2",
                "tidegate_model_failed_requests_total{model=\"one\",reason=\"failed\"} 4",
                // Nothing has failed where somebody has gone.
                "tidegate_model_left_requests_total{model=\"one\"} 5",
                "tidegate_model_drafted_tokens_total{model=\"one\",outcome=\"rejected\"} 3",
                "tidegate_model_rows_total{model=\"two\",kind=\"answer\"} 30",
                "tidegate_model_waiting_requests{model=\"two\",class=\"9\"} 0",
                "tidegate_adapter_budget_bytes{adapter=\"gpu\"} 200",
                "tidegate_adapter_used_bytes{adapter=\"gpu\"} 80",
            ],
        );
    }

    #[test]
    fn a_model_counts_from_its_load_and_nothing_before_it() {
        let mut exposition = Exposition::of_process(UNIX_EPOCH + Duration::from_nanos(7));
        let loaded = UNIX_EPOCH + Duration::from_nanos(9);
        let since = |since| {
            let mut model = model("one", 0, "gpu");
            model.stats.since = since;
            model
        };
        models(&mut exposition, &[since(Some(loaded))]);
        for family in exposition.families().iter() {
            let counts = matches!(family.kind, Kind::Counter | Kind::Histogram);
            for sample in &family.samples {
                // Those before it count on whatever is loaded.
                let began = match family.name == table::MODEL_REPLACED_TOKENS.name {
                    true => 7,
                    false => 9,
                };
                assert_eq!(
                    sample.since,
                    if counts { began } else { 0 },
                    "{}",
                    family.name
                );
            }
        }
        let mut exposition = Exposition::default();
        models(&mut exposition, &[since(None)]);
        let text = exposition.text();
        assert!(text.contains("tidegate_model_running_sequences{"), "{text}");
        assert!(!text.contains("tidegate_model_tokens_total{"), "{text}");
    }

    #[test]
    fn replicas_are_told_one_by_one_and_only_where_there_are_several() {
        let mut several = model("several", 0, "gpu");
        several.adapters.push((1, "cpu".into(), 50, 4));
        several.stats.replicas = [
            ("gpu", ReplicaStanding::Serves, 7),
            ("cpu", ReplicaStanding::Away, 3),
            ("cpu", ReplicaStanding::LeftOut("gone".into()), 1),
        ]
        .into_iter()
        .map(|(adapter, standing, tokens)| ReplicaStats {
            adapter: adapter.into(),
            standing,
            tokens,
            ..ReplicaStats::default()
        })
        .collect();
        let mut exposition = Exposition::default();
        models(&mut exposition, &[several, model("alone", 0, "gpu")]);
        let text = exposition.text();
        has(
            &text,
            &[
                "tidegate_replica_serves{model=\"several\",replica=\"0\",adapter=\"gpu\"} 1",
                "tidegate_replica_serves{model=\"several\",replica=\"1\",adapter=\"cpu\"} 0",
                "tidegate_replica_serves{model=\"several\",replica=\"2\",adapter=\"cpu\"} 0",
                "tidegate_replica_generated_tokens_total{model=\"several\",replica=\"0\",adapter=\"gpu\"} 7",
                "tidegate_adapter_used_bytes{adapter=\"cpu\"} 4",
            ],
        );
        assert!(!text.contains("replica_serves{model=\"alone\""), "{text}");
    }

    #[test]
    fn adapters_of_a_model_are_told_by_their_names() {
        let mut one = model("base", 0, "gpu");
        one.stats.loras = ["polite", "terse"]
            .map(|name| LoraStats {
                lora: LoadedLora {
                    name: name.into(),
                    ..LoadedLora::default()
                },
                answered: name.len() as u64,
                prompt_tokens: 20,
                prefix_hit_tokens: 3,
                tokens: 9,
                failed: 1,
                cancelled: 2,
            })
            .to_vec();
        let mut exposition = Exposition::default();
        models(&mut exposition, &[one.clone(), model("alone", 0, "gpu")]);
        let text = exposition.text();
        has(
            &text,
            &[
                "tidegate_lora_answered_requests_total{model=\"base\",lora=\"polite\"} 6",
                "tidegate_lora_answered_requests_total{model=\"base\",lora=\"terse\"} 5",
                "tidegate_lora_failed_requests_total{model=\"base\",lora=\"terse\"} 1",
                "tidegate_lora_left_requests_total{model=\"base\",lora=\"terse\"} 2",
                "tidegate_lora_tokens_total{model=\"base\",lora=\"polite\",kind=\"prompt\"} 20",
                "tidegate_lora_tokens_total{model=\"base\",lora=\"polite\",kind=\"cached\"} 3",
                "tidegate_lora_tokens_total{model=\"base\",lora=\"polite\",kind=\"generated\"} 9",
            ],
        );
        assert_eq!(text.matches("lora=\"").count(), 12, "{text}");
        // Of one that is not loaded nothing was counted.
        one.stats.since = None;
        let mut exposition = Exposition::default();
        models(&mut exposition, &[one]);
        assert!(!exposition.text().contains("lora=\""));
    }

    #[test]
    fn a_breaker_is_open_until_the_server_is_known_to_be_well() {
        for (standing, open) in [
            (Standing::Closed, 0),
            (Standing::Resting, 0),
            (
                Standing::Open {
                    since: Duration::ZERO,
                },
                1,
            ),
            (
                Standing::HalfOpen {
                    since: Duration::ZERO,
                    probing: true,
                },
                1,
            ),
        ] {
            let stats = RemoteStats {
                name: "big".into(),
                standing,
                ..RemoteStats::default()
            };
            let mut exposition = Exposition::default();
            remote(&mut exposition, &[stats]);
            let line = format!("tidegate_remote_breaker_open{{model=\"big\"}} {open}");
            has(&exposition.text(), &[&line]);
        }
    }
}
