//! Tokens that are bytes, and special ones that mean something in an answer.

use std::sync::{Arc, OnceLock};

use tidegate_text::Tokenizer;

use super::VOCABULARY;

/// The template knows of tools and writes each between tags that are special tokens here: the two of [`VOCABULARY`] that
/// stand for bytes no text has.
const TEMPLATE: &str = "{{ bos_token }}{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}\
    {% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for call in m.tool_calls or [] %}<tool_call>\
    {{ call.function | tojson }}</tool_call>{% endfor %}{% endfor %}<|assistant|>";

/// As [`super::tokenizer`], with `<tool_call>` and `</tool_call>` in the place of the bytes 0xfe and 0xff.
pub(crate) fn tagged() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let make = || with_special(TEMPLATE, &["<tool_call>", "</tool_call>"]);
    Arc::clone(TOKENIZER.get_or_init(make))
}

/// As [`super::tokenizer`], with another template, and with these special tokens in the place of the last bytes: at most
/// eleven, which stand in no text.
pub(crate) fn with_special(template: &str, names: &[&str]) -> Arc<Tokenizer> {
    with_added(template, names, true)
}

/// The same, of tokens that are special or only added.
pub(crate) fn with_added(template: &str, names: &[&str], special: bool) -> Arc<Tokenizer> {
    assert!(names.len() <= 11);
    let begins = VOCABULARY as u32 - names.len() as u32;
    let (mut tokenizer, mut config) = super::words::parts();
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    vocabulary.retain(|_, id| id.as_u64().unwrap() < u64::from(begins));
    for (id, name) in (begins..).zip(names) {
        vocabulary.insert((*name).into(), id.into());
    }
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    for (id, name) in (begins..).zip(names) {
        let mut token = added[0].clone();
        token["id"] = id.into();
        token["content"] = (*name).into();
        token["special"] = special.into();
        added.push(token);
    }
    config["chat_template"] = template.into();
    let (tokenizer, config) = (tokenizer.to_string(), config.to_string());
    Arc::new(Tokenizer::from_parts(tokenizer.as_bytes(), Some(config.as_bytes()), None).unwrap())
}

/// The tokens of an answer, tags as special tokens.
pub(crate) fn tokens_of(text: &str) -> Vec<u32> {
    tagged().encode(text).unwrap()
}
