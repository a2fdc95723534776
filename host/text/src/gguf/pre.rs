//! How byte-level BPE splits a text before it merges: what the names under `tokenizer.ggml.pre` stand for.
//!
//! Sources: `llm_tokenizer_bpe` of llama.cpp's `llama-vocab.cpp`, where its patterns are those of the models'
//! `tokenizer.json`, and the latter for what that leaves out (NFC).

use serde_json::{Value, json};

/// The split of GPT-2.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// cl100k's, of Llama 3: numbers in threes.
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with each digit alone.
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Mistral's: words by their case.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// o200k's, of GPT-4o and Llama 4: words by their case, with their endings.
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Letters with two cases, as DeepSeek LLM lists them.
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
/// Punctuation, as DeepSeek LLM lists it.
const DEEPSEEK_PUNCTUATION: &str = r"\s?[!-/:-~！-／：-～‘-‟　-。]+";
/// Scripts that are written without spaces, as DeepSeek lists them.
const DEEPSEEK_SCRIPTS: &str = r"[一-龥ࠀ-一가-퟿]+";

/// Most characters of an unknown name that are told.
const LONGEST_TOLD: usize = 80;

/// Every name that is known.
pub(super) const NAMES: [&str; 29] = [
    "default",
    "gpt-2",
    "phi-2",
    "mpt",
    "olmo",
    "jais",
    "llama-bpe",
    "llama3",
    "llama-v3",
    "falcon3",
    "falcon-h1",
    "lfm2",
    "pixtral",
    "dbrx",
    "smaug-bpe",
    "gpt-4o",
    "llama4",
    "qwen2",
    "megrez",
    "deepseek-r1-qwen",
    "stablelm2",
    "smollm",
    "starcoder",
    "refact",
    "command-r",
    "falcon",
    "deepseek-llm",
    "deepseek-coder",
    "tekken",
];

/// A way to split.
#[derive(Debug)]
pub(super) struct Pre {
    pub(super) normalizer: Value,
    pub(super) splits: Value,
    /// A piece that is a token as a whole is that token, whatever the merges say.
    pub(super) whole_words: bool,
    /// A prompt begins with `bos` if the file does not say.
    pub(super) begins: bool,
}

/// What a name stands for; the error says what is known.
pub(super) fn named(name: &str) -> Result<Pre, String> {
    let mut pre = Pre {
        normalizer: Value::Null,
        splits: Value::Null,
        whole_words: false,
        begins: false,
    };
    let digits = json!({"type": "Digits", "individual_digits": true});
    pre.splits = match name {
        "gpt-2" | "phi-2" | "mpt" | "olmo" | "jais" => sequence(vec![split(GPT_2)]),
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "lfm2" | "pixtral" => {
            (pre.whole_words, pre.begins) = (true, true);
            sequence(vec![split(LLAMA_3)])
        }
        "dbrx" | "smaug-bpe" => sequence(vec![split(LLAMA_3)]),
        "gpt-4o" | "llama4" => sequence(vec![split(GPT_4O)]),
        "qwen2" | "megrez" | "deepseek-r1-qwen" | "stablelm2" => {
            // As their tokenizer.json has it.
            pre.normalizer = json!({"type": "NFC"});
            sequence(vec![split(QWEN_2)])
        }
        "smollm" | "starcoder" | "refact" => sequence(vec![digits, split(GPT_2)]),
        "command-r" => {
            pre.normalizer = json!({"type": "NFC"});
            sequence(vec![digits, split(GPT_2)])
        }
        "falcon" => sequence(vec![
            split(r"[\p{P}\$\+<=>\^~\|`]+"),
            split(GPT_2),
            split("[0-9][0-9][0-9]"),
        ]),
        "deepseek-llm" => sequence(vec![
            split(r"[\r\n]"),
            split(DEEPSEEK_LETTERS),
            split(DEEPSEEK_PUNCTUATION),
            split(r"\s+$"),
            split(DEEPSEEK_SCRIPTS),
            split(r"\p{N}+"),
        ]),
        "deepseek-coder" => sequence(vec![
            split(r"[\r\n]"),
            split(r"\s?\p{L}+"),
            split(r"\s?\p{P}+"),
            split(DEEPSEEK_SCRIPTS),
            split(r"\p{N}"),
        ]),
        "tekken" => {
            (pre.whole_words, pre.begins) = (true, true);
            sequence(vec![split(TEKKEN)])
        }
        // A name too, which llama.cpp also takes where a file has none.
        "default" => sequence(vec![
            split(r"[\p{P}\$\+<=>\^~\|]+"),
            split(GPT_2),
            split(r"\p{N}+"),
            split("[0-9][0-9][0-9]"),
        ]),
        other => {
            let other: String = other.chars().take(LONGEST_TOLD).collect();
            return Err(format!(
                "{other:?} is not known, only {} are",
                NAMES.join(", ")
            ));
        }
    };
    Ok(pre)
}

fn split(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

/// The splits one after the other, then the bytes as characters.
fn sequence(mut parts: Vec<Value>) -> Value {
    parts.push(json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}));
    json!({"type": "Sequence", "pretokenizers": parts})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_said_is_known() {
        for name in NAMES {
            assert!(named(name).is_ok(), "{name}");
        }
        // As llama.cpp has it where a file does not say.
        let begins = NAMES.iter().filter(|name| named(name).unwrap().begins);
        assert_eq!(
            begins.copied().collect::<Vec<_>>(),
            [
                "llama-bpe",
                "llama3",
                "llama-v3",
                "falcon3",
                "falcon-h1",
                "lfm2",
                "pixtral",
                "tekken"
            ]
        );
        let refused = named("poro-chat").unwrap_err();
        assert!(refused.starts_with("\"poro-chat\" is not known, only default, gpt-2, phi-2"));
    }
}
