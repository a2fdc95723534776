//! Models of other servers: opened as the pipeline file has them, and held against the stages that ask them.

use std::time::Duration;

use tidegate_connect::remote::{
    BreakerOptions, Dialect, Hedge, Kserve, LimitName, OpenAi, RemoteError, RemoteKind,
    RemoteModel, RemoteOptions, RemoteTimeouts, RetryBudget, Roots, Secret, estimated_tokens,
};
use tidegate_contract::{Makes, Parameters, Role, Structure};
use tidegate_control::config::{
    self, Ask, BiasedToken, DEFAULT_CONTEXT, Generate, Mistake, Model, Pipeline, RemoteHedge,
    RemoteProtocol, check_labels,
};

use super::fit::{Length, asking};
use crate::exit::Failure;
use crate::opening::Seen;

/// Wait before a second try.
const BACKOFF: Duration = Duration::from_millis(500);

/// What keeps the model of another server from being asked from here, found without asking it.
pub(crate) fn look(
    pipeline: &Pipeline,
    index: usize,
    remote: &config::RemoteModel,
    seen: &mut Seen,
) {
    let model = &pipeline.models[index];
    let key = match key(remote) {
        Ok(key) => key,
        Err(what) => {
            seen.lacks(pipeline.mistake_of_model(model, what));
            None
        }
    };
    let options = options(pipeline, index, remote, key);
    let of_system = options.roots == Roots::System;
    match RemoteModel::check(&options) {
        Ok(()) => {}
        // Whom the system trusts is another question on another machine.
        Err(error @ RemoteError::Roots { .. }) if of_system => {
            seen.lacks(pipeline.mistake_of_model(model, error));
        }
        Err(error) => seen.mistake(pipeline.mistake_of_model(model, error)),
    }
}

/// Opens the model of another server. Nothing is asked yet.
pub(crate) fn open(
    pipeline: &Pipeline,
    index: usize,
    remote: &config::RemoteModel,
) -> Result<RemoteModel, Failure> {
    let wrong = |what: String| {
        let name = &pipeline.models[index].name;
        Failure::usage(format_args!("model {name}: {what}"))
    };
    let key = key(remote).map_err(wrong)?;
    RemoteModel::open(options(pipeline, index, remote, key))
        .map_err(|error| wrong(error.to_string()))
}

/// The key that a server is sent, if it is sent one.
fn key(remote: &config::RemoteModel) -> Result<Option<Secret>, String> {
    let Some(name) = &remote.key_variable else {
        return Ok(None);
    };
    let key = std::env::var(name).ok().filter(|key| !key.is_empty());
    key.map(|key| Some(Secret::new(key))).ok_or_else(|| {
        format!("the environment variable {name} of key-variable is not set here, or empty; a run needs it")
    })
}

fn options(
    pipeline: &Pipeline,
    index: usize,
    remote: &config::RemoteModel,
    key: Option<Secret>,
) -> RemoteOptions {
    let model = &pipeline.models[index];
    let makes = asking(pipeline, index)
        .next()
        .map(|(_, _, stage)| &stage.ask);
    let kind = match &remote.protocol {
        RemoteProtocol::OpenAi {
            vllm,
            completion_tokens,
        } => RemoteKind::OpenAi(OpenAi {
            key,
            makes: match makes {
                Some(Ask::Embed) => Makes::Embeddings,
                _ => Makes::Text,
            },
            dialect: match vllm {
                true => Dialect::Vllm,
                false => Dialect::OpenAi,
            },
            limit_name: match completion_tokens {
                true => LimitName::MaxCompletionTokens,
                false => LimitName::MaxTokens,
            },
            batch: remote.batch,
            ..OpenAi::new(&remote.url, &remote.model)
        }),
        RemoteProtocol::Kserve {
            version,
            input,
            output,
            column,
            logits,
            labels,
        } => RemoteKind::Kserve(Kserve {
            key,
            version: version.clone(),
            input: input.clone(),
            output: output.clone(),
            column: *column,
            logits: *logits,
            labels: labels.clone(),
            batch: remote.batch,
            ..Kserve::new(&remote.url, &remote.model)
        }),
    };
    let context = model.context.unwrap_or(DEFAULT_CONTEXT) as u32;
    RemoteOptions {
        max_tokens: remote.max_tokens.unwrap_or(context),
        concurrency: remote.in_flight,
        queue: model.queue,
        timeouts: RemoteTimeouts {
            connect: remote.timeouts.connect,
            first: remote.timeouts.first,
            between: remote.timeouts.between,
            whole: remote.timeouts.whole,
        },
        attempts: remote.attempts,
        backoff: BACKOFF,
        budget: RetryBudget {
            share: remote.retry_budget,
            ..RetryBudget::default()
        },
        hedge: match remote.hedge {
            RemoteHedge::Off => Hedge::Off,
            RemoteHedge::Late => Hedge::Late,
            RemoteHedge::After(time) => Hedge::After(time),
        },
        breaker: BreakerOptions {
            window: remote.breaker.within,
            least: remote.breaker.least,
            share: remote.breaker.share,
            open: remote.breaker.open,
        },
        roots: remote
            .certificates
            .clone()
            .map_or(Roots::System, Roots::File),
        ..RemoteOptions::new(&model.name, kind, context)
    }
}

/// What a server cannot be told, and what does not fit its model, is found before it is asked.
pub(crate) fn mistakes(
    pipeline: &Pipeline,
    index: usize,
    model: &Model,
    remote: &config::RemoteModel,
) -> Vec<Mistake> {
    let mut found = Vec::new();
    let mut kinds = asking(pipeline, index).map(|(_, _, kind)| std::mem::discriminant(&kind.ask));
    if let Some(first) = kinds.next()
        && kinds.any(|other| other != first)
    {
        found.push(pipeline.mistake_of_model(
            model,
            "is asked for different things by its stages; write a model for each",
        ));
    }
    for (number, stage, kind) in asking(pipeline, index) {
        // One that only answers under load is asked as it is.
        if let Ask::Generate(generate) = &kind.ask
            && generate.pin_prefix
            && kind.model == index
        {
            let what = format!(
                "has no place where another server has the model: what stays on the device of {:?} is for that to say",
                model.name
            );
            found.push(pipeline.mistake_of_pin(stage, what));
        }
        if kind.prompt_name().is_some() {
            let what = format!(
                "has no place where another server has the model: what {:?} puts before texts is for that to say; write \
                 yours into text",
                model.name
            );
            found.push(pipeline.mistake_of_prompt_name(stage, what));
        }
        match (&kind.ask, &remote.protocol) {
            (Ask::Generate(generate), RemoteProtocol::OpenAi { vllm, .. }) => {
                let wrong = untold(generate, *vllm);
                found.extend(wrong.map(|what| {
                    pipeline.mistake_of_stage(
                        stage,
                        format!(
                            "{what}, which the server of model {:?} cannot be told",
                            model.name
                        ),
                    )
                }));
                // What a server puts around a prompt is not known; the system message is an estimate.
                let system = generate.system.as_deref();
                let asked = model.told().map(|holds| Length {
                    model: &model.name,
                    holds,
                    held: "",
                    around: system.map_or(0, estimated_tokens),
                    taken: "the system message",
                    fixed: None,
                });
                let wrong = asked.and_then(|asked| asked.mistake(kind));
                found.extend(wrong.map(|what| pipeline.mistake_of_length(stage, what)));
            }
            (Ask::Classify { .. }, RemoteProtocol::Kserve { labels, .. }) => {
                found.extend(
                    check_labels(pipeline, number, labels)
                        .err()
                        .unwrap_or_default(),
                );
            }
            _ => {}
        }
    }
    found
}

/// The first thing of a stage that cannot be said in a server's protocol.
fn untold(generate: &Generate, vllm: bool) -> Option<&'static str> {
    let Parameters {
        top_k,
        min_p,
        repetition_penalty,
        logprobs,
        structure,
        reasoning_tokens,
        ..
    } = &generate.parameters;
    let text = |(token, _): &(BiasedToken, f32)| matches!(token, BiasedToken::Text(_));
    if logprobs.is_some() {
        return Some("has logprobs");
    }
    if generate.bias.iter().any(text) {
        return Some("has logit-bias by text");
    }
    if reasoning_tokens.is_some() {
        return Some("has reasoning-tokens");
    }
    if vllm {
        return None;
    }
    if !generate.template_arguments.is_empty() {
        return Some("has template-arguments without dialect = \"vllm\"");
    }
    if (generate.turns.last()).is_some_and(|turn| turn.role == Role::Assistant) {
        return Some("goes on with a message of the assistant without dialect = \"vllm\"");
    }
    if let Some(Structure::Regex(_) | Structure::Choice(_) | Structure::Grammar(_)) = structure {
        return Some("has regex, choices or grammar without dialect = \"vllm\"");
    }
    let beyond = *top_k != 0 || *min_p != 0.0 || *repetition_penalty != 1.0;
    beyond.then_some("has top-k, min-p or repetition-penalty without dialect = \"vllm\"")
}
