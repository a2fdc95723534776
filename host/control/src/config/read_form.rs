//! Reads what shapes an answer: the form it must have, and the tokens that are made likelier or less so.

use tidegate_contract::Structure;
use toml::de::DeValue;

use super::findings::Findings;
use super::models::BiasedToken;
use super::read_stage::json;
use super::reader::{Table, Value};
use super::text::Span;
use super::typed::TypedStructure;

/// A list of `{ text = "yes", bias = 5.0 }` or `{ id = 123, bias = -100.0 }`.
pub(crate) fn read_bias(table: &Table<'_>) -> Vec<(BiasedToken, f32)> {
    let Some(value) = table.get("logit-bias") else {
        return Vec::new();
    };
    let DeValue::Array(entries) = value.raw else {
        value.wrong(
            table.found,
            "a list",
            "[{ text = \"yes\", bias = 5.0 }, { id = 123, bias = -100.0 }]",
        );
        return Vec::new();
    };
    let mut bias: Vec<(BiasedToken, f32)> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let entry = Value {
            raw: entry.get_ref(),
            place: Span(entry.span()),
            key: format!("{}[{}]", value.key, number + 1),
        };
        let Some(entry) = entry.table(table.found) else {
            continue;
        };
        let token = match (entry.get("text"), entry.get("id")) {
            (Some(_), None) => entry
                .string("text")
                .map(|typed| BiasedToken::Text(typed.value)),
            (None, Some(_)) => entry
                .number("id", 0..=u64::from(u32::MAX))
                .map(|typed| BiasedToken::Id(typed.value as u32)),
            _ => {
                entry.found.mistake(
                    &entry.place,
                    &entry.key,
                    "names one token: by text, or by id",
                );
                None
            }
        };
        let amount = entry.real(
            "bias",
            |bias| (-100.0..=100.0).contains(&bias),
            "-100.0 to 100.0",
        );
        if entry.get("bias").is_none() {
            entry.missing("bias", "bias = 5.0, which is added to the logit");
        }
        if let Some(token) = &token
            && bias.iter().any(|(other, _)| other == token)
        {
            entry
                .found
                .mistake(&entry.place, &entry.key, "names a token a second time");
        }
        if let (Some(token), Some(amount)) = (token, amount) {
            bias.push((token, amount.value as f32));
        }
        entry.finish();
    }
    bias
}

/// What an answer must be: `schema`, `regex`, `choices` or `grammar`.
pub(crate) fn read_structure(table: &Table<'_>) -> Option<TypedStructure> {
    let given: Vec<Value<'_>> = ["schema", "regex", "choices", "grammar"]
        .into_iter()
        .filter_map(|name| table.get(name))
        .collect();
    if let [_, .., last] = given.as_slice() {
        table.found.mistake(
            &last.place,
            &last.key,
            "an answer has one form: leave one of schema, regex, choices and grammar",
        );
    }
    if let Some(value) = table.get("schema") {
        return match value.raw {
            DeValue::Table(_) => Some(TypedStructure::Here(Structure::JsonSchema(json_in_order(
                &value,
                table.found,
            )))),
            DeValue::String(_) => value.string(table.found).map(TypedStructure::SchemaFile),
            _ => {
                value.wrong(
                    table.found,
                    "a JSON Schema or the path of one",
                    "\"answer.schema.json\"",
                );
                None
            }
        };
    }
    if table.get("regex").is_some() {
        let typed = table.string("regex")?;
        if typed.value.is_empty() {
            table
                .found
                .about(&typed, "is empty; write for example \"[0-9]{4}\"");
        }
        return Some(TypedStructure::Here(Structure::Regex(typed.value)));
    }
    if table.get("choices").is_some() {
        let choices = table.strings("choices")?;
        if choices.is_empty() {
            let value = table.get("choices")?;
            table.found.mistake(
                &value.place,
                &value.key,
                "is empty; write for example [\"yes\", \"no\"]",
            );
        }
        for (index, choice) in choices.iter().enumerate() {
            if choice.value.is_empty() {
                table.found.about(choice, "\"\" is no answer; leave it out");
            } else if choices[..index]
                .iter()
                .any(|other| other.value == choice.value)
            {
                table
                    .found
                    .about(choice, format!("{:?} stands here twice", choice.value));
            }
        }
        let choices = choices.into_iter().map(|typed| typed.value).collect();
        return Some(TypedStructure::Here(Structure::Choice(choices)));
    }
    table.string("grammar").map(TypedStructure::GrammarFile)
}

/// A TOML value as JSON text, its keys in the order of the file: properties of an answer come in the schema's order.
fn json_in_order(value: &Value<'_>, found: &Findings) -> String {
    let inner = |raw, span, key: String| {
        let place = Span(span);
        json_in_order(&Value { raw, place, key }, found)
    };
    match value.raw {
        DeValue::Table(table) => {
            let mut entries: Vec<_> = table.iter().collect();
            entries.sort_by_key(|(name, _)| name.span().start);
            let entries = entries.into_iter().map(|(name, each)| {
                let name: &str = name.get_ref();
                let key = format!("{}.{name}", value.key);
                let shown = serde_json::Value::from(name);
                format!("{shown}:{}", inner(each.get_ref(), each.span(), key))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        DeValue::Array(values) => {
            let values = values
                .iter()
                .map(|each| inner(each.get_ref(), each.span(), value.key.clone()));
            format!("[{}]", values.collect::<Vec<_>>().join(","))
        }
        _ => json(value, found).to_string(),
    }
}
