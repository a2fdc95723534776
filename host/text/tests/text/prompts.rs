//! Messages, functions, template arguments, reasoning of earlier turns and beginnings of answers in the chat templates of
//! models: `golden/make_prompts.py` wrote what transformers makes of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tidegate_contract::{Function, Message, TemplateArguments};
use tidegate_text::Tokenizer;

use crate::published::DIRECTORY;

#[derive(Deserialize)]
struct Golden {
    functions: Vec<Function>,
    cases: BTreeMap<String, Case>,
    prompts: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Case {
    messages: Vec<Message>,
    functions: bool,
    arguments: TemplateArguments,
    begun: bool,
}

fn file(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(directory.join(name)).unwrap()
}

fn golden() -> Golden {
    serde_json::from_slice(&file("prompts.json")).unwrap()
}

fn tokenizer(template: &str) -> Tokenizer {
    let config = br#"{"bos_token": "<|bos|>", "eos_token": "<|eos|>"}"#;
    Tokenizer::from_parts(&file("tokenizer.json"), Some(config), Some(template)).unwrap()
}

fn published(name: &str) -> Tokenizer {
    tokenizer(&std::fs::read_to_string(DIRECTORY.join(format!("{name}.jinja"))).unwrap())
}

/// With today's date as the golden file has it.
fn without_date(text: &str) -> String {
    let mut text = text.to_owned();
    for format in ["%d %B %Y", "%d %b %Y", "%Y-%m-%d"] {
        let today = tokenizer(&format!("{{{{ strftime_now('{format}') }}}}"));
        let today = today.render_chat(&[]).unwrap();
        text = text.replace(&today, &format!("<{format}>"));
    }
    text
}

/// The text of tokens, special ones by their names.
fn text_of(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let mut bytes = Vec::new();
    for token in tokens {
        match tokenizer.token_bytes(*token) {
            Some(text) => bytes.extend(text),
            None => bytes.extend(tokenizer.token_name(*token).unwrap().into_bytes()),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Templates of models that think, where the beginning of an answer stands otherwise. To transformers it is the last turn of
/// the past; here it stands behind what a prompt ends with, as if the model had made it: behind thoughts that the prompt has
/// opened, which are ended, or that it says there are none of; and Qwen3 and GLM are not told that there were none where they
/// may think. With each, what ends the thoughts that its prompt has opened.
const BEGUN_OTHERWISE: [(&str, &str); 8] = [
    ("GLM-4.6", ""),
    ("MiniMax-M2", ENDS_THOUGHTS),
    ("NVIDIA-Nemotron-Nano-v2", ENDS_THOUGHTS),
    ("Qwen-QwQ-32B", ""),
    ("Qwen-Qwen3-0.6B", ""),
    ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", ENDS_THOUGHTS),
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", ""),
    ("google-gemma-4-31B-it", ""),
];

const ENDS_THOUGHTS: &str = "\n</think>\n\n";

/// Templates with marks around an answer that are not known here (`<|START_RESPONSE|>`, `<|content|>`): an answer is not begun as their
/// makers do. No model of theirs can be loaded.
const OTHER_MARKS: [&str; 2] = [
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "upstage-Solar-Open-100B",
];

/// Whether an answer is begun otherwise than transformers does.
fn begins_otherwise(name: &str) -> bool {
    BEGUN_OTHERWISE.iter().any(|(other, _)| *other == name) || OTHER_MARKS.contains(&name)
}

#[test]
fn prompts_are_those_of_transformers_with_every_kind_of_turn_and_argument() {
    let golden = golden();
    let (mut cases, mut differ) = (0, Vec::new());
    for (name, prompts) in &golden.prompts {
        let tokenizer = published(name);
        for (case, wanted) in prompts {
            let Case {
                messages,
                functions,
                arguments,
                begun,
            } = &golden.cases[case];
            let functions: &[Function] = if *functions { &golden.functions } else { &[] };
            let made = match (begun, messages.split_last()) {
                (true, Some((last, before))) => {
                    let encoded = tokenizer.encode_continued(before, last, functions, arguments);
                    encoded.map(|encoded| text_of(&tokenizer, &encoded.tokens))
                }
                _ => tokenizer.render_conversation(messages, functions, arguments),
            };
            cases += 1;
            let made = made.map(|text| without_date(&text));
            if case == "begun" {
                let otherwise = begins_otherwise(name);
                assert_eq!(made.as_ref() != Ok(wanted), otherwise, "{name}: {made:?}");
            }
            let otherwise = *begun && begins_otherwise(name);
            if !otherwise && made.as_ref() != Ok(wanted) {
                differ.push(format!(
                    "{name} {case}:\n  got  {made:?}\n  want {wanted:?}"
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
    assert_eq!(cases, 249);
}

/// What transformers ends a prompt with is the same whether an answer was begun or not.
#[test]
fn an_answer_begun_of_a_model_that_thinks_stands_behind_the_prompt_of_transformers() {
    let golden = golden();
    for (name, end) in BEGUN_OTHERWISE {
        let tokenizer = published(name);
        for (case, without) in [
            ("begun", "without_system"),
            ("begun_not_thinking", "not_thinking"),
        ] {
            let Case {
                messages,
                arguments,
                ..
            } = &golden.cases[case];
            let (begun, before) = messages.split_last().unwrap();
            // The same turns without the last, in the prompt of an answer that is not begun.
            assert_eq!(before, golden.cases[without].messages, "{name} {without}");
            let made = tokenizer.encode_continued(before, begun, &[], arguments);
            let made = without_date(&text_of(&tokenizer, &made.unwrap().tokens));
            let prompt = &golden.prompts[name][without];
            let wanted = format!("{prompt}{end}{}", begun.content);
            assert_eq!(made, wanted, "{name} {case}");
        }
    }
}
