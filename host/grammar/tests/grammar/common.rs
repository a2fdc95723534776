//! A vocabulary of bytes and parts of JSON, walks through masks, and a plain judge of JSON Schema.

use regex::Regex;
use serde_json::Value;
use tidegate_grammar::{Compiler, GrammarError, Matcher, Vocabulary};

pub(crate) const END: u32 = 0;
pub(crate) const OTHER_END: u32 = 300;
/// The token of byte 0.
pub(crate) const FIRST_BYTE: u32 = 2;

/// Token 0 and 300 end a text, 1 is special; then the bytes, parts of JSON, and parts of characters, some twice.
pub(crate) fn tokens() -> Vec<Option<Vec<u8>>> {
    let mut tokens = vec![None, None];
    tokens.extend((0..=255u8).map(|byte| Some(vec![byte])));
    let parts: [&[u8]; 24] = [
        b"{\"",
        b"\":",
        b"\": ",
        b"\",",
        b"\", \"",
        b"\"}",
        b"[",
        b"[[",
        b"]]",
        b"true",
        b"false",
        b"null",
        b"12",
        b"-1",
        b"0.5",
        b"name",
        b"  ",
        b"\n    ",
        b"\\u00",
        b"e\xcc",
        "é".as_bytes(),
        &"😀".as_bytes()[..2],
        &"😀".as_bytes()[1..],
        b"12",
    ];
    tokens.extend(parts.iter().map(|part| Some(part.to_vec())));
    while tokens.len() < OTHER_END as usize {
        tokens.push(None);
    }
    tokens.push(Some(b"x".to_vec()));
    tokens
}

pub(crate) fn compiler() -> Compiler {
    Compiler::new(Vocabulary::new(tokens(), &[END, OTHER_END]).unwrap())
}

pub(crate) fn byte_token(byte: u8) -> u32 {
    FIRST_BYTE + u32::from(byte)
}

pub(crate) fn allowed(matcher: &mut Matcher, words: usize) -> Result<Vec<u32>, GrammarError> {
    let mut mask = vec![u32::MAX; words];
    matcher.mask(&mut mask)?;
    let set = |token: &u32| mask[*token as usize / 32] >> (token % 32) & 1 == 1;
    Ok((0..words as u32 * 32).filter(set).collect())
}

/// SplitMix64 (Steele et al. 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Takes random allowed tokens until the end; after `free` tokens those that close something go first. Panics if a mask
/// is empty or an allowed token is refused.
pub(crate) fn walk(
    matcher: &mut Matcher,
    tokens: &[Option<Vec<u8>>],
    ends: &[u32],
    seed: u64,
    free: usize,
) -> Vec<u8> {
    let mut random = Random(seed);
    let mut text = Vec::new();
    let words = tokens.len().div_ceil(32);
    for step in 0.. {
        assert!(
            step < 20_000,
            "no end after {:?}",
            String::from_utf8_lossy(&text)
        );
        let allowed = allowed(matcher, words).unwrap();
        assert!(
            !allowed.is_empty(),
            "dead end after {:?}",
            String::from_utf8_lossy(&text)
        );
        let may_end = allowed.contains(&ends[0]);
        assert_eq!(may_end, matcher.may_end().unwrap());
        assert!(ends.iter().all(|end| allowed.contains(end) == may_end));
        let closing = |bytes: &[u8]| {
            allowed
                .iter()
                .copied()
                .find(|token| tokens[*token as usize].as_deref() == Some(bytes))
        };
        let token = if may_end && (step >= free || random.below(4) == 0) {
            ends[random.below(ends.len())]
        } else if step >= free {
            [&b"\""[..], b"}", b"]", b",", b":"]
                .into_iter()
                .find_map(closing)
                .unwrap_or_else(|| allowed[random.below(allowed.len())])
        } else {
            allowed[random.below(allowed.len())]
        };
        matcher.accept(token).unwrap();
        if ends.contains(&token) {
            assert!(matcher.ended());
            return text;
        }
        text.extend(tokens[token as usize].as_deref().unwrap());
    }
    text
}

/// Whether a value is what a schema says, for the keywords that the tests' schemas use; any other panics.
pub(crate) fn is_valid(value: &Value, schema: &Value, root: &Value) -> bool {
    let Value::Object(fields) = schema else {
        return schema.as_bool().unwrap();
    };
    fields
        .iter()
        .all(|(keyword, wanted)| match keyword.as_str() {
            "$defs" | "title" | "description" => true,
            "$ref" => {
                let path = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                is_valid(value, root.pointer(path).unwrap(), root)
            }
            "type" => match wanted {
                Value::Array(types) => types
                    .iter()
                    .any(|one| is_type(value, one.as_str().unwrap())),
                one => is_type(value, one.as_str().unwrap()),
            },
            "enum" => wanted.as_array().unwrap().contains(value),
            "const" => value == wanted,
            "anyOf" => wanted
                .as_array()
                .unwrap()
                .iter()
                .any(|one| is_valid(value, one, root)),
            "allOf" => wanted
                .as_array()
                .unwrap()
                .iter()
                .all(|one| is_valid(value, one, root)),
            "pattern" => value
                .as_str()
                .is_none_or(|text| Regex::new(wanted.as_str().unwrap()).unwrap().is_match(text)),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 >= wanted.as_u64().unwrap()),
            "maxLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 <= wanted.as_u64().unwrap()),
            "minimum" => value
                .as_f64()
                .is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "maximum" => value
                .as_f64()
                .is_none_or(|number| number <= wanted.as_f64().unwrap()),
            "exclusiveMaximum" => value
                .as_f64()
                .is_none_or(|number| number < wanted.as_f64().unwrap()),
            "multipleOf" => value
                .as_i64()
                .is_none_or(|number| number % wanted.as_i64().unwrap() == 0),
            "minItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 >= wanted.as_u64().unwrap()),
            "maxItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 <= wanted.as_u64().unwrap()),
            "prefixItems" => value.as_array().is_none_or(|items| {
                items
                    .iter()
                    .zip(wanted.as_array().unwrap())
                    .all(|(item, one)| is_valid(item, one, root))
            }),
            "items" => {
                let first = fields
                    .get("prefixItems")
                    .and_then(Value::as_array)
                    .map_or(0, Vec::len);
                value.as_array().is_none_or(|items| {
                    items
                        .iter()
                        .skip(first)
                        .all(|item| is_valid(item, wanted, root))
                })
            }
            "required" => value.as_object().is_none_or(|object| {
                wanted
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|name| object.contains_key(name.as_str().unwrap()))
            }),
            "properties" => value.as_object().is_none_or(|object| {
                let named = |name: &String, one: &Value| {
                    object
                        .get(name)
                        .is_none_or(|value| is_valid(value, one, root))
                };
                wanted
                    .as_object()
                    .unwrap()
                    .iter()
                    .all(|(name, one)| named(name, one))
            }),
            "additionalProperties" => value.as_object().is_none_or(|object| {
                let known = |name: &str| {
                    fields
                        .get("properties")
                        .is_some_and(|known| known.get(name).is_some())
                };
                object
                    .iter()
                    .all(|(name, value)| known(name) || is_valid(value, wanted, root))
            }),
            other => panic!("the judge does not know {other}"),
        })
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}
