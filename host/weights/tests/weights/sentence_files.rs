//! The files of sentence-transformers beside a model: modules, pooling, prompts.

use serde_json::{Value, json};
use tidegate_weights::{EncoderHead, Pooling, TextPrompts};

use crate::configurations::{encoder, open_beside, with};

#[test]
fn prompts_of_embeddings_are_those_that_sentence_transformers_reads() {
    let named = |said: Value| [("config_sentence_transformers.json", said)];
    let query = json!({"prompts": {"query": "q: ", "document": ""}, "default_prompt_name": null});
    let prompts = encoder(json!({}), &named(query.clone())).prompts;
    let get = |prompts: &TextPrompts, name: Option<&str>| prompts.get(name).map(str::to_owned);
    for (name, text) in [
        (None, Some("")),
        (Some(""), Some("")),
        (Some("query"), Some("q: ")),
        (Some("document"), Some("")),
        (Some("passage"), None),
    ] {
        assert_eq!(get(&prompts, name).as_deref(), text, "{name:?}");
    }
    let mut usual = query.clone();
    usual["default_prompt_name"] = json!("query");
    let prompts = encoder(json!({}), &named(usual.clone())).prompts;
    assert_eq!(get(&prompts, None).as_deref(), Some("q: "));
    assert_eq!(get(&prompts, Some("")).as_deref(), Some(""));
    // Without prompts, as older files are.
    let older = encoder(
        json!({}),
        &named(json!({"__version__": {"pytorch": "1.6"}})),
    );
    assert_eq!(older.prompts, TextPrompts::default());

    let refused =
        |config: Value, beside: &[(&str, Value)]| open_beside(&config, beside).unwrap_err();
    let bert = json!({"architectures": ["BertModel"]});
    for (said, words) in [
        (
            json!({"prompts": {"query": "q: "}, "default_prompt_name": "passage"}),
            "m/config_sentence_transformers.json: `default_prompt_name` is passage, must be the name of a prompt: query, document",
        ),
        (
            json!({"prompts": {"query": 7}}),
            "`prompts.query` is 7, must be a text",
        ),
        (json!({"prompts": ["q"]}), "`prompts`"),
    ] {
        let error = refused(bert.clone(), &named(said));
        assert!(error.contains(words), "{error}");
    }
    let scores =
        json!({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}});
    let error = refused(scores, &named(usual.clone()));
    assert!(error.contains("`default_prompt_name` is query"), "{error}");
    // Those of labels are not read by anybody.
    let labels = json!({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "calm", "1": "rude"}});
    assert!(open_beside(&labels, &named(query.clone())).is_ok());
    // There always, and what is null is empty.
    for usual in [
        json!({"default_prompt_name": "query"}),
        json!({"prompts": {"x": null}, "default_prompt_name": "x"}),
    ] {
        assert_eq!(
            encoder(json!({}), &named(usual)).prompts.get(None),
            Some("")
        );
    }
    let left_out = json!({"pooling_mode_mean_tokens": true, "include_prompt": false});
    let beside = [
        ("config_sentence_transformers.json", query),
        ("1_Pooling/config.json", left_out),
    ];
    assert!(encoder(json!({}), &beside).prompts.left_out);
}

#[test]
fn modules_in_another_order_or_place_and_labels_that_are_alike_are_refused() {
    let module = |kind: &str, path: &str| json!({"type": format!("sentence_transformers.models.{kind}"), "path": path});
    let [first, pooling] =
        [("Transformer", ""), ("Pooling", "1_Pooling")].map(|(kind, path)| module(kind, path));
    let bert = json!({"architectures": ["BertModel"]});
    let beside = |modules: Value| {
        [
            ("modules.json", modules),
            ("1_Pooling/config.json", json!({"pooling_mode": "mean"})),
        ]
    };
    open_beside(&bert, &beside(json!([first, pooling]))).unwrap();
    for (modules, words) in [
        (
            json!([first, module("Pooling", "5_Pooling")]),
            "m/modules.json: `path` is 5_Pooling, supported: 1_Pooling",
        ),
        (
            json!([pooling, first]),
            "m/modules.json: `type` is sentence_transformers.models.Pooling as module 0",
        ),
        (
            json!([first, first]),
            "`type` is sentence_transformers.models.Transformer as module 1",
        ),
        (json!([]), "m/modules.json: key `type` is missing"),
        // In one line, whatever it says.
        (
            json!([{"type": "a\nb\u{1b}"}]),
            "`type` is a\\nb\\u{1b}, supported",
        ),
    ] {
        let error = open_beside(&bert, &beside(modules)).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let error = open_beside(
        &bert,
        &[("1_Pooling/config.json", json!({"pooling_mode": "max"}))],
    )
    .unwrap_err();
    assert!(
        error.starts_with("m/1_Pooling/config.json: `pooling_mode` is max"),
        "{error}"
    );
    let alike = json!({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "same", "1": "same", "2": "x"}});
    let error = open_beside(&alike, &[]).unwrap_err();
    assert!(
        error.contains("`id2label` is an object with \"same\" twice"),
        "{error}"
    );
}

#[test]
fn a_pooling_module_without_its_file_is_refused() {
    let of = |kinds: &[&str]| {
        let module = |kind| json!({"type": format!("sentence_transformers.models.{kind}")});
        [("modules.json", Value::from_iter(kinds.iter().map(module)))]
    };
    let bert = json!({"architectures": ["BertModel"]});
    for config in [bert, with("Qwen3ForCausalLM", json!({}))] {
        assert_eq!(
            open_beside(&config, &of(&["Transformer", "Pooling"])).unwrap_err(),
            "m/modules.json: `type` is sentence_transformers.models.Pooling without 1_Pooling/config.json, supported: \
             a Pooling that this file describes"
        );
        // As sentence-transformers takes a model that says nothing of it.
        let checkpoint = open_beside(&config, &of(&["Transformer"])).unwrap();
        let head = &checkpoint.encoder().unwrap().head;
        assert_eq!(*head, EncoderHead::Embedding(Pooling::Mean));
    }
}

#[test]
fn a_layer_of_sentence_transformers_that_is_not_implemented_is_named() {
    let modules = |last: Value| {
        let kinds = ["Transformer", "Pooling", "Normalize"];
        let kinds =
            kinds.map(|kind| json!({"type": format!("sentence_transformers.models.{kind}")}));
        [
            (
                "modules.json",
                Value::from_iter(kinds.into_iter().chain([last])),
            ),
            ("1_Pooling/config.json", json!({"pooling_mode": "mean"})),
        ]
    };
    let newer =
        json!({"type": "sentence_transformers.sentence_transformer.modules.normalize.Normalize"});
    encoder(json!({}), &modules(newer));
    let bert = json!({"architectures": ["BertModel"]});
    for (last, found) in [
        (
            json!({"type": "sentence_transformers.models.Dense"}),
            "sentence_transformers.models.Dense",
        ),
        (json!({"type": 1}), "{\"type\":1}"),
    ] {
        assert_eq!(
            open_beside(&bert, &modules(last)).unwrap_err(),
            format!(
                "m/modules.json: `type` is {found}, supported: Transformer, Pooling, Normalize"
            )
        );
    }
}

#[test]
fn a_decoder_with_the_files_of_sentence_transformers_makes_vectors() {
    let modules = |last: &str| {
        let kinds = ["Transformer", "Pooling", last];
        json!(kinds.map(|kind| json!({"type": format!("sentence_transformers.models.{kind}")})))
    };
    let pooling = json!({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false});
    let beside = |last| {
        [
            ("modules.json", modules(last)),
            ("1_Pooling/config.json", pooling.clone()),
        ]
    };
    for (name, changes, head_norms, window) in [
        ("Qwen3ForCausalLM", json!({}), true, None),
        ("Qwen3Model", json!({}), true, None),
        ("MistralModel", json!({"sliding_window": 9}), false, Some(8)),
    ] {
        let config = with(name, changes);
        let checkpoint = open_beside(&config, &beside("Normalize")).unwrap();
        let found = checkpoint.encoder().unwrap();
        assert_eq!(found.head, EncoderHead::Embedding(Pooling::Last), "{name}");
        assert!(found.causal && found.rms_norms && found.pre_norm && found.gated);
        assert_eq!((found.head_norms, found.first_norm), (head_norms, false));
        assert!(
            found.layers.iter().all(|layer| layer.reach == window),
            "{name}"
        );
        assert_eq!(
            (found.types, found.positions, found.token_types()),
            (0, 0, 1)
        );
        let decoder = found.decoder.as_ref().unwrap();
        assert_eq!(
            (found.kv_heads, found.head_dim),
            (decoder.kv_heads, decoder.head_dim)
        );
    }
    // Without them it is what it was, and a bare one has no head to make tokens with.
    let chat = open_beside(&with("Qwen3ForCausalLM", json!({})), &[]).unwrap();
    assert!(chat.decoder().is_some());
    let bare = open_beside(&with("Qwen3Model", json!({})), &[]).unwrap_err();
    assert!(
        bare.contains("`architectures` is Qwen3Model, supported:"),
        "{bare}"
    );
    for (name, last, words) in [
        (
            "Qwen3ForCausalLM",
            "Dense",
            "m/modules.json: `type` is sentence_transformers.models.Dense",
        ),
        (
            "Gemma2ForCausalLM",
            "Normalize",
            "`architectures` is Gemma2ForCausalLM, supported: Qwen3ForCausalLM, Qwen2ForCausalLM, LlamaForCausalLM, \
             MistralForCausalLM for embeddings",
        ),
    ] {
        let error = open_beside(&with(name, json!({})), &beside(last)).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_decoder_whose_rows_see_those_after_them_is_refused() {
    let modules = json!(
        ["Transformer", "Pooling"]
            .map(|kind| json!({"type": format!("sentence_transformers.models.{kind}")}))
    );
    let beside = [
        ("modules.json", modules),
        ("1_Pooling/config.json", json!({"pooling_mode": "mean"})),
    ];
    for name in [
        "Qwen3ForCausalLM",
        "LlamaForCausalLM",
        "Gemma3ForCausalLM",
        "Phi3ForCausalLM",
    ] {
        // As transformers has it, what is not true is false.
        for (flag, said) in [(json!(false), "false"), (Value::Null, "null")] {
            let error = open_beside(&with(name, json!({"is_causal": flag})), &[]).unwrap_err();
            let words = format!("`is_causal` is {said}, supported: true");
            assert!(error.contains(&words), "{name}: {error}");
        }
        open_beside(&with(name, json!({"is_causal": true})), &[]).unwrap();
    }
    for name in ["Qwen3ForCausalLM", "Qwen3Model"] {
        let both = with(name, json!({"is_causal": false}));
        let error = open_beside(&both, &beside).unwrap_err();
        assert!(error.contains("`is_causal` is false"), "{name}: {error}");
    }
}
