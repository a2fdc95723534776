//! What is typed is what is meant.

use std::time::Duration;

use tidegate_contract::{Parameters, PromptPart, PromptTemplate, Role, TemplateArguments};

use super::super::*;
use super::{content, directory, parsed};

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
    assert_eq!((answer.priority, answer.field.as_str()), (None, "answer"));
    assert_eq!(
        answer.ask,
        Ask::Generate(Box::new(Generate {
            pin_prefix: false,
            raw: false,
            system: None,
            turns: Vec::new(),
            template_arguments: TemplateArguments::default(),
            reasoning: None,
            parameters: Parameters::default(),
            bias: Vec::new(),
        }))
    );
    assert_eq!(pipeline.engine, Engine::default());
    let model = &pipeline.models[0];
    assert_eq!((model.sequences, model.queue), (32, 256));
    assert_eq!(model.adapters, [AdapterChoice::Any]);
    let on = |adapters: &str| {
        let asking = asking.replace("path = \"model\"", &format!("path = \"model\"\n{adapters}"));
        parsed(&asking).unwrap().models.remove(0).adapters
    };
    assert_eq!(on("adapter = 3"), [AdapterChoice::Index(3)]);
    assert_eq!(
        on("adapters = [\"0\", 1, \"cpu\", \"Radeon\", 0]"),
        [
            AdapterChoice::Index(0),
            AdapterChoice::Index(1),
            AdapterChoice::Cpu,
            AdapterChoice::Named("Radeon".to_owned()),
            AdapterChoice::Index(0),
        ]
    );
    assert_eq!(
        (model.kv_memory, &model.kernels, &model.draft),
        (None, &None, &None)
    );
    assert_eq!(model.pre_tokenizer, None);
    assert!(model.reproducible && model.kv_precision == KvPrecision::F16);
}

#[test]
fn the_turns_of_a_stage_and_what_it_gives_the_template_are_in_their_order() {
    let asking = format!(
        "{}[model.support]\npath = \"model\"\n[[stage]]\nname = \"answer\"\nmodel = \"support\"\n\
         template-arguments = {{ enable_thinking = false, tools_in = [\"a\", {{ b = 1.5 }}] }}\n\
         reasoning = \"thoughts\"\nreasoning-tokens = 0\ntruncate = \"text\"\npin-prefix = true\n\
         [[stage.messages]]\nrole = \"system\"\ncontent = \"Be {{$key}}.\"\n\
         [[stage.messages]]\nrole = \"user\"\ncontent = \"{{text}}\"\n\
         [[stage.messages]]\nrole = \"assistant\"\ncontent = \"Well, \"\n",
        content("least.toml")
    );
    let pipeline = parsed(&asking).unwrap();
    let StageKind::Model(answer) = &pipeline.stages[0].kind else {
        panic!("{:?}", pipeline.stages[0]);
    };
    let Ask::Generate(generate) = &answer.ask else {
        panic!("{answer:?}");
    };
    assert!(generate.pin_prefix);
    let turns = generate.turns.iter();
    let turns: Vec<_> = turns
        .map(|turn| (turn.role, turn.content.clone()))
        .collect();
    let said = |text| PromptTemplate::parse(text).unwrap();
    assert_eq!(
        turns,
        [
            (Role::System, said("Be {$key}.")),
            (Role::User, said("{text}")),
            (Role::Assistant, said("Well, ")),
        ]
    );
    assert!(!answer.messages && answer.prompt.parts.is_empty());
    assert_eq!(
        generate.template_arguments.text(),
        r#"{"enable_thinking":false,"tools_in":["a",{"b":1.5}]}"#
    );
    assert_eq!(generate.reasoning.as_deref(), Some("thoughts"));
    assert_eq!(generate.parameters.reasoning_tokens, Some(0));
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
