//! From what was typed to what it means: names become indexes, and what only the whole file can say is said.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::addresses::is_asked_by;
use super::audit::Audit;
use super::disk::Directory;
use super::feeds::{
    check_feed_topics, feed_topics, output_feeds, output_names, resolve_feeds, resolve_tokens_to,
};
use super::files::{Files, check_state, own_files, source_files};
use super::findings::{Findings, Typed};
use super::internal::{Origin, Written, check_ingest, check_internal, default_letters};
use super::models::{AdapterChoice, Engine, LoraOf, Model};
use super::named::{check_adapter, check_file, check_file_of_machine, check_model};
use super::names::Names;
use super::nearest::nearest;
use super::pipeline::{
    Decoding, KafkaSource, MetricsToken, Pipeline, Sink, SinkKind, Source, SourceKind,
};
use super::remote_models::RemoteModel;
use super::resolve_gateway::{Ends, resolve_gateway};
use super::resolve_load::{Answering, resolve_under_load};
use super::resolve_model_stage::check_reasoning;
use super::resolve_order::resolve_orders;
use super::resolve_stage::{resolve_stage, resolve_tokens};
use super::topics::{check_groups, check_letters_are_not_read, warn_read};
use super::typed::{TypedAdmin, TypedFile, TypedSource, TypedSourceKind};

/// Finds the models that others adapt, whose keys those have too.
fn resolve_adapters(found: &Findings, bases: &[Option<Typed<String>>], models: &mut [Model]) {
    for index in 0..models.len() {
        let Some(Some(typed)) = bases.get(index) else {
            continue;
        };
        let name = &typed.value;
        let Some(base) = models.iter().position(|model| model.name == *name) else {
            let near = nearest(name, models.iter().map(|model| model.name.as_str()));
            let what = match near {
                Some(near) => format!("there is no model {name:?}; did you mean {near:?}?"),
                None => format!("there is no model {name:?}; write [model.{name}] with its path"),
            };
            found.about(typed, what);
            continue;
        };
        let wrong = match () {
            () if bases[base].is_some() => Some("is adapted itself; name the model that it adapts"),
            () if models[base].remote.is_some() => {
                Some("is on another server; name one that is loaded here")
            }
            () => None,
        };
        if let Some(wrong) = wrong {
            found.about(typed, format!("model {name:?} {wrong}"));
            continue;
        }
        let own = &models[index];
        models[index] = Model {
            lora: Some(LoraOf {
                base,
                path: own.path.clone(),
            }),
            name: own.name.clone(),
            place: own.place.clone(),
            draft: None,
            ..models[base].clone()
        };
    }
}

/// The meaning of a file. It may be used only if `found` has no mistake: what could not be read is left out.
pub(crate) fn resolve(
    found: &Findings,
    directory: &Directory,
    file: PathBuf,
    typed: TypedFile,
) -> Pipeline {
    let names = Names::gather(found, &typed);
    let mut files = Files::new(found, directory);
    let name = typed.name.map(|name| name.value).unwrap_or_default();
    let state = check_state(found, directory, typed.state.as_ref());

    let (mut sources, origins): (Vec<Source>, Vec<Origin>) = typed
        .sources
        .into_iter()
        .filter_map(|source| resolve_source(source, &name, &mut files))
        .unzip();
    check_stdin(found, &sources, &names);
    check_groups(found, &sources, &names);
    let mut used_models = vec![false; typed.models.len()];
    let model_places: Vec<Typed<String>> = typed
        .models
        .iter()
        .map(|model| model.name.clone())
        .collect();
    let urls: Vec<Typed<String>> = typed
        .models
        .iter()
        .filter_map(|model| Some(model.remote.as_ref()?.url.clone()))
        .collect();
    let bases: Vec<Option<Typed<String>>> = typed
        .models
        .iter()
        .map(|model| model.base.clone())
        .collect();
    let engine = Engine {
        memory: typed.engine.memory,
        step_tokens: (typed.engine.step_tokens.as_ref())
            .map_or(Engine::default().step_tokens, |typed| typed.value),
    };
    let mut models: Vec<Model> = typed
        .models
        .into_iter()
        .map(|model| Model {
            path: match &model.path {
                Some(path) if model.is_lora => check_adapter(found, directory, path),
                Some(path) if model.remote.is_none() => check_model(found, directory, path),
                _ => PathBuf::new(),
            },
            lora: None,
            draft: model
                .draft
                .as_ref()
                .map(|draft| check_model(found, directory, draft)),
            place: model.name.place,
            name: model.name.value,
            adapters_typed: (model.adapters.iter())
                .map(|one| one.as_ref().map(|one| (one.place.clone(), one.key.clone())))
                .collect(),
            adapters: (model.adapters.into_iter())
                .map(|one| one.map_or(AdapterChoice::Any, |one| one.value))
                .collect(),
            sequences: (model.sequences.as_ref())
                .map_or(engine.usual_sequences(), |typed| typed.value),
            sequences_typed: model.sequences.map(|typed| (typed.place, typed.key)),
            context: model.context,
            queue: model.queue,
            kv_memory: model.kv_memory,
            kv_precision: model.kv_precision,
            reproducible: model.reproducible,
            kernels: model.kernels,
            pre_tokenizer: model.pre_tokenizer,
            remote: model.remote.map(|remote| {
                let files = remote.certificates.iter();
                let mut files = files.map(|file| check_file(found, directory, file));
                Box::new(RemoteModel {
                    certificates: files.next(),
                    ..remote.model
                })
            }),
        })
        .collect();

    resolve_adapters(found, &bases, &mut models);

    let stage_count = typed.stages.len();
    let mut tokens = resolve_tokens(found, &typed.stages)
        .into_iter()
        .zip(resolve_tokens_to(found, &typed.stages, &typed.feeds));
    let mut stages = Vec::with_capacity(stage_count);
    for (index, stage) in typed.stages.into_iter().enumerate() {
        let inputs = match &stage.inputs {
            Some(inputs) => names.inputs(found, inputs, index),
            None => names.before(index, &stage.place),
        };
        stages.extend(resolve_stage(
            found,
            directory,
            (stage, tokens.next().unwrap_or_default()),
            inputs,
            &models,
            &mut used_models,
        ));
    }

    let (mut sinks, mut sink_names) = (Vec::new(), Vec::new());
    for sink in typed.sinks {
        let inputs = match &sink.inputs {
            Some(inputs) => names.inputs(found, inputs, stage_count),
            None => names.before(stage_count, &sink.name.place),
        };
        if let Some(kind) = sink.kind {
            warn_read(found, &kind, &sources);
            sink_names.push(sink.name.clone());
            sinks.push(Sink {
                kind: files.sink(kind),
                name: sink.name.value,
                inputs,
                encoding: sink.encoding,
            });
        }
    }
    let outputs = output_names(&sinks, &sink_names);
    let output_feeds = output_feeds(&typed.feeds);
    let feed_topics = feed_topics(&typed.feeds);
    let feeds = resolve_feeds(found, typed.feeds, &sources, &outputs);
    let ends = Ends {
        feeds: &output_feeds,
        sources: &mut sources,
        stages: &stages,
        models: &models,
        sinks: &mut sinks,
        sink_names: &sink_names,
    };
    let gateway = resolve_gateway(found, directory, typed.gateway, ends);
    if let Some(gateway) = &gateway {
        check_urls(found, gateway.address, &urls);
    }
    resolve_under_load(
        found,
        &mut Answering {
            sources: &mut sources,
            stages: &mut stages,
            models: &models,
            sinks: &sinks,
            used: &mut used_models,
        },
    );
    resolve_orders(found, &sources, &mut stages, &sinks);
    check_reasoning(found, &sources, &stages);
    let mut own = own_files(&state);
    let told = typed.dead_letters.is_some();
    let dead_letters = match typed.dead_letters.flatten() {
        Some(kind) => {
            check_letters_are_not_read(found, &kind, &sources);
            files.sink(kind)
        }
        None => match default_letters(&sources, &sinks).filter(|_| !told) {
            Some(topic) => SinkKind::Kafka(topic),
            None => {
                let path = state.join("dead-letters.jsonl");
                own.push(path.clone());
                SinkKind::File { path }
            }
        },
    };
    check_feed_topics(found, &feed_topics, &sinks, &dead_letters);
    let delivery = typed.delivery.unwrap_or_default();
    check_ingest(found, delivery, &sources, &sinks);
    let written = Written {
        sinks: &sinks,
        letters: &dead_letters,
        feeds: &feeds,
    };
    check_internal(found, (&name, delivery), (&sources, &origins), written);
    let audit = typed.audit.and_then(|audit| {
        Some(Audit {
            path: files.audit(&audit.path?),
            max_file: audit.max_file,
            max_content: audit.max_content,
        })
    });
    let metrics_token = typed.metrics_token.map(|typed| MetricsToken {
        path: check_file_of_machine(found, directory, &typed),
        place: typed.place,
    });
    let summary = typed.summary.map(|path| files.summary(&path));
    files.check_clashes(&file, &state, &own);

    // Where inputs are wrong, what is not taken follows from that.
    if found.is_clean() {
        names.warn_unused(found, &stages, &sinks);
    }
    // What an adapter is for is loaded for it.
    for (index, model) in models.iter().enumerate() {
        if let Some(LoraOf { base, .. }) = &model.lora {
            used_models[*base] |= used_models[index];
        }
    }
    for (name, used) in model_places.iter().zip(used_models) {
        if !used {
            found.warning(
                &name.place,
                &name.key,
                "no stage asks this model; it is not loaded",
            );
        }
    }
    warn_workers(found, typed.workers.as_ref(), &sources);
    Pipeline {
        file,
        name,
        state,
        workers: typed
            .workers
            .map(|workers| usize::try_from(workers.value).unwrap_or(usize::MAX)),
        delivery,
        cut_interval: (typed.cut_interval.as_ref())
            .map_or(std::time::Duration::from_millis(200), |typed| typed.value),
        batch: typed.batch.unwrap_or(256),
        summary,
        sources,
        operators: typed.operators,
        engine,
        step_tokens_typed: (typed.engine.step_tokens).map(|typed| (typed.place, typed.key)),
        models,
        stages,
        feeds,
        sinks,
        dead_letters,
        audit,
        admin: match typed.admin {
            TypedAdmin::Default => Some(([127, 0, 0, 1], 0).into()),
            TypedAdmin::Off => None,
            TypedAdmin::Address(address) => Some(address),
        },
        metrics_token,
        watch: typed.watch,
        gateway,
        telemetry: typed.telemetry,
        warnings: Vec::new(),
        text: found.text.clone(),
    }
}

fn resolve_source(
    typed: TypedSource,
    pipeline: &str,
    files: &mut Files<'_>,
) -> Option<(Source, Origin)> {
    let mut told_group = None;
    let kind = match typed.kind? {
        TypedSourceKind::File(paths) => SourceKind::File {
            paths: source_files(files, &paths),
        },
        TypedSourceKind::Stdin => SourceKind::Stdin,
        TypedSourceKind::Gateway(route) => SourceKind::Gateway(route),
        TypedSourceKind::Ingest(ingest) => SourceKind::Ingest(ingest),
        TypedSourceKind::Kafka {
            topic,
            group,
            instance,
            start,
        } => {
            told_group = group;
            SourceKind::Kafka(KafkaSource {
                brokers: topic.brokers,
                topic: topic.topic.value,
                // Two sources of one pipeline must not share a group: each would wait for partitions the other has.
                group: match &told_group {
                    Some(group) => group.value.clone(),
                    None => format!("{pipeline}-{}", typed.name.value),
                },
                instance,
                start,
                properties: topic.properties,
                places: topic.places,
            })
        }
    };
    let name = typed.name.value.clone();
    let (changelog, origin) = Origin::changelog(typed.name, told_group, typed.changelog, pipeline);
    let source = Source {
        name,
        changelog,
        kind,
        decoding: Decoding {
            format: typed.format,
            key: typed.key,
            event_time: typed.event_time,
            required: typed.required,
            max_record: typed.max_record,
            delimiter: typed.delimiter,
        },
    };
    Some((source, origin))
}

/// A model that is asked of this pipeline's own gateway comes back here, and waits for itself.
fn check_urls(found: &Findings, gateway: SocketAddr, urls: &[Typed<String>]) {
    for url in urls.iter().filter(|url| is_asked_by(&url.value, gateway)) {
        found.about(
            url,
            format!(
                "{:?} is this pipeline's own gateway at {gateway}: what is asked of it comes back here; name the server \
                 that has the model",
                url.value
            ),
        );
    }
}

fn check_stdin(found: &Findings, sources: &[Source], names: &Names) {
    let mut readers = sources
        .iter()
        .filter(|source| matches!(source.kind, SourceKind::Stdin));
    let Some(first) = readers.next() else { return };
    for second in readers {
        if let Some((_, place)) = names.sources.iter().find(|(name, _)| *name == second.name) {
            found.mistake(
                place,
                &format!("source.{}.type", second.name),
                format!("standard input is read by source {:?} already", first.name),
            );
        }
    }
}

fn warn_workers(found: &Findings, workers: Option<&Typed<u64>>, sources: &[Source]) {
    let partitions: Option<usize> = sources
        .iter()
        .map(|source| match &source.kind {
            SourceKind::File { paths } => Some(paths.len()),
            SourceKind::Stdin | SourceKind::Gateway(_) | SourceKind::Ingest(_) => Some(1),
            SourceKind::Kafka(_) => None,
        })
        .sum();
    if let (Some(workers), Some(partitions)) = (workers, partitions)
        && workers.value > partitions as u64
        && partitions > 0
    {
        found.warning(
            &workers.place,
            &workers.key,
            format!(
                "{} workers share {partitions} partition{}; the others have nothing to do",
                workers.value,
                if partitions == 1 { "" } else { "s" }
            ),
        );
    }
}
