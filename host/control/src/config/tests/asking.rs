//! What stages ask of models.

use tidegate_contract::{Aggregation, Parameters, Speculation, Structure};

use super::super::*;
use super::{content, directory, parsed};

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
    assert_eq!(pipeline.models[1].kv_precision, KvPrecision::Int8);
    assert!(!support.reproducible);
    assert_eq!(support.kernels.as_deref(), Some("portable"));
    assert_eq!(support.pre_tokenizer.as_deref(), Some("llama-bpe"));
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
    assert_eq!(
        (stage(0).priority, stage(0).field.as_str()),
        (Some(9), "vector")
    );
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
fn a_bound_on_thoughts_that_leaves_nothing_for_the_answer_is_a_warning() {
    let warned = |model: &str, stage: &str| -> Vec<String> {
        let file = format!(
            "{}[model.support]\npath = \"model\"\n{model}\n[[stage]]\nname = \"answer\"\nmodel = \"support\"\n\
             prompt = \"{{text}}\"\n{stage}\n",
            content("least.toml")
        );
        let warnings = parsed(&file).unwrap().warnings.into_iter();
        let warnings = warnings.filter(|warning| warning.key.ends_with(".reasoning-tokens"));
        warnings.map(|warning| warning.what).collect()
    };
    let wanted = |most: &str| {
        format!(
            "leaves nothing of max-tokens = {most} for the answer, which is empty where the model thinks for so long"
        )
    };
    for (model, stage, most) in [
        ("", "reasoning-tokens = 256", Some("256, its default here,")),
        ("", "reasoning-tokens = 255", None),
        (
            "context = 64",
            "reasoning-tokens = 32",
            Some("32, its default here,"),
        ),
        ("context = 64", "reasoning-tokens = 31", None),
        ("", "max-tokens = 10\nreasoning-tokens = 10", Some("10")),
        ("", "max-tokens = 300\nreasoning-tokens = 256", None),
    ] {
        let wanted: Vec<String> = most.map(wanted).into_iter().collect();
        assert_eq!(warned(model, stage), wanted, "{model:?} {stage:?}");
    }
}

const RANKING: &str = r#"
[pipeline]
name = "ranking"
[source.tickets]
type = "file"
paths = ["tickets.jsonl"]
[model.mini]
path = "model"
[[stage]]
name = "order"
rerank = "mini"
query = "{question}"
KEYS
[sink.out]
type = "file"
path = "out.jsonl"
"#;

#[test]
fn a_ranking_says_where_its_documents_stand() {
    let pipeline = parsed(&RANKING.replace("KEYS", "documents = \"found.rows\"\ntop = 3")).unwrap();
    let StageKind::Model(stage) = &pipeline.stages[0].kind else {
        panic!("{:?}", pipeline.stages[0]);
    };
    let documents = ["found", "rows"].map(str::to_owned).to_vec();
    let top = Some(3);
    assert_eq!(stage.ask, Ask::Rerank { documents, top });
    assert_eq!(stage.field, "ranking");
    for (keys, wanted) in [
        (
            "",
            "order.documents: is missing; write documents = \"documents\"",
        ),
        ("documents = \"a..b\"", "\"a..b\" is no member of a value"),
        (
            "documents = \"a\"\ntop = 0",
            "order.top: 0 must be 1 to 1024",
        ),
        (
            "documents = \"a\"\nthreshold = 0.5",
            "order.threshold: belongs to classify or recognize",
        ),
        (
            "documents = \"a\"\ntext = \"{a}\"",
            "order.text: belongs to embed, classify or recognize; write query and documents",
        ),
        (
            "documents = \"a\"\nprompt = \"{a}\"",
            "order.prompt: belongs to a stage that asks for an answer",
        ),
    ] {
        let said = super::said(&RANKING.replace("KEYS", keys));
        assert!(said.contains(wanted), "{keys}: {said}");
    }
}

#[test]
fn entities_are_put_together_as_a_stage_says() {
    let recognizing = |keys: &str| {
        let text = "recognize = \"mini\"\ntext = \"{question}\"";
        let asking = RANKING.replace("rerank = \"mini\"\nquery = \"{question}\"", text);
        asking.replace("KEYS", keys)
    };
    for (keys, aggregation, threshold) in [
        ("", Aggregation::Simple, 0.0),
        (
            "aggregation = \"max\"\nthreshold = 0.5",
            Aggregation::Max,
            0.5,
        ),
        ("aggregation = \"none\"", Aggregation::None, 0.0),
    ] {
        let pipeline = parsed(&recognizing(keys)).unwrap();
        let StageKind::Model(stage) = &pipeline.stages[0].kind else {
            panic!("{:?}", pipeline.stages[0]);
        };
        let wanted = Ask::Recognize {
            aggregation,
            threshold,
        };
        assert_eq!((&stage.ask, stage.field.as_str()), (&wanted, "entities"));
    }
    for (keys, wanted) in [
        (
            "aggregation = \"firsts\"",
            "order.aggregation: \"firsts\" is not known; did you mean \"first\"? (none, simple, first, average, max)",
        ),
        ("threshold = 1.5", "order.threshold: 1.5 must be 0.0 to 1.0"),
        ("documents = \"a\"", "order.documents: belongs to rerank"),
        (
            "prompt = \"{a}\"",
            "order.prompt: belongs to a stage that asks for an answer",
        ),
    ] {
        let said = super::said(&recognizing(keys));
        assert!(said.contains(wanted), "{keys}: {said}");
    }
    let label = RANKING.replace("rerank = \"mini\"\nquery", "classify = \"mini\"\ntext");
    let said = super::said(&label.replace("KEYS", "aggregation = \"first\""));
    assert!(
        said.contains("order.aggregation: belongs to recognize"),
        "{said}"
    );
    // Nobody's output is a label, and another server knows no entities.
    let routed = recognizing("").replace("[sink.out]", "[sink.out]\ninputs = [\"order.PER\"]");
    let said = super::said(&routed);
    let wanted = "\"order\" asks a model and has no output \"PER\"";
    assert!(said.contains(wanted), "{said}");
    let server = "type = \"kserve\"\nurl = \"http://127.0.0.1:8000\"";
    let remote = recognizing("").replace("path = \"model\"", server);
    let said = super::said(&remote);
    assert!(said.contains("which is asked for no entities"), "{said}");
}

#[test]
fn an_adapted_model_is_its_base_through_an_adapter() {
    let pipeline = parsed(&content("adapters.toml")).unwrap();
    let [support, polite, idle] = &pipeline.models[..] else {
        panic!("{:?}", pipeline.models);
    };
    assert_eq!(support.lora, None);
    let lora = polite.lora.as_ref().unwrap();
    assert_eq!((lora.base, &lora.path), (0, &directory().join("adapter")));
    assert_eq!(polite.name, "polite");
    assert_eq!(idle.lora, polite.lora);
    let Model {
        path,
        sequences,
        kv_precision,
        ..
    } = polite;
    assert_eq!(path, &support.path);
    assert_eq!((*sequences, *kv_precision), (4, KvPrecision::F32));
    // The base is loaded for its adapter, and is not said to be for nothing.
    let warnings: Vec<String> = pipeline.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().all(|of| !of.contains("model.support")),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|of| of.contains("model.idle")),
        "{warnings:?}"
    );
}
