//! Conversations with functions, in the chat templates of models: `golden/make_tools.py` wrote what jinja2 makes of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tidegate_contract::{Call, Function, Message, Role, TemplateArguments};
use tidegate_text::{CallForm, Tag, Tokenizer};

use crate::published::{DIRECTORY, vocabulary_with_template, with_template, with_template_of};

#[derive(Deserialize)]
struct Golden {
    functions: Vec<Function>,
    chats: BTreeMap<String, Vec<Message>>,
    prompts: BTreeMap<String, BTreeMap<String, String>>,
}

fn golden() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tools.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn none() -> TemplateArguments {
    TemplateArguments::default()
}

fn template(name: &str) -> Tokenizer {
    with_template(&DIRECTORY.join(format!("{name}.jinja"))).unwrap()
}

#[test]
fn templates_make_of_functions_calls_and_reasoning_what_jinja_makes() {
    let golden = golden();
    let mut cases = 0;
    let mut differ = Vec::new();
    for (name, prompts) in &golden.prompts {
        let tokenizer = template(name);
        for (chat, wanted) in prompts {
            cases += 1;
            let rendered =
                tokenizer.render_conversation(&golden.chats[chat], &golden.functions, &none());
            if rendered.as_ref() != Ok(wanted) {
                differ.push(format!(
                    "{name} {chat}:\n  got {rendered:?}\n  want {wanted:?}"
                ));
            }
        }
    }
    assert!(
        differ.is_empty(),
        "{} of {cases}\n{}",
        differ.len(),
        differ.join("\n")
    );
}

#[test]
fn the_form_of_calls_and_reasoning_is_found_in_the_template() {
    for (name, form, named, reasons) in [
        ("Qwen-Qwen2.5-7B-Instruct", CallForm::Tagged, false, false),
        ("Qwen-Qwen3-0.6B", CallForm::Tagged, false, true),
        (
            "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
            CallForm::Tagged,
            false,
            false,
        ),
        (
            "microsoft-Phi-3.5-mini-instruct",
            CallForm::Tagged,
            false,
            false,
        ),
        (
            "meta-llama-Llama-3.1-8B-Instruct",
            CallForm::Bare,
            false,
            false,
        ),
        (
            "meta-llama-Llama-3.2-3B-Instruct",
            CallForm::Bare,
            false,
            false,
        ),
        (
            "mistralai-Mistral-Nemo-Instruct-2407",
            CallForm::List,
            false,
            false,
        ),
        (
            "Mistral-Small-3.2-24B-Instruct-2506",
            CallForm::List,
            true,
            false,
        ),
        (
            "mistralai-Ministral-3-14B-Reasoning-2512",
            CallForm::List,
            true,
            true,
        ),
    ] {
        let tokenizer = template(name);
        let found = tokenizer.answer_form();
        assert_eq!(
            (found.calls, found.named.is_some(), found.reasons),
            (form, named, reasons),
            "{name}"
        );
    }
}

#[test]
fn the_tags_of_reasoning_are_found_in_the_template() {
    for (name, begins, ends) in [
        ("Qwen-Qwen3-0.6B", "<think>", "</think>"),
        (
            "mistralai-Ministral-3-14B-Reasoning-2512",
            "[THINK]",
            "[/THINK]",
        ),
        (
            "openai-gpt-oss-120b",
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
        ("google-gemma-4-31B-it", "<|channel>thought\n", "<channel|>"),
        (
            "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
            "<|START_THINKING|>",
            "<|END_THINKING|>",
        ),
        ("ByteDance-Seed-OSS", "<seed:think>", "</seed:think>"),
    ] {
        let tokenizer = template(name);
        let found = tokenizer.answer_form();
        let tags = (found.reasoning.0.text(), found.reasoning.1.text());
        assert_eq!((tags, found.reasons), ((begins, ends), true), "{name}");
    }
}

/// Tags that begin and end thoughts, with the tokens in them that published tokenizers have for them.
const MARKS: [(&str, &[&str], &[&str]); 6] = [
    ("Qwen-Qwen3-0.6B", &["<think>"], &["</think>"]),
    (
        "mistralai-Ministral-3-14B-Reasoning-2512",
        &["[THINK]"],
        &["[/THINK]"],
    ),
    (
        "openai-gpt-oss-120b",
        &["<|channel|>", "<|message|>"],
        &["<|end|>", "<|start|>", "<|channel|>", "<|message|>"],
    ),
    ("google-gemma-4-31B-it", &["<|channel>"], &["<channel|>"]),
    (
        "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
        &["<|START_THINKING|>"],
        &["<|END_THINKING|>"],
    ),
    ("ByteDance-Seed-OSS", &["<seed:think>"], &["</seed:think>"]),
];

/// The names of the tokens that alone are a tag, in their order.
fn own(tokenizer: &Tokenizer, tag: &Tag) -> Vec<String> {
    match tag {
        Tag::Text(_) => Vec::new(),
        Tag::Token(token, _) => vec![tokenizer.token_name(*token).unwrap()],
        Tag::Tokens { text, own, .. } => own
            .iter()
            .map(|(token, place)| {
                let name = tokenizer.token_name(*token).unwrap();
                assert_eq!(name, text[place.clone()]);
                name
            })
            .collect(),
    }
}

#[test]
fn a_tag_is_the_token_that_the_tokenizer_has_for_it_and_text_where_it_has_none() {
    for (name, begins, ends) in MARKS {
        let mut vocabulary = vocabulary_with_template(&DIRECTORY.join(format!("{name}.jinja")));
        let tokenizer = Tokenizer::from_gguf(&vocabulary).unwrap();
        let (first, last) = &tokenizer.answer_form().reasoning;
        let is_text = |tag: &Tag| matches!(tag, Tag::Text(_));
        assert!(is_text(first) && is_text(last), "{name}");
        // Special ones, and those that are only added, as Qwen3 and DeepSeek have them.
        let plain = vocabulary.tokens.len();
        let mut names: Vec<&str> = begins.iter().chain(ends).copied().collect();
        names.sort_unstable();
        names.dedup();
        vocabulary
            .tokens
            .extend(names.iter().map(|name| (*name).to_owned()));
        for kind in [3, 4] {
            vocabulary.types = vec![1; plain];
            vocabulary.types.resize(vocabulary.tokens.len(), kind);
            let tokenizer = Tokenizer::from_gguf(&vocabulary).unwrap();
            let (first, last) = &tokenizer.answer_form().reasoning;
            assert_eq!(own(&tokenizer, first), begins, "{name} {kind}");
            assert_eq!(own(&tokenizer, last), ends, "{name} {kind}");
        }
    }
}

#[test]
fn the_tags_of_a_published_vocabulary_are_its_tokens() {
    let tokenizer = with_template_of("gemma-4", "google-gemma-4-31B-it");
    let (begins, ends) = &tokenizer.answer_form().reasoning;
    assert_eq!(own(&tokenizer, begins), ["<|channel>"]);
    assert_eq!(own(&tokenizer, ends), ["<channel|>"]);
    assert!(matches!(ends, Tag::Token(101, _)), "{ends:?}");
    let mut shown = tokenizer.answer_form().shown_of_reasoning.clone();
    shown.sort_unstable();
    assert_eq!(shown, [100, 101]);
}

#[test]
fn an_answer_in_channels_has_another_form_where_functions_may_be_called() {
    let tokenizer = template("openai-gpt-oss-120b");
    assert_eq!(tokenizer.answer_form_with(false), tokenizer.answer_form());
    let form = tokenizer.answer_form_with(true);
    assert_eq!(
        (form.calls, form.opens.is_some()),
        (CallForm::Channels, false)
    );
    assert_eq!(form.reasoning.0, tokenizer.answer_form().reasoning.0);
    assert_eq!(form.reasoning.1.text(), "<|end|><|start|>assistant");
    assert!(form.channels.is_some());
    let other = template("Qwen-Qwen3-0.6B");
    assert_eq!(other.answer_form_with(true), other.answer_form());
}

#[test]
fn a_prompt_that_has_closed_the_reasoning_says_so() {
    let messages = [Message::new(Role::User, "Hello")];
    let arguments = |text: &str| serde_json::from_str::<TemplateArguments>(text).unwrap();
    for (name, arguments, thought) in [
        ("Qwen-Qwen3-0.6B", arguments("{}"), false),
        (
            "Qwen-Qwen3-0.6B",
            arguments(r#"{"enable_thinking":false}"#),
            true,
        ),
        ("deepseek-ai-DeepSeek-V3.1", arguments("{}"), true),
        (
            "deepseek-ai-DeepSeek-V3.1",
            arguments(r#"{"thinking":true}"#),
            false,
        ),
    ] {
        let encoded = template(name).encode_conversation(&messages, &[], &arguments);
        assert_eq!(encoded.unwrap().thought, thought, "{name} {arguments:?}");
    }
}

#[test]
fn a_prompt_that_opens_the_reasoning_says_so() {
    let messages = [Message::new(Role::User, "Hello")];
    for (name, thinks) in [
        ("MiniMax-M2", true),
        ("NVIDIA-Nemotron-Nano-v2", true),
        ("Qwen-Qwen3-0.6B", false),
        ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", false),
    ] {
        let encoded = template(name)
            .encode_conversation(&messages, &[], &none())
            .unwrap();
        assert_eq!(encoded.thinks, thinks, "{name}");
    }
}

#[test]
fn ids_of_calls_are_shortened_for_templates_that_want_them_short() {
    let golden = golden();
    let mistral = template("mistralai-Mistral-Nemo-Instruct-2407");
    let mut messages = golden.chats["called"].clone();
    let id = "call_0123456789abcdefghijABCD";
    messages[2].calls[0].id = id.into();
    messages[3].answers = Some(id.into());
    let prompt = mistral
        .render_conversation(&messages, &golden.functions, &none())
        .unwrap();
    let (_, behind) = prompt.split_once("\"id\": \"").unwrap();
    let (short, behind) = behind.split_once('"').unwrap();
    assert_eq!(short.len(), 9);
    assert!(
        behind.contains(&format!("\"call_id\": \"{short}\"")),
        "{prompt}"
    );
}

#[test]
fn a_template_that_fails_on_objects_is_given_the_text_of_arguments() {
    let golden = golden();
    let tokenizer = template("meetkai-functionary-medium-v3.2");
    let prompt = tokenizer.render_conversation(&golden.chats["called"], &golden.functions, &none());
    assert!(
        prompt
            .unwrap()
            .contains("{\"place\": \"Zürich\", \"days\": 2}")
    );
}

#[test]
fn a_model_that_has_no_word_for_tools_is_told_of_them_in_the_first_message() {
    let golden = golden();
    let described = "You can call these functions:\n\
        {\"name\": \"get_weather\", \"description\": \"The weather at a \\\"place\\\" <now>\", \"parameters\": {\"type\": \
        \"object\", \"properties\": {\"place\": {\"type\": \"string\", \"description\": \"A town\"}, \"days\": {\"type\": \
        \"integer\", \"minimum\": 1}}, \"required\": [\"place\"]}}\n\
        {\"name\": \"get_time\", \"description\": \"The time\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}\n\
        To call one, write its name and its arguments like this, and nothing after it:\n\
        <tool_call>{\"name\": \"...\", \"arguments\": {...}}</tool_call>";
    let calls = "I look.\n<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Zürich\", \"days\": 2}}</tool_call>\n\
        <tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>";
    let phi = template("microsoft-Phi-3.5-mini-instruct");
    assert_eq!(
        phi.render_conversation(&golden.chats["both"], &golden.functions, &none())
            .unwrap(),
        format!(
            "<|user|>\n{described}\n\nHow is it in Zürich?<|end|>\n<|assistant|>\n{calls}<|end|>\n<|user|>\n\
             <tool_response>\n{{\"sky\": \"sunny\"}}\n</tool_response>\n<tool_response>\n12:00\n</tool_response><|end|>\n\
             <|assistant|>\n"
        )
    );
    let json =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tokenizer.json"));
    let plain = Tokenizer::from_parts(&json.unwrap(), None, None).unwrap();
    assert_eq!(
        plain
            .render_conversation(&golden.chats["both"], &golden.functions, &none())
            .unwrap(),
        format!(
            "System: {described}\nUser: How is it in Zürich?\nAssistant: {calls}\nTool: {{\"sky\": \"sunny\"}}\n\
             Tool: 12:00\nAssistant:"
        )
    );
}

/// Whatever a field says, the special tokens of a prompt are those of the template.
#[test]
fn no_text_of_any_field_becomes_a_special_token() {
    let golden = golden();
    let json =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tokenizer.json"))
            .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let special: Vec<String> = json["added_tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| token["content"].as_str().unwrap().to_owned())
        .collect();
    let config = br#"{"bos_token": "<|bos|>", "eos_token": "<|eos|>"}"#;
    let source =
        |name: &str| std::fs::read_to_string(DIRECTORY.join(format!("{name}.jinja"))).unwrap();
    let sources = [
        None,
        Some(source("Qwen-Qwen3-0.6B")),
        Some(source("meta-llama-Llama-3.1-8B-Instruct")),
        Some(source("mistralai-Mistral-Nemo-Instruct-2407")),
        Some(source("microsoft-Phi-3.5-mini-instruct")),
        Some("{{ add_nothing }}{{ list[0] | tojson }}".to_owned()),
    ];
    for source in sources {
        let json = json.to_string();
        let tokenizer =
            Tokenizer::from_parts(json.as_bytes(), Some(config), source.as_deref()).unwrap();
        let count = |word: &str| {
            let call = Call {
                id: "abcdef123".into(),
                name: format!("get_weather{word}"),
                arguments: serde_json::json!({ format!("k{word}"): [format!("v{word}")] })
                    .to_string(),
            };
            let messages = [
                Message::new(Role::User, format!("Hello {word}")),
                Message {
                    content: String::new(),
                    reasoning: Some(format!("Hm {word}")),
                    calls: vec![call],
                    ..Message::new(Role::Assistant, "")
                },
                Message {
                    name: Some(format!("get_weather{word}")),
                    answers: Some("abcdef123".into()),
                    ..Message::new(Role::Tool, format!("Sunny {word}"))
                },
            ];
            let functions = [Function {
                name: format!("get_weather{word}"),
                description: Some(format!("Weather {word}")),
                parameters: serde_json::json!({"type": "object", "description": format!("{word}")})
                    .to_string(),
                strict: false,
            }];
            let arguments =
                serde_json::json!({"add_nothing": word, "list": [{ format!("k{word}"): word }]});
            let arguments = serde_json::from_value(arguments).unwrap();
            let prompt = tokenizer
                .encode_conversation(&messages, &functions, &arguments)
                .unwrap();
            let is_special = |id: &&u32| {
                special
                    .iter()
                    .any(|name| tokenizer.token_id(name) == Some(**id))
            };
            prompt.tokens.iter().filter(is_special).count()
        };
        let usual = count("word");
        for name in &special {
            assert_eq!(count(name), usual, "{name}");
        }
    }
    assert!(golden.chats.len() == 3 && special.len() > 10);
}
