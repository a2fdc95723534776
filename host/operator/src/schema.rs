//! The schema of an operator's configuration, and a configuration held against it.
//!
//! Both come from elsewhere, and a short schema can be long work: twice the same reference at each of thirty levels is a
//! billion checks. So what a check would do is counted first, along the configuration at hand, and one that is too long
//! or too deep is refused. A schema refers to nothing outside itself, and its regular expressions are small.

use std::collections::HashMap;
use std::error::Error;

use boon::{
    CompileError, Compiler, Draft, ErrorKind, InstanceToken, SchemaIndex, Schemas, ValidationError,
};
use serde_json::{Map, Value};
use tidegate_telemetry::plain;

use crate::limits::size;
use crate::panics::caught;

/// What checking a configuration may take, in visits of a schema and parts that are compared.
const STEPS: usize = 100_000;
/// How deep schemas are visited within one another, references included.
const DEPTH: usize = 128;
/// Schemas of a schema, itself included: compiling one takes their square.
const PARTS: usize = 2000;
/// Regular expressions of a schema.
const PATTERNS: usize = 64;
/// Bytes of a regular expression.
const PATTERN_BYTES: usize = 1 << 10;
/// Bytes that one of them compiles to.
const COMPILED_BYTES: usize = 1 << 20;
/// Mistakes of a configuration that are looked for, that are told, and bytes of each.
const MISTAKES: usize = 64;
const TOLD: usize = 4;
const TOLD_BYTES: usize = 512;

/// The only dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// By what the schema is known while it is compiled.
const PLACE: &str = "https://tidegate.invalid/config-schema";

/// Whether a text is a schema that configurations can be held against.
pub(crate) fn check(text: &str) -> Result<(), String> {
    caught(|| ConfigSchema::read(text).map(drop)).unwrap_or_else(Err)
}

/// Holds a configuration against a schema. An error names each key that is wrong, and what is expected there.
pub(crate) fn check_config(schema: &str, config: &str) -> Result<(), String> {
    caught(|| {
        let config: Value = serde_json::from_str(config)
            .map_err(|error| format!("the configuration is not JSON: {error}"))?;
        ConfigSchema::read(schema)?.hold(&config)
    })
    .unwrap_or_else(Err)
}

/// A schema that is compiled.
struct ConfigSchema {
    json: Value,
    schemas: Schemas,
    index: SchemaIndex,
}

impl ConfigSchema {
    fn read(text: &str) -> Result<ConfigSchema, String> {
        let wrong = |why: String| format!("its configuration schema {why}");
        let json: Value = serde_json::from_str(text)
            .map_err(|error| wrong(format!("is not JSON: {}", plain(&error.to_string(), 256))))?;
        if !json.is_object() {
            return Err(wrong("is not an object".into()));
        }
        Parts::default().look(&json).map_err(wrong)?;
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.use_loader(Box::new(Nothing));
        let mut schemas = Schemas::new();
        let none = |error: CompileError| wrong(format!("is none: {}", told(&error)));
        compiler.add_resource(PLACE, json.clone()).map_err(none)?;
        let index = compiler.compile(PLACE, &mut schemas).map_err(none)?;
        Ok(ConfigSchema {
            json,
            schemas,
            index,
        })
    }

    fn hold(&self, config: &Value) -> Result<(), String> {
        let wrong = |why: String| format!("its configuration schema {why}");
        let mut work = Work {
            root: &self.json,
            anchors: anchors(&self.json).map_err(wrong)?,
            left: STEPS,
        };
        work.visit(&self.json, config, 0).map_err(wrong)?;
        let Err(error) = self.schemas.validate(config, self.index) else {
            return Ok(());
        };
        let mut mistakes = Vec::new();
        leaves(&error, ("config", &self.json), &mut mistakes);
        let more = mistakes.len().saturating_sub(TOLD);
        mistakes.truncate(TOLD);
        let mut text = mistakes.join("; ");
        if more > 0 {
            text += &format!("; and {more} more");
        }
        Err(text)
    }
}

/// Nothing is loaded from elsewhere.
struct Nothing;

impl boon::UrlLoader for Nothing {
    fn load(&self, _: &str) -> Result<Value, Box<dyn Error>> {
        Err("it refers to something outside itself".into())
    }
}

/// What the compiler of schemas says, without the place by which it knows this one.
fn told(error: &CompileError) -> String {
    let text = match error {
        CompileError::ValidationError { src, .. } => {
            let mut mistakes = Vec::new();
            leaves(src, ("", &Value::Null), &mut mistakes);
            mistakes.truncate(TOLD);
            mistakes.join("; ")
        }
        other => other.to_string(),
    };
    plain(&text.replace(PLACE, ""), TOLD_BYTES).into_owned()
}

/// The mistakes at the ends of a tree of causes: of what is called `root`, by this schema.
fn leaves(
    error: &ValidationError<'_, '_>,
    (root, schema): (&str, &Value),
    mistakes: &mut Vec<String>,
) {
    for cause in &error.causes {
        leaves(cause, (root, schema), mistakes);
    }
    if !error.causes.is_empty() || mistakes.len() == MISTAKES {
        return;
    }
    let mut path = root.to_owned();
    for token in &error.instance_location.tokens {
        match token {
            InstanceToken::Prop(name) if path.is_empty() => path += name,
            InstanceToken::Prop(name) => path = path + "." + name,
            InstanceToken::Item(index) => path += &format!("[{index}]"),
        }
    }
    let mut mistake = format!("{path}: {}", error.kind);
    if let ErrorKind::AdditionalProperties { .. } = error.kind
        && let Some(keys) = keys(schema, error.schema_url)
    {
        mistake += &keys;
    }
    let mistake = plain(&mistake, TOLD_BYTES).into_owned();
    // Several branches of a choice may say the same.
    if !mistakes.contains(&mistake) {
        mistakes.push(mistake);
    }
}

/// `; there are language, rules`: the keys that the part of a schema at this place has; none where it takes others by a
/// pattern as well.
fn keys(schema: &Value, place: &str) -> Option<String> {
    let (_, pointer) = place.split_once('#')?;
    let part = schema.pointer(&decoded(pointer)?)?;
    if part.get("patternProperties").is_some() {
        return None;
    }
    let keys = part.get("properties").and_then(Value::as_object);
    let keys: Vec<&str> = keys?.keys().map(String::as_str).collect();
    (!keys.is_empty()).then(|| format!("; there are {}", keys.join(", ")))
}

/// A fragment of a URL without its percent-encoding.
fn decoded(fragment: &str) -> Option<String> {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// What a keyword's value has of schemas. All else is data, whatever it looks like: a default, an enumeration, an example.
enum Holds<'a> {
    Nothing,
    /// It is a schema.
    One(&'a Value),
    /// Its items are schemas.
    List(&'a [Value]),
    /// Its members are schemas, by names that are data.
    Named(&'a Map<String, Value>),
}

fn holds<'a>(keyword: &str, value: &'a Value) -> Holds<'a> {
    match (keyword, value) {
        ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
            Holds::List(schemas)
        }
        (
            "$defs" | "definitions" | "properties" | "patternProperties" | "dependentSchemas"
            | "dependencies",
            Value::Object(schemas),
        ) => Holds::Named(schemas),
        (
            "not"
            | "if"
            | "then"
            | "else"
            | "propertyNames"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "items"
            | "unevaluatedItems"
            | "additionalItems"
            | "contains"
            | "contentSchema",
            schema,
        ) => Holds::One(schema),
        _ => Holds::Nothing,
    }
}

/// The schemas in a keyword's value.
fn within<'a>(keyword: &str, value: &'a Value) -> Box<dyn Iterator<Item = &'a Value> + 'a> {
    match holds(keyword, value) {
        Holds::Nothing => Box::new(std::iter::empty()),
        Holds::One(schema) => Box::new(std::iter::once(schema)),
        Holds::List(schemas) => Box::new(schemas.iter()),
        Holds::Named(schemas) => Box::new(schemas.values()),
    }
}

/// Looks through a schema for what it may not have, wherever it is in it.
#[derive(Default)]
struct Parts {
    all: usize,
    patterns: usize,
}

impl Parts {
    fn look(&mut self, schema: &Value) -> Result<(), String> {
        self.all += 1;
        if self.all > PARTS {
            return Err(format!("has more than {PARTS} schemas, which is the limit"));
        }
        let Value::Object(members) = schema else {
            return Ok(());
        };
        for (key, value) in members {
            self.member(key, value)?;
            within(key, value).try_for_each(|schema| self.look(schema))?;
        }
        Ok(())
    }

    fn member(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match (key, value) {
            ("pattern", Value::String(pattern)) => self.pattern(pattern),
            ("patternProperties", Value::Object(by_pattern)) => {
                by_pattern.keys().try_for_each(|key| self.pattern(key))
            }
            ("$ref" | "$dynamicRef", Value::String(reference)) if !is_local(reference) => {
                let reference = plain(reference, 128);
                Err(format!(
                    "refers to \"{reference}\", and may refer to #, #ANCHOR and #/$defs/NAME alone"
                ))
            }
            ("$schema", Value::String(dialect)) if dialect.trim_end_matches('#') != DIALECT => {
                let dialect = plain(dialect, 128);
                Err(format!("has the dialect \"{dialect}\", expected {DIALECT}"))
            }
            // Parts with a name of their own would change what references mean.
            ("$id", Value::String(_)) => Err("has an $id, which it may not have".into()),
            _ => Ok(()),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), String> {
        self.patterns += 1;
        if self.patterns > PATTERNS {
            return Err(format!(
                "has more than {PATTERNS} regular expressions, which is the limit"
            ));
        }
        let shown = plain(pattern, 64);
        if pattern.len() > PATTERN_BYTES {
            let bytes = pattern.len();
            return Err(format!(
                "has a regular expression of {bytes} bytes, limit {PATTERN_BYTES}: \"{shown}\""
            ));
        }
        let built = regex::RegexBuilder::new(pattern)
            .size_limit(COMPILED_BYTES)
            .dfa_size_limit(COMPILED_BYTES)
            .build();
        match built {
            Ok(_) => Ok(()),
            Err(regex::Error::CompiledTooBig(_)) => Err(format!(
                "has the regular expression \"{shown}\", which takes more than {}",
                size(COMPILED_BYTES)
            )),
            Err(error) => {
                let error = error.to_string();
                let why = plain(error.lines().last().unwrap_or_default(), 128).into_owned();
                Err(format!("has the regular expression \"{shown}\": {why}"))
            }
        }
    }
}

/// Whether a reference is to the schema itself, or to a part of it that has a name. What lies elsewhere in it would be
/// looked at anew with each reference.
fn is_local(reference: &str) -> bool {
    let defined = reference.strip_prefix("#/$defs/");
    let name = defined.or_else(|| reference.strip_prefix('#'));
    name.is_some_and(|name| !name.contains(['/', '%']))
}

/// Parts of a schema by their names, of which each is there once.
fn anchors(root: &Value) -> Result<HashMap<&str, &Value>, String> {
    let mut found = HashMap::new();
    let mut open = vec![root];
    while let Some(schema) = open.pop() {
        let Value::Object(members) = schema else {
            continue;
        };
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(name)) = members.get(key)
                && found.insert(name.as_str(), schema).is_some()
            {
                let name = plain(name, 128);
                return Err(format!("has the anchor \"{name}\" twice"));
            }
        }
        open.extend(members.iter().flat_map(|(key, value)| within(key, value)));
    }
    Ok(found)
}

/// Counts what checking a configuration takes: never less than the checker visits, which stops at the first mistake of
/// a part where this goes on.
struct Work<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    left: usize,
}

impl<'a> Work<'a> {
    fn step(&mut self, steps: usize) -> Result<(), String> {
        let left = self.left.checked_sub(steps);
        self.left = left.ok_or_else(|| {
            format!("takes more than {STEPS} steps for this configuration, which is the limit")
        })?;
        Ok(())
    }

    fn visit(&mut self, schema: &'a Value, config: &Value, depth: usize) -> Result<(), String> {
        if depth > DEPTH {
            return Err(format!("goes deeper than {DEPTH}, which is the limit"));
        }
        self.step(1)?;
        let Value::Object(keywords) = schema else {
            return Ok(());
        };
        for (keyword, value) in keywords {
            self.step(1)?;
            self.keyword(keyword, value, config, depth + 1)?;
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        config: &Value,
        depth: usize,
    ) -> Result<(), String> {
        match (keyword, value) {
            ("$ref" | "$dynamicRef", Value::String(reference)) => match self.resolve(reference) {
                Some(schema) => self.visit(schema, config, depth),
                None => {
                    let reference = plain(reference, 128);
                    Err(format!("refers to \"{reference}\", which it does not have"))
                }
            },
            ("uniqueItems", _) => match config {
                Value::Array(items) => self.step(parts(config).saturating_mul(items.len())),
                _ => Ok(()),
            },
            ("pattern", _) => self.step(config.as_str().map_or(0, str::len)),
            // Characters are counted.
            ("minLength" | "maxLength", _) => self.step(parts(config)),
            ("enum" | "const" | "required" | "dependentRequired", value) => self.step(parts(value)),
            _ => self.schemas(keyword, holds(keyword, value), config, depth),
        }
    }

    fn schemas(
        &mut self,
        keyword: &str,
        held: Holds<'a>,
        config: &Value,
        depth: usize,
    ) -> Result<(), String> {
        match (keyword, held) {
            // Nothing is held against them where they stand.
            (_, Holds::Nothing) | ("$defs" | "definitions" | "contentSchema", _) => Ok(()),
            ("properties", Holds::Named(schemas)) => {
                self.step(schemas.len())?;
                schemas.iter().try_for_each(|(name, schema)| {
                    let member = config.as_object().and_then(|members| members.get(name));
                    member.map_or(Ok(()), |member| self.visit(schema, member, depth))
                })
            }
            ("patternProperties", Holds::Named(schemas)) => schemas
                .values()
                .try_for_each(|schema| self.children(schema, config, depth)),
            ("propertyNames", Holds::One(schema)) => match config {
                Value::Object(members) => members
                    .keys()
                    .try_for_each(|name| self.visit(schema, &Value::String(name.clone()), depth)),
                _ => Ok(()),
            },
            ("prefixItems", Holds::List(schemas)) => match config {
                Value::Array(items) => schemas
                    .iter()
                    .zip(items)
                    .try_for_each(|(schema, item)| self.visit(schema, item, depth)),
                _ => Ok(()),
            },
            ("not" | "if" | "then" | "else", Holds::One(schema)) => {
                self.visit(schema, config, depth)
            }
            (_, Holds::One(schema)) => self.children(schema, config, depth),
            (_, Holds::List(schemas)) => schemas
                .iter()
                .try_for_each(|schema| self.visit(schema, config, depth)),
            (_, Holds::Named(schemas)) => schemas
                .values()
                .try_for_each(|schema| self.visit(schema, config, depth)),
        }
    }

    fn children(&mut self, schema: &'a Value, config: &Value, depth: usize) -> Result<(), String> {
        match config {
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                // Names are held against regular expressions.
                self.step(name.len())?;
                self.visit(schema, member, depth)
            }),
            Value::Array(items) => items
                .iter()
                .try_for_each(|item| self.visit(schema, item, depth)),
            _ => Ok(()),
        }
    }

    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        let fragment = reference.strip_prefix('#')?;
        match fragment.is_empty() || fragment.starts_with('/') {
            true => self.root.pointer(fragment),
            false => self.anchors.get(fragment).copied(),
        }
    }
}

/// What comparing a value takes.
fn parts(value: &Value) -> usize {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| 1 + name.len() / 64 + parts(value))
            .sum(),
        Value::Array(items) => 1 + items.iter().map(parts).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 64,
        _ => 1,
    }
}
