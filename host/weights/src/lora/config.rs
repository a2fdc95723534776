//! `adapter_config.json`, as the peft library writes it (`LoraConfig`).

use std::collections::BTreeMap;
use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::LoraError;

/// Keys of variants whose numbers are other ones, or that come with tensors beside the pairs.
const REFUSED: [&str; 15] = [
    "use_dora",
    "lora_bias",
    "fan_in_fan_out",
    "modules_to_save",
    "use_qalora",
    "use_bdlora",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "alora_invocation_tokens",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
    "velora_config",
    "megatron_config",
];

/// Ways to begin training from which the base comes out as another one: its pairs are only right with that. peft's own
/// `path_initial_model_for_weight_conversion` makes plain pairs of them, and says `true` then.
const MUTATES_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

/// Most memory of all expressions of a file, compiled.
const MOST_COMPILED: usize = 32 << 20;

/// Memory that each may have however many there are: what the names of modules need.
const LEAST_COMPILED: usize = 64 << 10;

/// Longest expression of a pattern.
const MOST_PATTERN: usize = 1000;

/// Most patterns.
const MOST_PATTERNS: usize = 4096;

/// What the file says of pairs.
#[derive(Debug)]
pub(super) struct LoraConfig {
    rank: usize,
    alpha: f64,
    /// Whether the scale is by the root of the rank.
    by_root: bool,
    ranks: Vec<Pattern>,
    alphas: Vec<Pattern>,
    /// Names of the modules that are adapted; none where they are not listed.
    targets: Option<Vec<String>>,
    /// Layers that are adapted; none for all.
    layers: Option<Vec<u64>>,
}

/// A number of the modules whose names an expression matches.
#[derive(Debug)]
struct Pattern {
    text: String,
    expression: Regex,
    value: f64,
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        Value::Object(values) => !values.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

impl LoraConfig {
    pub(super) fn read(path: &Path, object: &Map<String, Value>) -> Result<LoraConfig, LoraError> {
        let wrong = |key: &str, value: &Value, limit: &str| LoraError::Key {
            path: path.to_owned(),
            key: key.to_owned(),
            value: shortened(value),
            limit: limit.to_owned(),
        };
        let of = |key: &str| object.get(key).unwrap_or(&Value::Null);
        if of("peft_type").as_str() != Some("LORA") {
            return Err(wrong("peft_type", of("peft_type"), "\"LORA\""));
        }
        for key in REFUSED {
            if is_set(of(key)) {
                return Err(wrong(
                    key,
                    of(key),
                    "left out: only plain pairs of matrices are run",
                ));
            }
        }
        let begun = of("init_lora_weights");
        let kind = begun.as_str().map(str::to_ascii_lowercase);
        if kind.is_some_and(|kind| MUTATES_BASE.iter().any(|other| kind.starts_with(other))) {
            let limit = "one that leaves its base as it is: save it with peft's \
                         path_initial_model_for_weight_conversion, which makes plain pairs of it";
            return Err(wrong("init_lora_weights", begun, limit));
        }
        let by_root = match of("use_rslora") {
            Value::Null => false,
            Value::Bool(by_root) => *by_root,
            other => return Err(wrong("use_rslora", other, "true or false")),
        };
        if !matches!(of("bias").as_str(), None | Some("none")) {
            return Err(wrong(
                "bias",
                of("bias"),
                "\"none\": biases are not adapted",
            ));
        }
        let rank = of("r").as_u64().and_then(|rank| usize::try_from(rank).ok());
        let rank = rank.filter(|rank| (1..=super::MOST_RANK).contains(rank));
        let limit = format!("between 1 and {}", super::MOST_RANK);
        let rank = rank.ok_or_else(|| wrong("r", of("r"), &limit))?;
        let alpha = of("lora_alpha").as_f64();
        let alpha = alpha.ok_or_else(|| wrong("lora_alpha", of("lora_alpha"), "a number"))?;
        let patterns = |key: &str| -> Result<Vec<Pattern>, LoraError> {
            let all = match of(key) {
                Value::Null => return Ok(Vec::new()),
                Value::Object(all) if all.len() <= MOST_PATTERNS => all,
                other => {
                    let limit = format!("an object of at most {MOST_PATTERNS} members");
                    return Err(wrong(key, other, &limit));
                }
            };
            let each_has = MOST_COMPILED / all.len().max(1);
            let each = all.iter().map(|(text, value)| {
                let number = value.as_f64();
                let value = number.ok_or_else(|| wrong(key, value, "an object of numbers"))?;
                let limit = "an object of expressions that Rust's regex crate reads too";
                let refused = || wrong(key, &Value::String(text.clone()), limit);
                if text.len() > MOST_PATTERN {
                    return Err(refused());
                }
                // `get_pattern_key` of peft: the whole name, or what follows one of its dots.
                let expression = RegexBuilder::new(&format!(r"^(?:.*\.)?(?:{text})$"))
                    .size_limit(each_has.max(LEAST_COMPILED))
                    .dfa_size_limit(LEAST_COMPILED)
                    .build();
                Ok(Pattern {
                    text: text.clone(),
                    expression: expression.map_err(|_| refused())?,
                    value,
                })
            });
            each.collect()
        };
        // An expression, or "all-linear", was matched against the names of the base as it was trained.
        let targets = match of("target_modules") {
            Value::Null | Value::String(_) => None,
            Value::Array(names) if names.iter().all(Value::is_string) => {
                let names = names.iter().filter_map(Value::as_str);
                Some(names.map(str::to_owned).collect())
            }
            other => {
                let limit = "a list of names, or an expression";
                return Err(wrong("target_modules", other, limit));
            }
        };
        let layers = match of("layers_to_transform") {
            Value::Null => None,
            Value::Number(layer) if layer.is_u64() => Some(layer.as_u64().into_iter().collect()),
            // To peft an empty list is none.
            Value::Array(all) if all.is_empty() => None,
            Value::Array(all) if all.iter().all(Value::is_u64) => {
                Some(all.iter().filter_map(Value::as_u64).collect())
            }
            other => {
                let limit = "the number of a layer, or a list of them";
                return Err(wrong("layers_to_transform", other, limit));
            }
        };
        Ok(LoraConfig {
            targets,
            layers,
            rank,
            alpha,
            by_root,
            ranks: patterns("rank_pattern")?,
            alphas: patterns("alpha_pattern")?,
        })
    }

    /// The key by which peft would leave a module of a layer as it is, if it would (`check_target_module_exists`).
    pub(super) fn leaves(&self, module: &str, layer: usize) -> Option<&'static str> {
        let named = |name: &String| {
            let before = module.strip_suffix(name.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        match (&self.targets, &self.layers) {
            (Some(targets), _) if !targets.iter().any(named) => Some("target_modules"),
            (_, Some(layers)) if !layers.contains(&(layer as u64)) => Some("layers_to_transform"),
            _ => None,
        }
    }

    /// The rank that a module must have.
    pub(super) fn rank(&self, path: &Path, module: &str) -> Result<usize, LoraError> {
        let rank = self.matched(path, ("rank_pattern", &self.ranks), module)?;
        Ok(rank.map_or(self.rank, |rank| rank as usize))
    }

    /// The `lora_alpha` of a module.
    pub(super) fn alpha(&self, path: &Path, module: &str) -> Result<f64, LoraError> {
        let alpha = self.matched(path, ("alpha_pattern", &self.alphas), module)?;
        Ok(alpha.unwrap_or(self.alpha))
    }

    /// What the product of a pair is multiplied by: alpha / rank, or alpha / sqrt(rank) (rsLoRA, Kalajdzievski 2023).
    pub(super) fn scale(&self, alpha: f64, rank: usize) -> f64 {
        match self.by_root {
            true => alpha / (rank as f64).sqrt(),
            false => alpha / rank as f64,
        }
    }

    /// What the patterns have for a module. Peft takes the first that matches; which that is the file says only where all
    /// that match say the same.
    fn matched(
        &self,
        path: &Path,
        (key, patterns): (&str, &[Pattern]),
        module: &str,
    ) -> Result<Option<f64>, LoraError> {
        let mut found: BTreeMap<u64, &Pattern> = BTreeMap::new();
        for pattern in patterns {
            if pattern.expression.is_match(module) {
                found.insert(pattern.value.to_bits(), pattern);
            }
        }
        let mut found = found.into_values();
        match (found.next(), found.next()) {
            (Some(one), Some(other)) => Err(LoraError::Key {
                path: path.to_owned(),
                key: key.to_owned(),
                value: format!(
                    "{} of {:?} and {} of {:?}",
                    one.value, one.text, other.value, other.text
                ),
                limit: format!("one number of {module}"),
            }),
            (one, _) => Ok(one.map(|pattern| pattern.value)),
        }
    }
}

/// A value for a message.
fn shortened(value: &Value) -> String {
    const MOST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
