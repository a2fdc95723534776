//! The ways of requests through the pipeline, with what is known of them before they are asked.

use std::sync::Arc;

use tidegate_contract::{AskingRecord, Prompt};
use tidegate_control::config::{self, Ask, ModelStage, Pipeline, SourceKind, StageKind};
use tidegate_gateway::openai::route::{Bounds, Count, Endpoint, ModelEntry, PromptCost, Route};

use crate::models::Served;
use crate::wire::Models;

/// Every source of requests.
pub(super) fn routes(pipeline: &Pipeline, models: &Models, made: u64) -> Vec<Route> {
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
        let digests: Vec<String> = asks
            .iter()
            .map(|(_, served)| served.facts().digest)
            .collect();
        let entries = route.models.iter().map(|name| ModelEntry {
            name: name.clone(),
            made,
            digest: digests.join(" "),
        });
        let only = match asks.as_slice() {
            [one] => Some(*one),
            _ => None,
        };
        routes.push(Route {
            name: source.name.clone(),
            models: entries.collect(),
            endpoints: route.endpoints.iter().filter_map(endpoint).collect(),
            headers: (route.headers.iter())
                .filter_map(|name| name.parse().ok())
                .collect(),
            key_header: (route.key_header.as_ref()).and_then(|name| name.parse().ok()),
            deadline: route.deadline,
            class: route.priority,
            source: index as u16,
            bounds: bounds(&asks),
            count: only.and_then(count),
            greedy: !asks.is_empty() && asks.iter().all(|(asks, _)| is_greedy(asks)),
            token_text: only.map(|(_, served)| {
                let model = served.model();
                Arc::new(move |token| model.token_text(token)) as _
            }),
        });
    }
    routes
}

fn endpoint(endpoint: &config::Endpoint) -> Option<Endpoint> {
    Endpoint::ALL
        .into_iter()
        .find(|known| known.name() == endpoint.name())
}

fn is_greedy(asks: &ModelStage) -> bool {
    match &asks.ask {
        Ask::Generate(generate) => generate.parameters.temperature == 0.0,
        Ask::Embed | Ask::Classify { .. } => true,
    }
}

/// What fits all models that may answer.
fn bounds(asks: &[(&ModelStage, &Served)]) -> Bounds {
    let contexts = asks.iter().map(|(_, served)| served.facts().context);
    let answers = asks.iter().filter_map(|(asks, _)| match &asks.ask {
        Ask::Generate(generate) => Some(generate.parameters.max_tokens),
        Ask::Embed | Ask::Classify { .. } => None,
    });
    Bounds {
        context_tokens: contexts.min().unwrap_or(u32::MAX),
        answer_tokens: answers.max().unwrap_or_default(),
        dimensions: None,
    }
}

/// Counts what a stage would ask; none where its own prompt is asked.
fn count((asks, served): (&ModelStage, &Served)) -> Option<Count> {
    let system = match &asks.ask {
        Ask::Generate(generate) if asks.messages => generate.system.clone(),
        Ask::Generate(_) => return None,
        Ask::Embed | Ask::Classify { .. } => None,
    };
    let encoder = !matches!(asks.ask, Ask::Generate(_));
    let model = served.model();
    Some(Arc::new(move |record: &AskingRecord| {
        let prompt = record.clone().into_prompt(system.as_deref());
        let tokens = match &prompt {
            Prompt::Raw(text) if encoder => model.count_tokens(text)?,
            prompt => model.prompt_tokens(prompt)?,
        };
        Ok(PromptCost { tokens })
    }))
}
