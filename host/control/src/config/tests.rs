//! Pipeline files and what is said of them: every `NAME.toml` in `tests/config` has its `NAME.expected`. With
//! `TIDEGATE_UPDATE=1` in the environment the expectations are written anew, to be read before they are kept.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_contract::{Parameters, PromptPart, Speculation, Structure};

use tidegate_contract::Level;

use super::*;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config")
}

fn content(name: &str) -> String {
    fs::read_to_string(directory().join(name)).unwrap()
}

fn parsed(content: &str) -> Result<Pipeline, Mistakes> {
    parse(
        Path::new("pipeline.toml"),
        &directory().join("pipeline.toml"),
        content.to_owned(),
    )
}

/// What `tidegate check` says of a file.
fn said(content: &str) -> String {
    let said = match parsed(content) {
        Ok(pipeline) => {
            let mut said = String::new();
            for warning in &pipeline.warnings {
                writeln!(said, "warning: {warning}").unwrap();
            }
            writeln!(said, "{}", guarantee(&pipeline)).unwrap();
            said
        }
        Err(mistakes) => format!("{mistakes}\n"),
    };
    said.replace(&directory().display().to_string(), "DIRECTORY")
}

#[test]
fn every_mistake_is_reported_at_once_with_its_line() {
    let mut different = Vec::new();
    for entry in fs::read_dir(directory()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let said = said(&fs::read_to_string(&file).unwrap());
        let expected = file.with_extension("expected");
        if std::env::var_os("TIDEGATE_UPDATE").is_some() {
            fs::write(&expected, &said).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != said {
            different.push(format!("{}:\n{said}", file.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn a_topic_is_read_from_a_time_if_it_is_one() {
    let full = content("full.toml");
    let with =
        |start: &str| parsed(&full.replace("start = \"latest\"", &format!("start = {start}")));
    let begins = |start: &str| match &with(start).unwrap().sources[1].kind {
        SourceKind::Kafka(kafka) => kafka.start,
        other => panic!("{other:?}"),
    };
    let noon = Start::At {
        millis: 1_763_726_400_000,
    };
    let ways = [
        "\"2025-11-21T12:00:00Z\"",
        "\"2025-11-21T13:00:00+01:00\"",
        "2025-11-21T12:00:00Z",
        "1763726400000",
    ];
    for start in ways {
        assert_eq!(begins(start), noon, "{start}");
    }
    // Not before it.
    let after = Start::At {
        millis: 1_763_726_400_001,
    };
    assert_eq!(begins("\"2025-11-21T12:00:00.0001Z\""), after);
    assert_eq!(begins("\"earliest\""), Start::Earliest);
    let wrong = [
        "-1",
        "\"1969-12-31T23:59:59Z\"",
        "2025-11-21T12:00:00",
        "\"noon\"",
        "1.5",
        "9223372036854775807",
    ];
    for start in wrong {
        let said = with(start).unwrap_err().to_string();
        assert!(said.contains("is not where a topic can begin"), "{said}");
    }
    let said = with("\"lastest\"").unwrap_err().to_string();
    assert!(said.contains("did you mean \"latest\"?"), "{said}");
}

#[test]
fn a_property_that_its_client_does_not_know_is_found_at_its_line() {
    let full = content("full.toml");
    let pipeline = parsed(&full).unwrap();
    let mistakes = pipeline.check_properties(|end| match end {
        KafkaEnd::Sink(_) => Vec::new(),
        KafkaEnd::Source(topic) => {
            assert!(topic.properties.contains_key("fetch.max.bytes"));
            let of = |name: Option<&str>, known: &[&'static str]| PropertyMistake {
                name: name.map(str::to_owned),
                why: "is wrong".into(),
                known: known.to_vec(),
            };
            vec![
                of(Some("fetch.max.bytes"), &["fetch.max.byte"]),
                of(Some("security.protocol"), &[]),
                of(None, &[]),
            ]
        }
    });
    let mistakes = mistakes.unwrap_err().mistakes;
    let line = 1 + full
        .lines()
        .position(|line| line.starts_with("properties"))
        .unwrap();
    let places = mistakes.iter().map(|mistake| {
        let at = mistake.position.as_ref().unwrap();
        assert_eq!(at.line, line);
        (mistake.key.as_str(), mistake.what.as_str())
    });
    let key = "source.live.properties";
    let expected = [
        (key.to_owned(), "is wrong"),
        (format!("{key}.security.protocol"), "is wrong"),
        (
            format!("{key}.fetch.max.bytes"),
            "is wrong; did you mean \"fetch.max.byte\"?",
        ),
    ];
    let expected = expected.iter().map(|(key, what)| (key.as_str(), *what));
    assert!(places.eq(expected), "{mistakes:?}");
}

#[test]
fn dead_letters_go_where_cuts_are_taken_unless_the_file_says_otherwise() {
    let source = |name: &str, brokers: &str, more: &str| {
        format!(
            "[source.{name}]\ntype = \"kafka\"\nbrokers = [\"{brokers}\"]\ntopic = \"{name}\"\n{more}\n"
        )
    };
    let sink = |name: &str, brokers: &str| {
        format!("[sink.{name}]\ntype = \"kafka\"\nbrokers = [\"{brokers}\"]\ntopic = \"{name}\"\n")
    };
    let stdin = "[source.pipe]\ntype = \"stdin\"\n";
    let file = "[sink.file]\ntype = \"file\"\npath = \"out.jsonl\"\n";
    let stdout = "[sink.screen]\ntype = \"stdout\"\n";
    let lines = "[source.lines]\ntype = \"file\"\npaths = [\"tickets.jsonl\"]\n";
    let letters = |parts: &[&str]| {
        let text = parts.concat();
        let pipeline = parsed(&format!("[pipeline]\nname = \"p\"\n{text}")).unwrap();
        let level = guarantee(&pipeline).level;
        match pipeline.dead_letters {
            SinkKind::Kafka(topic) => {
                let made = topic.made.unwrap().replication;
                (
                    format!("{} at {}", topic.topic, topic.brokers.join(",")),
                    made,
                    level,
                )
            }
            SinkKind::File { path } => (path.display().to_string(), None, level),
            other => panic!("dead letters to {other:?}"),
        }
    };
    let in_file = directory()
        .join("state/dead-letters.jsonl")
        .display()
        .to_string();
    let three = "changelog = { replication = 3 }";
    let (a, b) = (source("a", "one:1", three), source("b", "two:2", ""));
    let out = sink("out", "one:1");
    let topic = "p-a-dead-letters at one:1".to_owned();
    for (parts, expected, made, level) in [
        (&[&*a, &*out][..], &topic, Some(3), Level::ExactlyOnce),
        (&[&a, lines, &out], &topic, Some(3), Level::ExactlyOnce),
        // In another order of the file, the same group.
        (&[lines, &a, &out], &topic, Some(3), Level::ExactlyOnce),
        (&[&a, &out, stdout], &topic, Some(3), Level::AtLeastOnce),
        (
            &["delivery = \"at-least-once\"\n", &a, &out],
            &topic,
            Some(3),
            Level::AtLeastOnce,
        ),
        (&[&a, &b, &out], &topic, Some(3), Level::AtLeastOnce),
        (&[&a, stdin, &out], &topic, Some(3), Level::MayLose),
        (&[&a, file], &in_file, None, Level::ExactlyOnce),
        (&[&a, &out, file], &in_file, None, Level::AtLeastOnce),
        (&[&a, stdout], &in_file, None, Level::AtLeastOnce),
        (&[lines, &out], &in_file, None, Level::AtLeastOnce),
        (&[lines, file], &in_file, None, Level::ExactlyOnce),
    ] {
        let expected = (expected.clone(), made, level);
        assert_eq!(letters(parts), expected, "{}", parts.concat());
    }
    // With the passwords of whoever writes to that cluster.
    let secure = |text: &str| {
        format!("{text}properties = {{ \"sasl.username\" = \"me\", \"linger.ms\" = 5 }}\n")
    };
    let text = format!("[pipeline]\nname = \"p\"\n{a}{}", secure(&out));
    let SinkKind::Kafka(topic) = parsed(&text).unwrap().dead_letters else {
        panic!("a file");
    };
    let properties = [("sasl.username".to_owned(), "me".to_owned())];
    assert_eq!(topic.properties, properties.into());
}

#[test]
fn what_is_typed_is_what_is_meant() {
    let pipeline = parsed(&content("full.toml")).unwrap();
    let directory = directory();
    assert_eq!(pipeline.name, "support-bot");
    assert_eq!(pipeline.state, directory.join("run/state"));
    assert_eq!(pipeline.workers, Some(2));
    assert_eq!(pipeline.workers_for(1), 1);
    assert_eq!(pipeline.batch, 128);
    assert_eq!(pipeline.summary, Some(directory.join("out/summary.json")));
    assert_eq!(pipeline.admin, Some(([127, 0, 0, 1], 8099).into()));

    let SourceKind::File { paths } = &pipeline.sources[0].kind else {
        panic!("{:?}", pipeline.sources[0]);
    };
    let names = ["tickets.jsonl", "more-1.jsonl", "more-2.jsonl"];
    assert_eq!(*paths, names.map(|name| directory.join(name)));
    assert_eq!(
        pipeline.sources[0].decoding,
        Decoding {
            format: Format::Json,
            key: Some("customer".into()),
            event_time: Some("at".into()),
            required: vec!["text".into()],
            max_record: 1 << 20,
            delimiter: b',',
        }
    );
    let SourceKind::Kafka(kafka) = &pipeline.sources[1].kind else {
        panic!("{:?}", pipeline.sources[1]);
    };
    assert_eq!(kafka.group, "support-bot-live");
    assert_eq!(kafka.start, Start::Latest);
    assert_eq!(kafka.properties["fetch.max.bytes"], "1000000");

    let StageKind::Operator(redact) = &pipeline.stages[0].kind else {
        panic!("{:?}", pipeline.stages[0]);
    };
    assert_eq!(redact.component, directory.join("redact.wasm"));
    assert_eq!(
        serde_json::to_string(&redact.config).unwrap(),
        r#"{"deep":{"on":true,"ratio":0.5},"fields":["text"],"since":"2026-01-01"}"#
    );
    assert_eq!(
        redact.grants.iter().copied().collect::<Vec<_>>(),
        [Grant::Log, Grant::Config]
    );
    assert_eq!(redact.ungranted, Ungranted::Trap);
    assert_eq!(
        redact.limits,
        Limits {
            memory: 32 << 20,
            total_memory: Some(256 << 20),
            deadline: Duration::from_millis(500),
            output: 3 << 19,
            bisect: Duration::from_secs(1),
        }
    );
    assert_eq!(
        pipeline.operators,
        Operators {
            memory: Some(1 << 30),
            compile_memory: 512 << 20,
            compile_time: Duration::from_secs(90),
        }
    );
    assert_eq!(
        redact.breaker,
        Some(Breaker {
            lost_instances: Some(20),
            failed_records: None,
            within: Duration::from_secs(300),
            then: Then::Stop,
        })
    );
    assert_eq!(redact.max_failed_records, Some(100));
    assert_eq!(redact.samples, Some(directory.join("samples.jsonl")));
    let from = |inputs: &[Input]| -> Vec<(Node, Option<String>)> {
        inputs
            .iter()
            .map(|input| (input.from, input.output.clone()))
            .collect()
    };
    assert_eq!(
        from(&pipeline.stages[0].inputs),
        [(Node::Source(0), None), (Node::Source(1), None)]
    );
    assert_eq!(
        from(&pipeline.stages[1].inputs),
        [
            (Node::Stage(0), None),
            (Node::Stage(0), Some("urgent".into()))
        ]
    );
    let StageKind::Model(answer) = &pipeline.stages[1].kind else {
        panic!("{:?}", pipeline.stages[1]);
    };
    assert_eq!(answer.model, 0);
    assert_eq!(
        answer.prompt.parts[2],
        PromptPart::Text("\n\n".into()),
        "{:?}",
        answer.prompt
    );
    let cut = answer.truncate.as_ref().unwrap();
    assert!(cut.matches(&answer.prompt.parts[3]));
    let Ask::Generate(generate) = &answer.ask else {
        panic!("{:?}", answer.ask);
    };
    assert_eq!(generate.parameters.stop, ["\n\n"]);
    assert_eq!(generate.system.as_deref(), Some("You answer briefly."));
    assert_eq!(generate.parameters.max_tokens, 80);
    assert_eq!(
        (answer.order, answer.into),
        (Order::Partition, Into::Attributes)
    );
    assert_eq!(
        pipeline.sinks[0].encoding,
        Encoding {
            format: Format::Csv,
            envelope: false,
            columns: vec!["id".into(), "answer.text".into()],
            delimiter: b';',
        }
    );
    assert_eq!(from(&pipeline.sinks[0].inputs), [(Node::Stage(1), None)]);
    assert_eq!(
        from(&pipeline.sinks[1].inputs),
        [(Node::Stage(1), None), (Node::Source(0), None)]
    );
    assert_eq!(
        pipeline.dead_letters,
        SinkKind::File {
            path: directory.join("out/dead-letters.jsonl")
        }
    );
}

#[test]
fn what_is_not_typed_has_a_default() {
    let pipeline = parsed(&content("least.toml")).unwrap();
    assert_eq!(pipeline.state, directory().join("state"));
    assert_eq!(pipeline.workers, None);
    assert_eq!(pipeline.cut_interval, Duration::from_millis(200));
    assert_eq!(pipeline.batch, 256);
    assert_eq!(pipeline.summary, None);
    assert_eq!(pipeline.operators, Operators::default());
    assert_eq!(pipeline.admin, Some(([127, 0, 0, 1], 0).into()));
    assert_eq!(pipeline.sinks[0].inputs[0].from, Node::Source(0));
    assert_eq!(
        pipeline.dead_letters,
        SinkKind::File {
            path: directory().join("state/dead-letters.jsonl")
        }
    );
    let asking = format!(
        "{}[model.support]\npath = \"model\"\n[[stage]]\nname = \"answer\"\nmodel = \"support\"\nprompt = \"{{text}}\"\n",
        content("least.toml")
    );
    let pipeline = parsed(&asking).unwrap();
    let StageKind::Model(answer) = &pipeline.stages[0].kind else {
        panic!("{:?}", pipeline.stages[0]);
    };
    assert_eq!(answer.into, Into::Member);
    assert_eq!((answer.priority, answer.field.as_str()), (5, "answer"));
    assert_eq!(
        answer.ask,
        Ask::Generate(Box::new(Generate {
            raw: false,
            system: None,
            parameters: Parameters::default(),
            bias: Vec::new(),
        }))
    );
    assert_eq!(pipeline.engine, Engine::default());
    let model = &pipeline.models[0];
    assert_eq!((model.sequences, model.queue), (32, 256));
    assert_eq!(
        (model.kv_memory, &model.kernels, &model.draft),
        (None, &None, &None)
    );
    assert!(model.reproducible && model.kv_precision == KvPrecision::F16);
}

#[test]
fn what_a_model_stage_asks_is_what_is_typed() {
    let pipeline = parsed(&content("models.toml")).unwrap();
    assert_eq!(
        pipeline.engine,
        Engine {
            memory: Some(4 << 30),
            step_tokens: 128
        }
    );
    let support = &pipeline.models[0];
    assert_eq!(support.kv_memory, Some(256 << 20));
    assert_eq!(support.kv_precision, KvPrecision::F32);
    assert!(!support.reproducible);
    assert_eq!(support.kernels.as_deref(), Some("portable"));
    assert_eq!(support.draft, Some(directory().join("small.gguf")));
    let stage = |index: usize| match &pipeline.stages[index].kind {
        StageKind::Model(stage) => stage.as_ref(),
        StageKind::Operator(_) => panic!("{index}"),
    };
    let parameters = |index: usize| match &stage(index).ask {
        Ask::Generate(generate) => &generate.parameters,
        other => panic!("{other:?}"),
    };
    assert_eq!(stage(0).ask, Ask::Embed);
    let raw = |index: usize| matches!(&stage(index).ask, Ask::Generate(generate) if generate.raw);
    assert!(raw(3) && !raw(2));
    assert_eq!((stage(0).priority, stage(0).field.as_str()), (9, "vector"));
    assert_eq!(stage(1).ask, Ask::Classify { threshold: 0.7 });
    assert_eq!(stage(1).field, "labels");
    let Ask::Generate(sort) = &stage(2).ask else {
        panic!("{:?}", stage(2));
    };
    assert_eq!(
        sort.parameters,
        Parameters {
            temperature: 0.7,
            top_k: 40,
            min_p: 0.05,
            repetition_penalty: 1.1,
            presence_penalty: 0.5,
            frequency_penalty: -0.5,
            logprobs: Some(2),
            n: 3,
            structure: Some(Structure::Choice(
                ["refund", "delivery", "other"].map(str::to_owned).to_vec()
            )),
            speculation: Speculation::Off,
            ..Parameters::default()
        }
    );
    assert_eq!(
        sort.bias,
        [
            (BiasedToken::Text(" yes".into()), 5.0),
            (BiasedToken::Id(123), -100.0)
        ]
    );
    assert_eq!(
        parameters(3).structure,
        Some(Structure::JsonSchema(
            r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#
                .into()
        ))
    );
    assert_eq!(
        parameters(4).structure,
        Some(Structure::JsonSchema(content("answer.schema.json")))
    );
    assert_eq!(parameters(4).speculation, Speculation::PromptLookup);
    assert_eq!(
        parameters(5).structure,
        Some(Structure::Grammar(content("answer.lark")))
    );
    assert_eq!(
        parameters(6).structure,
        Some(Structure::Regex("[A-Z]{3}-[0-9]{1,4}".into()))
    );
}

#[test]
fn a_label_that_the_model_lacks_is_found_at_its_line() {
    let pipeline = parsed(&content("models.toml")).unwrap();
    let labels = |labels: &[&str]| labels.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        check_labels(&pipeline, 1, &labels(&["toxic", "fine"])),
        Ok(())
    );
    let mistakes = check_labels(&pipeline, 1, &labels(&["toxics", "fine"])).unwrap_err();
    assert_eq!(mistakes.len(), 1);
    assert_eq!(
        mistakes[0].what,
        "the model of stage \"moderate\" has no label \"toxic\"; did you mean \"moderate.toxics\"?"
    );
    assert_eq!(
        mistakes[0].position.as_ref().unwrap().text,
        "inputs = [\"moderate.toxic\"]"
    );
    let at = pipeline.mistake_of_model(&pipeline.models[1], "has no weights");
    assert_eq!(at.position.unwrap().text, "[model.mini]");
}

#[test]
fn the_guarantee_is_that_of_the_weakest_part() {
    let level = |content: &str| guarantee(&parsed(content).unwrap()).level;
    let files = "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"file\"\npaths = [\"tickets.jsonl\"]\n\
         [sink.b]\ntype = \"file\"\npath = \"out/b\"\n";
    assert_eq!(level(files), Level::ExactlyOnce);
    let stdout = format!("{files}[sink.c]\ntype = \"stdout\"\n");
    assert_eq!(level(&stdout), Level::AtLeastOnce);
    let dead = format!("{files}[dead-letters]\ntype = \"stdout\"\n");
    assert_eq!(level(&dead), Level::AtLeastOnce);
    let stdin = format!("{stdout}[source.d]\ntype = \"stdin\"\n");
    assert_eq!(level(&stdin), Level::MayLose);
    assert_eq!(level(&content("full.toml")), Level::AtLeastOnce);
}

#[test]
fn a_sink_promises_no_more_than_the_sources_that_feed_it() {
    let pipeline = "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"file\"\npaths = [\"tickets.jsonl\"]\n\
         [source.b]\ntype = \"kafka\"\nbrokers = [\"h:1\"]\ntopic = \"t\"\n[source.c]\ntype = \"stdin\"\n\
         [[stage]]\nname = \"s\"\noperator = \"redact.wasm\"\ninputs = [\"a\", \"b\"]\n\
         [sink.once]\ntype = \"file\"\npath = \"out/a\"\ninputs = [\"a\"]\n\
         [sink.again]\ntype = \"file\"\npath = \"out/b\"\ninputs = [\"s\"]\n\
         [sink.lost]\ntype = \"stdout\"\ninputs = [\"c\", \"s\"]\n";
    let said = guarantee(&parsed(pipeline).unwrap()).to_string();
    for line in [
        "sink once: exactly once: its length is part of every cut, and recovery takes away what lies beyond\n",
        "sink again: exactly once: its length is part of every cut, and recovery takes away what lies beyond\n",
        "source b: exactly once: its positions, and what waits of it, are part of every cut, as long as this process",
        "sink lost: may lose records on a crash: ",
        "dead letters: may lose records on a crash: ",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

#[test]
fn no_output_goes_where_the_state_directory_has_its_own() {
    for path in ["state", "state/components", "state/compiled"] {
        let content =
            content("least.toml") + &format!("[sink.own]\ntype = \"file\"\npath = {path:?}\n");
        let text = parsed(&content).unwrap_err().to_string();
        assert!(
            text.contains(&format!(
                "{path:?} is where the state directory has its own files"
            )),
            "{text}"
        );
    }
}

/// What is said of dead letters, or of a sink, that write to this topic of these brokers beside a source that reads
/// `tickets`.
fn said_of_topic(table: &str, broker: &str, topic: &str) -> String {
    said(&format!(
        "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"kafka\"\nbrokers = [\"k1:9092\", \"k2:9092\"]\n\
         topic = \"tickets\"\n[sink.b]\ntype = \"stdout\"\n[{table}]\ntype = \"kafka\"\n\
         brokers = [\"k0:9092\", {broker:?}]\ntopic = {topic:?}\n"
    ))
}

#[test]
fn dead_letters_do_not_go_into_a_topic_that_is_read() {
    let text = said_of_topic("dead-letters", "K2:9092", "tickets");
    assert!(
        text.contains(
            "pipeline.toml:12:9: dead-letters.topic: \"tickets\" is read by source \"a\""
        ) && text.contains("1 mistake"),
        "{text}"
    );
    // A sink may want it so.
    let text = said_of_topic("sink.c", "k2:9092", "tickets");
    assert!(
        text.contains(
            "warning: pipeline.toml:12:9: sink.c.topic: \"tickets\" is read by source \"a\""
        ),
        "{text}"
    );
    for (broker, topic) in [("k3:9092", "tickets"), ("k2:9092", "dead")] {
        for table in ["dead-letters", "sink.c"] {
            let text = said_of_topic(table, broker, topic);
            assert!(!text.contains("is read by"), "{text}");
        }
    }
}

#[test]
fn every_path_that_reads_a_file_of_the_state_directory_is_told_once() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("state")).unwrap();
    for name in ["commit.log", "key", "dead-letters.jsonl"] {
        fs::write(place.path().join("state").join(name), "").unwrap();
    }
    let file = place.path().join("pipeline.toml");
    fs::write(
        &file,
        "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"file\"\npaths = [\"state/key\", \"state/*.jsonl\"]\n\
         [source.b]\ntype = \"file\"\npaths = [\"state/c*\", \"state/comm*\"]\n[sink.c]\ntype = \"stdout\"\n",
    )
    .unwrap();
    let text = load(&file).unwrap_err().to_string();
    let of_state = "a file of the state directory itself; read another file";
    for (path, own) in [
        ("state/key", "state/key"),
        ("state/*.jsonl", "state/dead-letters.jsonl"),
        ("state/c*", "state/commit.log"),
        ("state/comm*", "state/commit.log"),
    ] {
        let mistake = format!("{path:?} is, or stands for, {own}, {of_state}");
        assert_eq!(text.matches(&mistake).count(), 1, "{mistake}: {text}");
    }
    assert_eq!(text.matches(of_state).count(), 4, "{text}");
}

#[test]
fn a_component_larger_than_may_be_deployed_is_found_at_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.wasm");
    let file = fs::File::create(&path).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
    let content =
        content("least.toml") + &format!("[[stage]]\nname = \"large\"\noperator = {path:?}\n");
    let text = parsed(&content).unwrap_err().to_string();
    let line = content.lines().count();
    assert!(
        text.contains(&format!("pipeline.toml:{line}:12: stage.large.operator: "))
            && text.contains("large.wasm\" has 67108865 bytes, limit 67108864 (64 MiB)"),
        "{text}"
    );
    file.set_len(64 << 20).unwrap();
    let said = parsed(&content)
        .map(drop)
        .map_err(|mistakes| mistakes.to_string());
    assert!(!said.err().unwrap_or_default().contains("large.wasm"));
}

#[test]
fn an_output_that_the_component_lacks_is_found_at_its_line() {
    let pipeline = parsed(&content("full.toml")).unwrap();
    assert_eq!(check_outputs(&pipeline, 0, &["urgent".into()]), Ok(vec![]));
    let mistakes = check_outputs(&pipeline, 0, &["urgnet".into()]).unwrap_err();
    assert_eq!(
        mistakes.to_string(),
        "pipeline.toml:52:21: stage.answer.inputs: the component of stage \"redact\" has no output \"urgent\"; \
         did you mean \"redact.urgnet\"?\n 52 | inputs = [\"redact\", \"redact.urgent\"]\n    |                     \
         ^^^^^^^^^^^^^^^\nwarning: pipeline.toml:38:1: stage.redact: nothing takes its output \"urgnet\"; records \
         sent there are dropped\n 38 | [[stage]]\n    | ^^^^^^^^^\n1 mistake"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_mistake_like_any_other() {
    let gone = load(Path::new("no/such/file.toml")).unwrap_err();
    let said = gone.to_string();
    assert!(
        said.starts_with("no/such/file.toml: cannot be read: "),
        "{said}"
    );
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("latin.toml");
    fs::write(&file, b"[pipeline]\nname = \"caf\xe9\"\n").unwrap();
    let said = load(&file).unwrap_err().to_string();
    assert!(said.contains("is not UTF-8: line 2, byte 22"), "{said}");
}

#[test]
fn a_number_without_its_unit_is_answered_with_the_likely_one() {
    for (line, near) in [
        ("cut-interval = \"200\"", "200ms"),
        ("cut-interval = 200", "200ms"),
        ("cut-interval = \"2 sec\"", "2s"),
    ] {
        let said = said(&format!("[pipeline]\nname = \"x\"\n{line}\n"));
        let expected = format!("write for example {near:?}\n");
        assert!(said.contains(&expected), "{line}: {said}");
    }
}

#[test]
fn what_the_pipeline_lives_by_is_not_written_over() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pipeline.toml");
    let said = |path: &str| {
        let content = format!(
            "[pipeline]\nname = \"x\"\nstate = \"run\"\n[source.a]\ntype = \"stdin\"\n[sink.b]\ntype = \"file\"\n\
             path = {path:?}\n"
        );
        fs::write(&file, content).unwrap();
        load(&file).map_or_else(
            |mistakes| mistakes.mistakes[0].what.clone(),
            |_| String::new(),
        )
    };
    assert_eq!(said("run/answers.jsonl"), "");
    assert_eq!(
        said("./pipeline.toml"),
        "\"./pipeline.toml\" is the pipeline file itself; write to another file"
    );
    for own in [
        "commit.log",
        "key",
        "lock",
        "admin.json",
        "dead-letters.jsonl",
    ] {
        let path = format!("out/../run/{own}");
        assert_eq!(
            said(&path),
            format!("{path:?} is a file of the state directory itself; write to another file")
        );
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_or_a_device_is_neither_read_nor_written_as_a_file() {
    let place = tempfile::tempdir().unwrap();
    let (pipe, socket) = (place.path().join("pipe"), place.path().join("socket"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, what) in [
        (pipe.as_path(), "a pipe"),
        (socket.as_path(), "a socket"),
        (Path::new("/dev/null"), "a device"),
    ] {
        let mistakes = parsed(&format!(
            "[pipeline]\nname = \"x\"\nsummary = {path:?}\n[source.a]\ntype = \"file\"\npaths = [{path:?}]\n\
             [sink.b]\ntype = \"file\"\npath = {path:?}\n"
        ))
        .unwrap_err();
        let said: Vec<String> = mistakes
            .mistakes
            .into_iter()
            .map(|mistake| mistake.what)
            .collect();
        let instead = [
            "name a file",
            "name a file, or use type = \"stdin\"",
            "name a file, or use type = \"stdout\"",
        ];
        assert_eq!(
            said,
            instead.map(|instead| format!("{path:?} is {what}; {instead}"))
        );
    }
}

#[test]
fn every_example_has_no_mistake_but_operators_not_built_yet() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let file = entry.unwrap().path().join("pipeline.toml");
        if !file.is_file() {
            continue;
        }
        seen += 1;
        for mistake in load(&file).err().map_or(Vec::new(), |found| found.mistakes) {
            let unbuilt =
                mistake.what.starts_with("there is no file") && mistake.key.ends_with(".operator");
            assert!(unbuilt, "{mistake}");
        }
    }
    assert!(seen > 0);
}

/// Text that is nearly a pipeline file.
fn nearly() -> impl Strategy<Value = String> {
    let lines: Vec<String> = [
        "full",
        "values",
        "names",
        "files",
        "syntax",
        "models",
        "model-mistakes",
    ]
    .iter()
    .flat_map(|name| {
        content(&format!("{name}.toml"))
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
    .collect();
    prop::collection::vec(
        prop_oneof![
            6 => prop::sample::select(lines),
            1 => "[ -~é\"'{}\\[\\]=.#\n]{0,30}",
        ],
        0..40,
    )
    .prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_too_odd(text in any::<String>()) {
        if let Err(mistakes) = parsed(&text) {
            prop_assert!(!mistakes.mistakes.is_empty());
            prop_assert!(!mistakes.to_string().is_empty());
        }
    }

    #[test]
    fn no_pipeline_file_is_too_broken(text in nearly()) {
        if let Err(mistakes) = parsed(&text) {
            prop_assert!(!mistakes.mistakes.is_empty());
            prop_assert!(!mistakes.to_string().is_empty());
        }
    }
}

#[test]
fn a_size_on_the_command_line_is_written_as_in_the_file() {
    assert_eq!(size("8GiB"), Ok(8 << 30));
    assert_eq!(size("1.5 MiB"), Ok(3 << 19));
    for wrong in ["8", "8GB", "", "GiB", "-1GiB"] {
        assert!(size(wrong).unwrap_err().contains("8GiB"), "{wrong}");
    }
    assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
    assert_eq!(duration("20 ms"), Ok(Duration::from_millis(20)));
    for wrong in ["20", "20msec", "", "s", "-1s"] {
        assert!(duration(wrong).unwrap_err().contains("20ms"), "{wrong}");
    }
}
