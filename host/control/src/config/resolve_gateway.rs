//! What only the whole file says of the gateway: who reaches whom, which names are there, and what must not be open.

use std::collections::BTreeSet;

use tidegate_state::IngestLimits;

use super::answering::{answering_at, answering_of, reaches, takes_nothing};
use super::disk::Directory;
use super::findings::{Findings, Typed};
use super::gateway::{
    Endpoint, Gateway, GatewayKey, GatewayTls, GatewayTokens, Route, Scope, TokenKeys,
};
use super::models::{Ask, Model};
use super::named::check_file;
use super::nearest::nearest;
use super::pipeline::{Sink, SinkKind, Source, SourceKind, Stage, StageKind};
use super::typed::{TypedGateway, TypedScope, TypedTokenKeys, TypedTokens};
use super::units::shown_size;

/// The field of an answer where the stages that answer do not say one.
const ANSWER: &str = "answer";

/// What those are called who come by [gateway.tokens], before their subject.
const TOKEN: &str = "token";

/// What the pipeline has for its gateway.
pub(crate) struct Ends<'p> {
    pub(crate) sources: &'p mut [Source],
    pub(crate) stages: &'p [Stage],
    pub(crate) models: &'p [Model],
    pub(crate) sinks: &'p mut [Sink],
    /// The names of feeds that it serves.
    pub(crate) feeds: &'p [Typed<String>],
    /// Where the sinks stand, and whether their field is told.
    pub(crate) sink_names: &'p [Typed<String>],
}

/// The gateway, its sources and its sinks, held against each other.
pub(crate) fn resolve_gateway(
    found: &Findings,
    directory: &Directory,
    typed: Option<TypedGateway>,
    mut ends: Ends<'_>,
) -> Option<Gateway> {
    check_there(found, typed.as_ref(), &ends);
    fill_fields(&mut ends);
    check_fields(found, &ends);
    fill_routes(found, &mut ends);
    check_reach(found, &ends);
    check_routes_differ(found, ends.sources);
    let typed = typed?;
    check_open(found, &typed);
    check_logs(found, &typed, ends.sources);
    let served: BTreeSet<&str> = routes(ends.sources)
        .flat_map(|(_, route)| route.models.iter().map(String::as_str))
        .collect();
    let scope = |typed: TypedScope| resolve_scope(found, typed, &served);
    let file = |path: &Typed<String>| check_file(found, directory, path);
    let tls = match (&typed.certificate, &typed.private_key) {
        (Some(certificate), Some(key)) => Some(GatewayTls {
            certificate: file(certificate),
            private_key: file(key),
            place: certificate.place.clone(),
        }),
        _ => None,
    };
    let mut keys: Vec<GatewayKey> = Vec::new();
    for key in typed.keys {
        let Some(secret) = key.secret else { continue };
        if key.name.value == TOKEN && typed.tokens.is_some() {
            found.about(
                &key.name,
                format!("{TOKEN:?} is the name of those who come with a token; choose another"),
            );
        }
        if let Some(other) = keys.iter().find(|other| other.secret == secret) {
            found.about(
                &key.name,
                format!("has the secret of key {:?}; give each its own", other.name),
            );
        }
        keys.push(GatewayKey {
            place: key.name.place,
            name: key.name.value,
            secret,
            scope: scope(key.scope),
            quota: key.quota,
        });
    }
    let tokens = typed
        .tokens
        .and_then(|tokens| resolve_tokens(tokens, &scope, &file));
    Some(Gateway {
        address: typed.address,
        tls,
        origins: typed.origins,
        limits: typed.limits,
        keys,
        tokens,
        cache: typed.cache,
        idempotency: typed.idempotency,
        share_equal_requests: typed.share_equal_requests,
        place: typed.address_place.unwrap_or(typed.place),
    })
}

fn resolve_tokens(
    typed: TypedTokens,
    scope: &dyn Fn(TypedScope) -> Scope,
    file: &dyn Fn(&Typed<String>) -> std::path::PathBuf,
) -> Option<GatewayTokens> {
    let keys = match typed.keys? {
        TypedTokenKeys::Variable(name) => TokenKeys::Variable(name.value),
        TypedTokenKeys::File(path) => TokenKeys::File(file(&path)),
        TypedTokenKeys::Url { url, refresh } => TokenKeys::Url { url, refresh },
    };
    Some(GatewayTokens {
        place: typed.place,
        algorithm: typed.algorithm?,
        keys,
        issuer: typed.issuer,
        audience: typed.audience,
        leeway: typed.leeway,
        scope: scope(typed.scope),
        quota: typed.quota,
    })
}

/// Ends of the gateway need one, and it needs an end.
fn check_there(found: &Findings, typed: Option<&TypedGateway>, ends: &Ends<'_>) {
    let mut any = false;
    for source in ends.sources.iter() {
        let name = match &source.kind {
            SourceKind::Gateway(route) => &route.places.name,
            SourceKind::Ingest(ingest) => &ingest.name,
            _ => continue,
        };
        any = true;
        if typed.is_none() {
            found.about(name, NEEDS);
        }
    }
    for (sink, name) in ends.sinks.iter().zip(ends.sink_names) {
        if matches!(
            sink.kind,
            SinkKind::Gateway { .. } | SinkKind::Output { .. }
        ) {
            any = true;
            if typed.is_none() {
                found.about(name, NEEDS);
            }
        }
    }
    for name in ends.feeds {
        any = true;
        if typed.is_none() {
            found.about(name, NEEDS);
        }
    }
    let shows_page = |typed: &&TypedGateway| {
        let keys = typed.keys.iter().map(|key| &key.scope);
        let tokens = typed.tokens.iter().map(|tokens| &tokens.scope);
        let mut named = keys
            .chain(tokens)
            .flat_map(|scope| scope.endpoints.iter().flatten());
        named.any(|endpoint| *endpoint == Endpoint::Page)
    };
    if let Some(typed) = typed.filter(|typed| !any && !shows_page(typed)) {
        found.mistake(
            &typed.place,
            "gateway",
            "serves nothing: there is no source of type \"gateway\" or \"ingest\", no sink or feed of type \"output\", and no \
             key with endpoints = [\"page\"]",
        );
    }
}

/// What an end of the gateway lacks.
const NEEDS: &str = "needs the gateway; write [gateway] with address = \"127.0.0.1:8080\"";

/// Beyond this machine only those may ask who have a key.
fn check_open(found: &Findings, typed: &TypedGateway) {
    let place = typed.address_place.as_ref().unwrap_or(&typed.place);
    if typed.address.ip().is_loopback() {
        return;
    }
    if typed.keys.is_empty() && typed.tokens.is_none() {
        found.mistake(
            place,
            "gateway.address",
            format!(
                "{:?} is not a loopback address, and anyone who reaches it could ask; write [gateway.key.NAME] or \
                 [gateway.tokens], or \"127.0.0.1:{}\"",
                typed.address.to_string(),
                typed.address.port()
            ),
        );
    } else if typed.certificate.is_none() && typed.private_key.is_none() {
        found.warning(
            place,
            "gateway.address",
            "keys and records travel in the open; write certificate and private-key, unless a proxy before it speaks TLS",
        );
    }
}

/// A body that a log never has room for would be sent again and again, and never be kept.
fn check_logs(found: &Findings, typed: &TypedGateway, sources: &[Source]) {
    let body = typed.limits.body as u64;
    for source in sources {
        let SourceKind::Ingest(ingest) = &source.kind else {
            continue;
        };
        let limits = IngestLimits {
            bytes: ingest.log_bytes,
            ..IngestLimits::default()
        };
        let longest = limits.longest_batch();
        if body <= longest {
            continue;
        }
        let what = format!(
            "a log of {} takes records of at most {}, and max-body of [gateway] is {}; write log-bytes = {}, or a smaller \
             max-body",
            shown_size(ingest.log_bytes),
            shown_size(longest),
            shown_size(body),
            shown_size(2 * body)
        );
        match &ingest.log_place {
            Some(place) => found.about(place, what),
            None => found.about(&ingest.name, what),
        }
    }
}

fn routes(sources: &[Source]) -> impl Iterator<Item = (usize, &Route)> {
    let all = sources.iter().enumerate();
    all.filter_map(|(index, source)| match &source.kind {
        SourceKind::Gateway(route) => Some((index, &**route)),
        _ => None,
    })
}

/// What the stages that answer at a sink call it is what its readers get.
fn fill_fields(ends: &mut Ends<'_>) {
    let asked: BTreeSet<usize> = routes(ends.sources).map(|(index, _)| index).collect();
    for sink in ends.sinks.iter_mut() {
        let before = answering_at(sink, ends.stages, |source| asked.contains(&source));
        let SinkKind::Gateway { field } = &mut sink.kind else {
            continue;
        };
        if !field.is_empty() {
            continue;
        }
        let asks = before
            .iter()
            .filter_map(|stage| match &ends.stages[*stage].kind {
                StageKind::Model(asks) => Some(asks),
                StageKind::Operator(_) => None,
            });
        let (texts, vectors): (Vec<_>, Vec<_>) =
            asks.partition(|asks| matches!(asks.ask, Ask::Generate(_)));
        // Vectors are found beside the field of texts.
        let fields = if texts.is_empty() { vectors } else { texts };
        let fields: BTreeSet<&str> = fields.iter().map(|asks| asks.field.as_str()).collect();
        *field = match (fields.len(), fields.first()) {
            (1, Some(one)) => (*one).to_owned(),
            _ => ANSWER.to_owned(),
        };
    }
}

/// Whoever waits knows of one member that the answer is in, and something writes it.
fn check_fields(found: &Findings, ends: &Ends<'_>) {
    let asked: BTreeSet<usize> = routes(ends.sources).map(|(index, _)| index).collect();
    let mut first: Option<&String> = None;
    for (sink, name) in ends.sinks.iter().zip(ends.sink_names) {
        if let SinkKind::Gateway { field } = &sink.kind {
            match first {
                Some(first) if first != field => found.about(
                    name,
                    format!("answers with field {field:?}, and another sink with {first:?}; write the same field in both"),
                ),
                _ => first = Some(field),
            }
            let before = answering_at(sink, ends.stages, |source| asked.contains(&source));
            if takes_nothing(sink, ends.stages, &before) {
                found.about(
                    name,
                    format!(
                        "answers with member {field:?}, which no stage before it writes; write the field of the stage \
                         that answers, and there into = \"member\""
                    ),
                );
            }
        }
    }
}

/// Names and endpoints of routes that do not say theirs: those of the stages that answer.
fn fill_routes(found: &Findings, ends: &mut Ends<'_>) {
    for index in 0..ends.sources.len() {
        let asked = answering_of(index, ends.sinks, ends.stages);
        let asks = asked
            .iter()
            .filter_map(|stage| match &ends.stages[*stage].kind {
                StageKind::Model(asks) => Some((&ends.stages[*stage], &**asks)),
                StageKind::Operator(_) => None,
            });
        let asks: Vec<_> = asks.collect();
        let SourceKind::Gateway(route) = &mut ends.sources[index].kind else {
            continue;
        };
        let places = &route.places;
        let makes = |ask: &Ask| match ask {
            Ask::Generate(_) => &[Endpoint::Chat, Endpoint::Responses, Endpoint::Completions][..],
            Ask::Embed => &[Endpoint::Embeddings],
            Ask::Rerank { .. } => &[Endpoint::Rerank],
            // Labels and entities are no answer of any of them.
            Ask::Classify { .. } | Ask::Recognize { .. } => &[],
        };
        let made: BTreeSet<Endpoint> = asks
            .iter()
            .flat_map(|(_, asks)| makes(&asks.ask).iter().copied())
            .collect();
        if made.contains(&Endpoint::Embeddings) && made.contains(&Endpoint::Rerank) {
            found.about(
                &places.name,
                "is answered by a stage with embed and, on another way, by one with rerank, which need records of different \
                 forms; give each a source of its own",
            );
        }
        route.endpoints = match &places.endpoints {
            Some(told) => {
                for each in told {
                    // An encoder's vectors put texts in an order as well.
                    let by_vectors =
                        each.value == Endpoint::Rerank && made.contains(&Endpoint::Embeddings);
                    if !made.is_empty() && !made.contains(&each.value) && !by_vectors {
                        let list: Vec<&str> = made.iter().map(|one| one.name()).collect();
                        found.about(
                            each,
                            format!(
                                "the stages that answer make no {:?}; to be had here: {}",
                                each.value.name(),
                                list.join(", ")
                            ),
                        );
                    }
                }
                told.iter().map(|typed| typed.value).collect()
            }
            None if made.is_empty() => {
                vec![Endpoint::Chat, Endpoint::Responses, Endpoint::Completions]
            }
            None => made.into_iter().collect(),
        };
        route.models = match &places.models {
            Some(told) => told.iter().map(|typed| typed.value.clone()).collect(),
            None => {
                let names = asks
                    .iter()
                    .filter_map(|(_, asks)| Some(ends.models.get(asks.model)?.name.clone()));
                let names: BTreeSet<String> = names.collect();
                if names.is_empty() && found.is_clean() {
                    found.absence(
                        &places.name.place,
                        &format!("{}.models", places.name.key),
                        "is missing, and no stage before a sink of type \"gateway\" makes a text or a vector; write \
                         models = [...], the names that clients ask for"
                            .to_owned(),
                    );
                }
                names.into_iter().collect()
            }
        };
        let chats = |one: &Endpoint| {
            matches!(
                one,
                Endpoint::Chat | Endpoint::Responses | Endpoint::Completions
            )
        };
        if route.endpoints.iter().any(chats) {
            for (stage, asks) in &asks {
                if let Ask::Generate(_) = asks.ask
                    && !asks.messages
                {
                    found.warning(
                        &stage.place,
                        &format!("stage.{}.messages", stage.name),
                        format!(
                            "is not set: what clients of source {} ask for is not asked, only the prompt here",
                            places.name.value
                        ),
                    );
                }
            }
        }
    }
}

/// Each request can be answered, and each sink that answers has somebody to.
fn check_reach(found: &Findings, ends: &Ends<'_>) {
    if !found.is_clean() {
        // Where inputs are wrong, what is not reached follows from that.
        return;
    }
    let replies = || {
        let all = ends.sinks.iter().zip(ends.sink_names);
        all.filter(|(sink, _)| matches!(sink.kind, SinkKind::Gateway { .. }))
    };
    for (index, route) in routes(ends.sources) {
        if !replies().any(|(sink, _)| reaches(index, &sink.inputs, ends.stages)) {
            found.about(
                &route.places.name,
                "its requests reach no sink of type \"gateway\", so that none is ever answered; write [sink.reply] with \
                 type = \"gateway\"",
            );
        }
    }
    for (sink, name) in replies() {
        let asked =
            routes(ends.sources).any(|(index, _)| reaches(index, &sink.inputs, ends.stages));
        if !asked {
            found.about(
                name,
                "answers nobody: no source of type \"gateway\" reaches it; write type = \"output\" for records that \
                 readers follow",
            );
        }
    }
}

/// A request goes one way.
fn check_routes_differ(found: &Findings, sources: &[Source]) {
    let all: Vec<_> = routes(sources).map(|(_, route)| route).collect();
    for (index, route) in all.iter().enumerate() {
        for other in &all[..index] {
            let model = route.models.iter().find(|name| other.models.contains(name));
            let endpoint = route
                .endpoints
                .iter()
                .find(|endpoint| other.endpoints.contains(endpoint));
            if let (Some(model), Some(endpoint)) = (model, endpoint) {
                found.about(
                    &route.places.name,
                    format!(
                        "model {model:?} at endpoint {:?} goes to source {} already; a request goes one way",
                        endpoint.name(),
                        other.places.name.value
                    ),
                );
            }
        }
    }
}

/// A key for a model that is not there is a slip.
fn resolve_scope(found: &Findings, typed: TypedScope, served: &BTreeSet<&str>) -> Scope {
    let models = typed.models.map(|models| {
        for model in &models {
            if served.contains(model.value.as_str()) || served.is_empty() {
                continue;
            }
            let near = nearest(&model.value, served.iter().copied());
            let list: Vec<&str> = served.iter().copied().collect();
            found.about(
                model,
                match near {
                    Some(near) => format!(
                        "no source has a model {:?}; did you mean {near:?}?",
                        model.value
                    ),
                    None => format!(
                        "no source has a model {:?}; to be had here: {}",
                        model.value,
                        list.join(", ")
                    ),
                },
            );
        }
        models.into_iter().map(|typed| typed.value).collect()
    });
    Scope {
        endpoints: typed.endpoints,
        models,
    }
}
