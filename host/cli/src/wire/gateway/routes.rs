//! The ways of requests through the pipeline, with what is known of them before they are asked.

use std::sync::Arc;

use tidegate_contract::{AskingRecord, Prompt, TemplateArguments};
use tidegate_control::config::{
    self, Ask, LoadStep, ModelStage, Pipeline, RemoteProtocol, SourceKind, StageKind,
};
use tidegate_flow::Topology;
use tidegate_gateway::openai::load::{OtherModel, Step};
use tidegate_gateway::openai::route::{
    Bounds, Count, Endpoint, IsSilent, ModelEntry, Present, PromptCost, Route, Settled, TokenText,
};

use crate::models::Served;
use crate::wire::{Models, max_tokens};

/// Every source of requests.
pub(super) fn routes(
    pipeline: &Pipeline,
    models: &Models,
    topology: &Topology,
    made: u64,
) -> Vec<Route> {
    let mut routes = Vec::new();
    for (index, source) in pipeline.sources.iter().enumerate() {
        let SourceKind::Gateway(route) = &source.kind else {
            continue;
        };
        let stages = pipeline.answering(index);
        let asks: Vec<(&ModelStage, &Served)> = stages
            .iter()
            .filter_map(|stage| match &pipeline.stages.get(*stage)?.kind {
                StageKind::Model(asks) => Some((&**asks, models.get(asks.model)?.as_ref()?)),
                StageKind::Operator(_) => None,
            })
            .collect();
        let entries = route.models.iter().map(|name| ModelEntry {
            name: name.clone(),
            made,
        });
        let (steps, others) = under_load(pipeline, models, &asks, &route.under_load);
        let only = match asks.as_slice() {
            [one] => Some(*one),
            _ => None,
        };
        routes.push(Route {
            name: source.name.clone(),
            models: entries.collect(),
            own: (asks.iter())
                .map(|(asks, _)| pipeline.models[asks.model].name.clone())
                .collect(),
            steps,
            others,
            endpoints: route.endpoints.iter().filter_map(endpoint).collect(),
            headers: (route.headers.iter())
                .filter_map(|name| name.parse().ok())
                .collect(),
            key_header: (route.key_header.as_ref()).and_then(|name| name.parse().ok()),
            deadline: route.deadline,
            class: route.priority,
            source: index as u16,
            bounds: bounds(&asks, models),
            ranks_whole: (asks.iter()).any(|(asks, _)| matches!(asks.ask, Ask::Rerank { .. })),
            count: only.and_then(|(asks, served)| count(asks, served)),
            has_form: pipeline.reached(index).any(gives_form),
            settled: settled(pipeline.on_the_way(index)),
            present: present(topology, index),
            token_text: only.map(|(_, served)| token_text(served)),
            is_silent: is_silent(asks.iter().map(|(_, served)| *served)),
        });
    }
    routes
}

/// The steps of a source, and the models that they name.
fn under_load(
    pipeline: &Pipeline,
    models: &Models,
    asks: &[(&ModelStage, &Served)],
    steps: &[LoadStep],
) -> (Vec<Step>, Vec<OtherModel>) {
    let (mut indices, mut others) = (Vec::new(), Vec::new());
    for index in steps.iter().filter_map(|step| step.model) {
        if indices.contains(&index) {
            continue;
        }
        let Some(served) = models.get(index).and_then(Option::as_ref) else {
            continue;
        };
        // The stages that ask it, as if it were their own.
        let stages = asks.iter().filter(|(asks, _)| asks.asks(index));
        let stages: Vec<_> = stages.map(|(asks, _)| (*asks, served)).collect();
        indices.push(index);
        others.push(OtherModel {
            name: pipeline.models[index].name.clone(),
            bounds: bounds(&stages, models),
            count: match stages.as_slice() {
                [(asks, served)] => count(asks, served),
                _ => None,
            },
            token_text: Some(token_text(served)),
            continues: continues(&pipeline.models[index]),
            is_silent: is_silent([served]),
        });
    }
    let steps = steps.iter().map(|step| Step {
        waiting: step.waiting,
        oldest: step.oldest,
        model: (step.model).and_then(|model| indices.iter().position(|index| *index == model)),
        max_tokens: step.max_tokens,
        refuse: step.refuse,
    });
    (steps.collect(), others)
}

/// Whether one of these models is on a server that has failed.
fn is_silent<'a>(served: impl IntoIterator<Item = &'a Served>) -> Option<IsSilent> {
    let remote = served.into_iter().filter_map(Served::remote).cloned();
    let remote: Vec<_> = remote.collect();
    (!remote.is_empty())
        .then(|| -> IsSilent { Arc::new(move || remote.iter().any(|model| model.is_silent())) })
}

fn token_text(served: &Served) -> TokenText {
    let model = served.model();
    Arc::new(move |token| model.token_text(token))
}

fn endpoint(endpoint: &config::Endpoint) -> Option<Endpoint> {
    Endpoint::ALL
        .into_iter()
        .find(|known| known.name() == endpoint.name())
}

/// Whether a model can be told to go on with an answer: of those of other servers, only some.
fn continues(model: &config::Model) -> bool {
    let remote = model.remote.as_ref();
    remote.is_none_or(|remote| matches!(remote.protocol, RemoteProtocol::OpenAi { vllm: true, .. }))
}

/// Whether what a client asks for has a form at a stage.
fn gives_form(stage: &config::Stage) -> bool {
    match &stage.kind {
        StageKind::Model(asks) => match &asks.ask {
            Ask::Generate(generate) => asks.messages && generate.parameters.structure.is_some(),
            Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => false,
        },
        StageKind::Operator(_) => false,
    }
}

/// Which requests have the same answer each time, by the stages on their way. What a stage draws for a prompt of its own
/// depends on the record, whatever the client asks.
fn settled<'p>(stages: impl Iterator<Item = &'p config::Stage>) -> Settled {
    let models = stages.filter_map(|stage| match &stage.kind {
        StageKind::Model(asks) => Some(&**asks),
        StageKind::Operator(_) => None,
    });
    let each = models.map(|asks| match &asks.ask {
        Ask::Generate(generate) if generate.parameters.temperature != 0.0 => match asks.messages {
            true => Settled::WhereAsked,
            false => Settled::Never,
        },
        Ask::Generate(_)
        | Ask::Embed
        | Ask::Classify { .. }
        | Ask::Recognize { .. }
        | Ask::Rerank { .. } => Settled::Usually,
    });
    // Where no model answers, nothing is known of what does.
    each.min().unwrap_or(Settled::WhereAsked)
}

fn present(topology: &Topology, source: usize) -> Present {
    let makers = topology.makers(source);
    Arc::new(move || makers.mark())
}

/// What fits all models that may answer.
fn bounds(asks: &[(&ModelStage, &Served)], models: &Models) -> Bounds {
    let contexts = asks.iter().map(|(_, served)| served.facts().context);
    let answers = asks.iter().filter_map(|(asks, _)| match &asks.ask {
        Ask::Generate(_) => Some(max_tokens(asks, models)),
        Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => None,
    });
    Bounds {
        context_tokens: contexts.min().unwrap_or(u32::MAX),
        answer_tokens: answers.max().unwrap_or_default(),
        dimensions: None,
    }
}

/// Counts what a stage would ask; none where its own prompt is asked.
fn count(asks: &ModelStage, served: &Served) -> Option<Count> {
    let (system, arguments) = match &asks.ask {
        Ask::Generate(generate) if asks.messages => {
            (generate.system.clone(), generate.template_arguments.clone())
        }
        Ask::Generate(_) => return None,
        Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => {
            (None, TemplateArguments::default())
        }
    };
    let encoder = !matches!(asks.ask, Ask::Generate(_));
    let before = match &asks.ask {
        Ask::Embed => served.text_prompt(asks),
        _ => String::new(),
    };
    let model = served.model();
    Some(Arc::new(move |record: &AskingRecord| {
        let mut record = record.clone();
        // What cannot be asked is said where it is.
        if let Ok(all) = record.template_arguments.over(&arguments) {
            record.template_arguments = all;
        }
        let prompt = record.into_prompt(system.as_deref());
        let tokens = match &prompt {
            Prompt::Raw(text) if encoder && before.is_empty() => model.count_tokens(text)?,
            Prompt::Raw(text) if encoder => model.count_tokens(&format!("{before}{text}"))?,
            prompt => model.prompt_tokens(prompt)?,
        };
        Ok(PromptCost { tokens })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipeline with a stage before the one that answers.
    fn settled_with(before: &str, answer: &str) -> Settled {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipeline.toml");
        let model = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/support-bot/model"
        );
        let file = format!(
            "[pipeline]\nname = \"front\"\n[gateway]\n[source.chat]\ntype = \"gateway\"\n\
             [model.support]\npath = {model:?}\n{before}\n\
             [[stage]]\nname = \"answer\"\nmodel = \"support\"\n{answer}\n\
             [sink.reply]\ntype = \"gateway\"\nfield = \"answer\"\n"
        );
        std::fs::write(&path, file).unwrap();
        let pipeline = config::load(&path).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        settled(pipeline.on_the_way(0))
    }

    #[test]
    fn what_a_stage_on_the_way_draws_is_never_the_same() {
        let draft = |more: &str| {
            format!("[[stage]]\nname = \"draft\"\nmodel = \"support\"\nfield = \"draft\"\n{more}")
        };
        let (own, asked) = ("prompt = \"{user}\"\n", "messages = true\n");
        let drawn = "temperature = 0.5\n";
        let warm = |text: &str| format!("{text}{drawn}");
        assert_eq!(settled_with("", asked), Settled::Usually);
        assert_eq!(settled_with("", &warm(asked)), Settled::WhereAsked);
        assert_eq!(settled_with(&draft(own), asked), Settled::Usually);
        assert_eq!(settled_with(&draft(&warm(own)), asked), Settled::Never);
        // What a client asks holds there as well.
        assert_eq!(
            settled_with(&draft(&warm(asked)), asked),
            Settled::WhereAsked
        );
    }
}
