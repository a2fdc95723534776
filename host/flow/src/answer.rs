//! What an answer does to its record.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_contract::{Answer, Choice, Finish, Made, Structure, TokenLogprob};
use tidegate_record::{Change, MAX_PAIRS, PatchBuilder, RecordId};

use crate::asked::{self, Wants};
use crate::entry::{Entry, UNKNOWN_MODEL};
use crate::feeding;
use crate::ranking::ranking;
use crate::topology::{AnswerInto, Ask, Chosen, ModelStage};

/// The private attribute with where the answer comes from, as JSON.
const MODEL: &str = "model";
/// Follows the field's name where all choices of an answer, or their log-probabilities, were asked for, or one of them has
/// reasoning or calls.
const CHOICES: &str = "_choices";
/// Follows the field's name where the number of the answer is, of a record that a caller waits for.
const NUMBER: &str = "_number";

/// The headers that name the answer as feeds of tokens do.
const REQUEST: &str = "token-request";
const ATTEMPT: &str = "token-attempt";

/// An answer as it appears in a record.
struct Shown {
    /// As text: the attribute, and the value where it takes its place.
    text: String,
    /// As JSON text: the member.
    json: String,
    /// All choices as JSON text, where more was asked for than one text.
    choices: Option<String>,
    /// The reasoning, where the stage has a place for it: its name, and the text as JSON, null where there is none.
    reasoning: Option<(String, Value)>,
}

/// The private attribute by which a record brings its answer to a caller.
pub(crate) fn number_name(field: &str) -> String {
    format!("{field}{NUMBER}")
}

/// The changes to an answered record: the attributes, and the value if the stage says so. `number` is what a caller's
/// answer is known by.
pub(crate) fn patch(
    stage_name: &str,
    stage: &ModelStage,
    entry: &Entry,
    answer: &Answer,
    number: Option<u64>,
    id: RecordId,
) -> PatchBuilder {
    let wants = asked::wants(stage, entry);
    let wants = wants.as_deref();
    let chosen = stage.chosen(wants.and_then(|wants| wants.which));
    let shown = shown(stage, chosen, wants, answer);
    let choices_field = format!("{}{CHOICES}", stage.field);
    let mut patch = PatchBuilder::default();
    match stage.into {
        AnswerInto::Attributes => {}
        AnswerInto::Value => patch.set_value(Some(shown.text.clone().into_bytes())),
        AnswerInto::Member => {
            // Where there are no choices, those of an answer before it in this field go with it.
            let mut members = vec![
                (stage.field.as_str(), Some(shown.json.as_str())),
                (choices_field.as_str(), shown.choices.as_deref()),
            ];
            let reasoning = shown.reasoning.as_ref();
            let reasoning = reasoning.map(|(name, reasoning)| (name, reasoning.to_string()));
            if let Some((name, reasoning)) = &reasoning {
                members.push((name.as_str(), Some(reasoning.as_str())));
            }
            let value = entry.view().and_then(|record| record.value());
            let value = value.and_then(|value| with_members(value, &members));
            patch.set_value(Some(
                value.unwrap_or_else(|| shown.text.clone()).into_bytes(),
            ));
        }
    }
    let had = |name: &str| {
        let record = entry.view();
        record.is_some_and(|record| record.attributes().any(|pair| pair.name == name))
    };
    // What an answer before this one has left under a name of this one is not this one's.
    let mut attribute = |name: &str, text: Option<&str>| match text {
        Some(text) => patch.attribute(Change::Set {
            name,
            value: Some(text.as_bytes()),
        }),
        None if had(name) => patch.attribute(Change::Remove { name }),
        None => {}
    };
    attribute(&stage.field, Some(&shown.text));
    attribute(&choices_field, shown.choices.as_deref());
    if let Some((name, reasoning)) = &shown.reasoning {
        attribute(name, reasoning.as_str());
    }
    let origin = origin(stage, entry, wants, answer, id).to_string();
    attribute(MODEL, Some(&origin));
    if let Some(number) = number {
        attribute(&number_name(&stage.field), Some(&number.to_string()));
    }
    name_attempt(stage_name, entry, &mut patch);
    patch
}

/// Says which answer it is to those who read tokens: the headers are public, so that they are where the answer goes.
fn name_attempt(stage: &str, entry: &Entry, patch: &mut PatchBuilder) {
    let Some(record) = entry.view().filter(|_| entry.fed != 0) else {
        return;
    };
    // A record that is full of headers keeps those it has.
    if record.headers().count() + 2 > MAX_PAIRS {
        return;
    }
    let request = feeding::request(stage, &record, entry.id);
    for (name, value) in [(REQUEST, request), (ATTEMPT, entry.fed.to_string())] {
        let value = Some(value.as_bytes());
        patch.header(Change::Set { name, value });
    }
}

/// The output that an answer's record takes; none is the main one.
pub(crate) fn route<'a>(stage: &'a ModelStage, answer: &Answer) -> Option<&'a str> {
    let (Ask::Classify { threshold, routes }, Made::Labels(labels)) = (&stage.ask, &answer.made)
    else {
        return None;
    };
    let (label, _) = likeliest(labels, *threshold)?;
    routes.get_key_value(label).map(|(label, _)| label.as_str())
}

/// Why an answer is none: what was asked for has a form, and the answer was cut before it had it, or handlers of its
/// tokens took it away. `handled` is whether they changed or ended it.
pub(crate) fn formless(
    stage: &ModelStage,
    wants: Option<&Wants>,
    answer: &Answer,
    handled: bool,
) -> Option<String> {
    let parameters = asked::parameters(stage, wants)?;
    let structure = parameters.structure.as_ref()?;
    let Made::Choices(choices) = &answer.made else {
        return None;
    };
    let first = choices.first()?;
    let cut = match first.finish {
        Finish::Length => {
            let tokens = first.tokens.len();
            let thought = match first.reasoning_tokens as usize {
                0 => String::new(),
                thought if thought >= tokens => ", all of them of its reasoning".to_owned(),
                thought => format!(", {thought} of them of its reasoning"),
            };
            return Some(format!(
                "answer has no end after {tokens} tokens{thought}; max-tokens is {}",
                parameters.max_tokens
            ));
        }
        Finish::Filtered => true,
        Finish::End | Finish::Stop | Finish::Calls => false,
    };
    ((cut || handled) && !may_have_form(structure, &first.text)).then(|| {
        let how = match handled {
            true => "handlers of tokens changed or ended it",
            false => "it was filtered",
        };
        format!("answer does not have the form that was asked for: {how}")
    })
}

/// Whether a text that is not as the model made it may still have a form: it is JSON, or one of the texts. What else it
/// may be is known to the model alone.
fn may_have_form(structure: &Structure, text: &str) -> bool {
    match structure {
        Structure::JsonSchema(_) => serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok(),
        Structure::Choice(texts) => texts.iter().any(|one| one == text.trim_start()),
        Structure::Regex(_) | Structure::Grammar(_) => false,
    }
}

/// Tokens of all choices.
pub(crate) fn tokens(answer: &Answer) -> u64 {
    match &answer.made {
        Made::Choices(choices) => choices
            .iter()
            .map(|choice| choice.tokens.len() as u64)
            .sum(),
        Made::Embedding(_) | Made::Labels(_) | Made::Entities(_) | Made::Relevance(_) => 0,
    }
}

/// Of these, tokens of reasoning.
pub(crate) fn reasoning_tokens(answer: &Answer) -> u64 {
    match &answer.made {
        Made::Choices(choices) => (choices.iter())
            .map(|choice| u64::from(choice.reasoning_tokens))
            .sum(),
        Made::Embedding(_) | Made::Labels(_) | Made::Entities(_) | Made::Relevance(_) => 0,
    }
}

/// How an answer ended, in a word.
pub(crate) fn finish(answer: &Answer) -> &'static str {
    match &answer.made {
        Made::Choices(choices) => choices.first().map_or("end", |choice| choice.finish.name()),
        Made::Embedding(_) => "embedding",
        Made::Labels(_) => "labels",
        Made::Entities(_) => "entities",
        Made::Relevance(_) => "ranking",
    }
}

fn shown(stage: &ModelStage, chosen: Chosen<'_>, wants: Option<&Wants>, answer: &Answer) -> Shown {
    match &answer.made {
        Made::Choices(choices) => {
            let text = choices.first().map_or("", |choice| choice.text.as_str());
            let parameters = asked::parameters(stage, wants);
            let is_json = parameters
                .is_some_and(|p| matches!(p.structure, Some(Structure::JsonSchema(_))))
                && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            let logprobs = parameters.is_some_and(|p| p.logprobs.is_some());
            // Reasoning is shown where the record says what is asked, or the stage has a place for it.
            let lanes = wants.is_some();
            let place = match &stage.ask {
                Ask::Generate { reasoning, .. } => reasoning.as_ref(),
                Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => {
                    None
                }
            };
            let more = |choice: &Choice| {
                (lanes && !choice.reasoning.is_empty()) || !choice.calls.is_empty()
            };
            let all = logprobs || parameters.is_some_and(|p| p.n > 1) || choices.iter().any(more);
            let reasons = lanes || place.is_some();
            let first = choices.first().map(|choice| choice.reasoning.as_str());
            let first = first.filter(|reasoning| !reasoning.is_empty());
            Shown {
                json: if is_json {
                    text.to_owned()
                } else {
                    Value::from(text).to_string()
                },
                text: text.to_owned(),
                reasoning: place.map(|name| (name.clone(), first.into())),
                choices: all.then(|| {
                    let text_of = |token| chosen.model.token_text(token);
                    let choices = choices
                        .iter()
                        .map(|choice| choice_json(&text_of, choice, logprobs, reasons));
                    Value::Array(choices.collect()).to_string()
                }),
            }
        }
        Made::Embedding(vector) => both(json!(vector)),
        Made::Entities(entities) => {
            let threshold = match stage.ask {
                Ask::Recognize { threshold, .. } => threshold,
                _ => 0.0,
            };
            let sure = entities.iter().filter(|entity| entity.score >= threshold);
            both(sure.map(|entity| json!(entity)).collect())
        }
        Made::Relevance(scores) => {
            let top = match stage.ask {
                Ask::Rerank { top, .. } => top,
                _ => None,
            };
            both(ranking(scores, top))
        }
        Made::Labels(labels) => {
            let threshold = match stage.ask {
                Ask::Classify { threshold, .. } => threshold,
                _ => 0.0,
            };
            let scores: Map<String, Value> = labels
                .iter()
                .map(|(label, score)| (label.clone(), json!(score)))
                .collect();
            both(match likeliest(labels, threshold) {
                Some((label, score)) => json!({"label": label, "score": score, "scores": scores}),
                None => json!({"label": null, "scores": scores}),
            })
        }
    }
}

fn both(value: Value) -> Shown {
    let text = value.to_string();
    Shown {
        json: text.clone(),
        text,
        choices: None,
        reasoning: None,
    }
}

/// The label with the greatest probability, of equals the first; none if that is below the threshold.
fn likeliest(labels: &[(String, f32)], threshold: f32) -> Option<(&str, f32)> {
    let mut best: Option<(&str, f32)> = None;
    for (label, score) in labels {
        if best.is_none_or(|(_, most)| *score > most) {
            best = Some((label, *score));
        }
    }
    best.filter(|(_, score)| *score >= threshold)
}

fn choice_json(
    text_of: &dyn Fn(u32) -> Option<String>,
    choice: &Choice,
    logprobs: bool,
    reasons: bool,
) -> Value {
    let mut object = json!({
        "text": choice.text,
        "finish": choice.finish.name(),
        "tokens": choice.tokens.len(),
    });
    if reasons && !choice.reasoning.is_empty() {
        object["reasoning"] = choice.reasoning.as_str().into();
    }
    if choice.reasoning_tokens > 0 {
        object["reasoning_tokens"] = choice.reasoning_tokens.into();
    }
    if !choice.calls.is_empty() {
        object["calls"] = json!(choice.calls);
    }
    if logprobs {
        // Whoever is not shown the thoughts does not read them token by token.
        let shown = choice.logprobs.iter().filter(|each| reasons || each.said);
        let logprobs = shown.map(|each| logprob_json(text_of, each));
        object["logprobs"] = Value::Array(logprobs.collect());
    }
    object
}

fn logprob_json(text_of: &dyn Fn(u32) -> Option<String>, logprob: &TokenLogprob) -> Value {
    let token =
        |token: u32, logprob: f32| json!({"id": token, "text": text_of(token), "logprob": logprob});
    let mut object = token(logprob.token, logprob.logprob);
    let top = logprob.top.iter().map(|(id, logprob)| token(*id, *logprob));
    object["top"] = Value::Array(top.collect());
    object
}

/// Where an answer comes from.
fn origin(
    stage: &ModelStage,
    entry: &Entry,
    wants: Option<&Wants>,
    answer: &Answer,
    id: RecordId,
) -> Value {
    let ms = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
    let digest = (*entry.model != *UNKNOWN_MODEL).then_some(&*entry.model);
    let which = wants.and_then(|wants| wants.which);
    let mut model = json!({
        "name": stage.chosen(which).name,
        "digest": digest,
        "prompt_tokens": answer.prompt_tokens,
        "attempt": entry.attempt,
        "timings_ms": {
            "queued": ms(answer.timings.queued),
            "prefill": ms(answer.timings.prefill),
            "decode": ms(answer.timings.decode),
        },
        "operators": entry.versions.to_json(),
    });
    if let Made::Choices(choices) = &answer.made {
        model["finish"] = finish(answer).into();
        model["tokens"] = choices
            .first()
            .map_or(0, |choice| choice.tokens.len())
            .into();
        let thought = choices.first().map_or(0, |choice| choice.reasoning_tokens);
        if thought > 0 {
            model["reasoning_tokens"] = thought.into();
        }
        model["seed"] = asked::seed(stage, wants, id).into();
    }
    model
}

/// The JSON object with these members at its end, in the place of all that had their names: of one without a value nothing
/// is left. Everything else stays as it stands; none if it is not an object.
fn with_members(value: &[u8], members: &[(&str, Option<&str>)]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?.trim();
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let inner = text.strip_prefix('{')?.strip_suffix('}')?.trim_end();
    let stays = |member: &str| {
        let has = name_of(member);
        !(members.iter()).any(|(name, _)| has.as_deref() == Some(*name))
    };
    let kept = top_level(inner).filter(|member| stays(member));
    let added = members.iter().filter_map(|(name, json)| {
        let member = format!("{}:{}", Value::from(*name), (*json)?);
        Some(Cow::Owned(member))
    });
    let all: Vec<Cow<'_, str>> = kept.map(Cow::Borrowed).chain(added).collect();
    Some(format!("{{{}}}", all.join(",")))
}

/// The members of an object of valid JSON, without its braces, each as it stands with the white space around it.
fn top_level(inner: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(inner).filter(|inner| !inner.trim().is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut depth, mut is_text, mut is_escaped) = (0usize, false, false);
        let ends = text.bytes().position(|byte| {
            if is_text {
                is_text = is_escaped || byte != b'"';
                is_escaped = !is_escaped && byte == b'\\';
                return false;
            }
            match byte {
                b'"' => is_text = true,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            byte == b',' && depth == 0
        });
        let (member, behind) = match ends {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        rest = behind;
        Some(member)
    })
}

/// The name of a member of an object, however it is written; none of half a character, which no name of ours has.
fn name_of(member: &str) -> Option<String> {
    let mut read = serde_json::Deserializer::from_str(member);
    <String as serde::Deserialize>::deserialize(&mut read).ok()
}

/// A record's own seed: SplitMix64 over the stage's seed and the record's id, so that it does not depend on the order
/// of arrival (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub(crate) fn record_seed(seed: u64, id: RecordId) -> u64 {
    let mut state = seed;
    for part in [
        u64::from(id.source),
        u64::from(id.partition),
        id.offset,
        id.emit,
    ] {
        state = state.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    // Within what a JSON number holds exactly.
    state >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_a_member_and_the_rest_stays() {
        let answer = [("answer", Some("\"it \\\"works\\\"\""))];
        let with = |value: &str| with_members(value.as_bytes(), &answer);
        assert_eq!(
            with(r#"{"b": 1,"a":[2] }"#).unwrap(),
            r#"{"b": 1,"a":[2],"answer":"it \"works\""}"#
        );
        assert_eq!(with(" {} ").unwrap(), r#"{"answer":"it \"works\""}"#);
        for other in ["[1]", "text", "\"{}\"", "{\"a\":}", ""] {
            assert_eq!(with(other), None, "{other}");
        }
    }

    #[test]
    fn a_member_takes_the_place_of_all_that_have_its_name_and_of_no_other() {
        let with = |value: &str, members: &[(&str, Option<&str>)]| {
            let with = with_members(value.as_bytes(), members).unwrap();
            serde_json::from_str::<serde::de::IgnoredAny>(&with).unwrap();
            with
        };
        let one = [("a", Some("7"))];
        for (value, wanted) in [
            (r#"{"a":1}"#, r#"{"a":7}"#),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"b":2,"a":7}"#),
            (
                r#"{ "b" : {"a":[1,"a"]}, "\u0061" :1}"#,
                r#"{ "b" : {"a":[1,"a"]},"a":7}"#,
            ),
            (
                r#"{"A":1,"\\a":2,"a ":3}"#,
                r#"{"A":1,"\\a":2,"a ":3,"a":7}"#,
            ),
            (
                r#"{"b":"\",\"a\":1","c":["a",{"a":"]}"}],"a":"x"}"#,
                r#"{"b":"\",\"a\":1","c":["a",{"a":"]}"}],"a":7}"#,
            ),
            (r#"{"\ud800":1,"é,":2}"#, r#"{"\ud800":1,"é,":2,"a":7}"#),
            ("{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"b\": 2,\"a\":7}"),
        ] {
            assert_eq!(with(value, &one), wanted);
        }
        let several = [("a", Some("7")), ("a_choices", None), ("t", Some("null"))];
        assert_eq!(
            with(r#"{"a_choices":[1,2],"t":"old","b":0,"a":"old"}"#, &several),
            r#"{"b":0,"a":7,"t":null}"#
        );
        assert_eq!(with(r#"{"a":1}"#, &[("a", None)]), "{}");
        assert_eq!(with("{}", &[("a", None)]), "{}");
    }

    #[test]
    fn thoughts_are_in_no_log_probabilities_unless_they_are_shown() {
        let choice = |from: u32, said: &[u32]| Choice {
            text: "Yes.".into(),
            reasoning: "Hm.".into(),
            reasoning_tokens: 5,
            calls: Vec::new(),
            tokens: (0..8).collect(),
            finish: Finish::End,
            logprobs: (from..8)
                .map(|token| TokenLogprob {
                    token,
                    logprob: -1.0,
                    top: Vec::new(),
                    said: said.contains(&token),
                })
                .collect(),
        };
        let text_of = |token: u32| Some(token.to_string());
        let shown = |choice: &Choice, reasons| -> Vec<u64> {
            let object = choice_json(&text_of, choice, true, reasons);
            let each = object["logprobs"].as_array().unwrap().iter();
            each.map(|each| each["id"].as_u64().unwrap()).collect()
        };
        assert_eq!(shown(&choice(0, &[5, 6, 7]), false), [5, 6, 7]);
        assert_eq!(
            shown(&choice(0, &[6]), false),
            [6],
            "nor what stands beside"
        );
        assert_eq!(shown(&choice(0, &[6]), true), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            shown(&choice(6, &[5, 6, 7]), false),
            [6, 7],
            "behind tokens that were given"
        );
        assert_eq!(shown(&choice(0, &[]), false), [0; 0], "cut within them");
    }

    #[test]
    fn a_label_counts_from_its_threshold_on() {
        let labels = [("ok".to_owned(), 0.4), ("rude".to_owned(), 0.6)];
        assert_eq!(likeliest(&labels, 0.0), Some(("rude", 0.6)));
        assert_eq!(likeliest(&labels, 0.6), Some(("rude", 0.6)));
        assert_eq!(likeliest(&labels, 0.61), None);
        let equal = [("a".to_owned(), 0.5), ("b".to_owned(), 0.5)];
        assert_eq!(likeliest(&equal, 0.0), Some(("a", 0.5)));
        assert_eq!(likeliest(&[], 0.0), None);
    }

    #[test]
    fn seeds_differ_between_records_and_fit_a_json_number() {
        let id = RecordId {
            offset: 7,
            ..RecordId::default()
        };
        let other = RecordId { offset: 8, ..id };
        assert_eq!(record_seed(1, id), record_seed(1, id));
        assert_ne!(record_seed(1, id), record_seed(1, other));
        assert_ne!(record_seed(1, id), record_seed(2, id));
        assert!(record_seed(u64::MAX, other) < 1 << 53);
    }
}
