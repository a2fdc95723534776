//! Texts that are encoded elsewhere: OpenAI's embeddings, and KServe's tensors.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use tidegate_contract::Made;

use super::estimate;
use super::json::{Object, array};
use super::options::{Kserve, OpenAi, RemoteKind};

/// Most numbers of a text's row.
const MOST_COLUMNS: usize = 1 << 16;

/// A text's row, and its tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Encoded {
    pub made: Made,
    pub tokens: u32,
}

/// The body that asks for these texts.
pub(crate) fn body(kind: &RemoteKind, texts: &[&str]) -> String {
    match kind {
        RemoteKind::OpenAi(server) => Object::new()
            .member("model", &server.model)
            .member("input", texts)
            .member("encoding_format", "base64")
            .end(),
        RemoteKind::Kserve(server) => {
            let shape = match server.column {
                true => vec![texts.len(), 1],
                false => vec![texts.len()],
            };
            let input = Object::new()
                .member("name", &server.input)
                .member("shape", &shape)
                .member("datatype", "BYTES")
                .member("data", texts)
                .end();
            let output = Object::new().member("name", &server.output).end();
            Object::new()
                .raw("inputs", &array([input]))
                .raw("outputs", &array([output]))
                .end()
        }
    }
}

/// Most bytes of an answer: numbers as text, some 24 bytes each.
pub(crate) fn most_bytes(texts: usize) -> usize {
    (texts * MOST_COLUMNS * 24).min(32 << 20)
}

/// What the answer says, a row for each text.
pub(crate) fn read(
    kind: &RemoteKind,
    texts: &[&str],
    answer: &[u8],
) -> Result<Vec<Encoded>, String> {
    match kind {
        RemoteKind::OpenAi(server) => embeddings(server, texts, answer),
        RemoteKind::Kserve(server) => tensor(server, texts, answer),
    }
}

#[derive(Deserialize)]
struct Embeddings {
    data: Vec<Row>,
    usage: Option<super::chunks::Usage>,
}

#[derive(Deserialize)]
struct Row {
    index: Option<usize>,
    embedding: Vector,
}

/// Base64 was asked for; not every server has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Vector {
    Base64(String),
    Numbers(Vec<f32>),
}

fn embeddings(_: &OpenAi, texts: &[&str], answer: &[u8]) -> Result<Vec<Encoded>, String> {
    let answer: Embeddings = parse(answer)?;
    let tokens = answer.usage.and_then(|usage| usage.prompt_tokens);
    let mut rows: Vec<Option<Vec<f32>>> = texts.iter().map(|_| None).collect();
    for (place, row) in answer.data.into_iter().enumerate() {
        let index = row.index.unwrap_or(place);
        let vector = match row.embedding {
            Vector::Numbers(vector) => vector,
            Vector::Base64(text) => {
                let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
                let (numbers, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(format!("an embedding has {} bytes", bytes.len()));
                }
                numbers
                    .iter()
                    .map(|bytes| f32::from_le_bytes(*bytes))
                    .collect()
            }
        };
        let most = rows.len();
        match rows.get_mut(index) {
            Some(empty @ None) => *empty = Some(vector),
            Some(Some(_)) => return Err(format!("embedding {index} comes twice")),
            None => return Err(format!("embedding {index} comes, {most} were asked for")),
        }
    }
    let rows = rows.into_iter().enumerate().map(|(index, row)| {
        let row = row.ok_or_else(|| format!("embedding {index} is missing"))?;
        Ok(Encoded {
            made: Made::Embedding(unit(row)?),
            tokens: share(texts, index, tokens),
        })
    });
    rows.collect()
}

#[derive(Deserialize)]
struct Tensors {
    outputs: Vec<Tensor>,
}

#[derive(Deserialize)]
struct Tensor {
    name: String,
    shape: Vec<usize>,
    datatype: String,
    data: Option<Value>,
}

fn tensor(server: &Kserve, texts: &[&str], answer: &[u8]) -> Result<Vec<Encoded>, String> {
    let answer: Tensors = parse(answer)?;
    let name = &server.output;
    let output = answer
        .outputs
        .into_iter()
        .find(|output| output.name == *name);
    let output = output.ok_or_else(|| format!("its answer has no tensor {name:?}"))?;
    if output.datatype != "FP32" {
        let kind = output.datatype;
        return Err(format!(
            "the tensor {name:?} is of {kind:?}, must be of \"FP32\""
        ));
    }
    let columns = match output.shape[..] {
        [rows, columns] | [rows, 1, columns] if rows == texts.len() => columns,
        // A server without batches leaves the row out.
        [columns] if texts.len() == 1 => columns,
        _ => {
            let shape = output.shape;
            let rows = texts.len();
            return Err(format!(
                "the tensor {name:?} has the shape {shape:?}, must have {rows} rows"
            ));
        }
    };
    let wanted = server.labels.len();
    if columns == 0 || columns > MOST_COLUMNS || (wanted > 0 && columns != wanted) {
        let limit = match wanted {
            0 => format!("1 to {MOST_COLUMNS}"),
            _ => format!("{wanted}, one for each label"),
        };
        return Err(format!(
            "the tensor {name:?} has {columns} columns, must have {limit}"
        ));
    }
    let data = output.data.ok_or("binary tensors are not read")?;
    let mut numbers = Vec::with_capacity(texts.len() * columns);
    flatten(&data, texts.len() * columns, &mut numbers)?;
    if numbers.len() != texts.len() * columns {
        let (has, must) = (numbers.len(), texts.len() * columns);
        return Err(format!(
            "the tensor {name:?} has {has} numbers, must have {must}"
        ));
    }
    let rows = numbers
        .chunks_exact(columns)
        .enumerate()
        .map(|(index, row)| {
            let made = match wanted {
                0 => Made::Embedding(unit(row.to_vec())?),
                _ => {
                    let row = match server.logits {
                        true => softmax(row)?,
                        false => probabilities(row)?,
                    };
                    Made::Labels(server.labels.iter().cloned().zip(row).collect())
                }
            };
            Ok(Encoded {
                made,
                tokens: share(texts, index, None),
            })
        });
    rows.collect()
}

fn parse<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(answer).map_err(|error| format!("its answer cannot be read: {error}"))
}

/// Numbers of a list, or of lists of lists: both are allowed.
fn flatten(value: &Value, most: usize, into: &mut Vec<f32>) -> Result<(), String> {
    match value {
        Value::Array(values) => values
            .iter()
            .try_for_each(|value| flatten(value, most, into)),
        Value::Number(number) if into.len() < most => {
            into.push(number.as_f64().unwrap_or(f64::NAN) as f32);
            Ok(())
        }
        Value::Number(_) => Err(format!("the tensor has more than {most} numbers")),
        _ => Err("the tensor has what is no number".to_owned()),
    }
}

/// Of unit length, as every embedding here is.
fn unit(mut vector: Vec<f32>) -> Result<Vec<f32>, String> {
    let squares: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
    if vector.is_empty() || vector.len() > MOST_COLUMNS {
        let has = vector.len();
        return Err(format!(
            "an embedding has {has} numbers, must have 1 to {MOST_COLUMNS}"
        ));
    }
    if !squares.is_finite() || squares == 0.0 {
        return Err("an embedding has no length".to_owned());
    }
    let length = squares.sqrt();
    for x in &mut vector {
        *x = (f64::from(*x) / length) as f32;
    }
    Ok(vector)
}

fn softmax(logits: &[f32]) -> Result<Vec<f32>, String> {
    if logits.iter().any(|x| !x.is_finite()) {
        return Err("a logit is no number".to_owned());
    }
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits.iter().map(|x| f64::from(x - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    Ok(powers
        .into_iter()
        .map(|power| (power / sum) as f32)
        .collect())
}

fn probabilities(row: &[f32]) -> Result<Vec<f32>, String> {
    match row.iter().find(|x| !(0.0..=1.0001).contains(*x)) {
        Some(x) => Err(format!(
            "a probability is {x}, must be between 0 and 1; are these logits?"
        )),
        None => Ok(row.iter().map(|x| x.min(1.0)).collect()),
    }
}

/// A text's tokens: its part of what the server counts for all, by bytes; without, an estimate.
fn share(texts: &[&str], index: usize, sum: Option<u64>) -> u32 {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let tokens = match sum {
        Some(sum) => sum as u128 * texts[index].len() as u128 / bytes.max(1) as u128,
        None => estimate::tokens(texts[index]) as u128,
    };
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn openai(texts: &[&str], answer: Value) -> Result<Vec<Encoded>, String> {
        let kind = RemoteKind::OpenAi(OpenAi::new("http://h", "m"));
        read(&kind, texts, answer.to_string().as_bytes())
    }

    fn classifier(logits: bool) -> Kserve {
        Kserve {
            labels: vec!["no".into(), "yes".into()],
            logits,
            ..Kserve::new("http://h", "m")
        }
    }

    fn kserve(server: Kserve, texts: &[&str], answer: Value) -> Result<Vec<Encoded>, String> {
        let answer = answer.to_string();
        read(&RemoteKind::Kserve(server), texts, answer.as_bytes())
    }

    fn output(shape: &[usize], data: Value) -> Value {
        json!({"outputs": [{"name": "other", "datatype": "INT8", "shape": [1], "data": [1]},
            {"name": "output", "datatype": "FP32", "shape": shape, "data": data}]})
    }

    fn vector(encoded: &Encoded) -> &[f32] {
        match &encoded.made {
            Made::Embedding(vector) => vector,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn embeddings_come_in_base64_or_as_numbers_by_index_and_are_of_unit_length() {
        let bytes: Vec<u8> = [3.0_f32, 4.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let answer = json!({"data": [{"index": 1, "embedding": STANDARD.encode(bytes)},
            {"index": 0, "embedding": [0.0, -2.0]}], "usage": {"prompt_tokens": 12}});
        let rows = openai(&["ab", "abcd"], answer).unwrap();
        assert_eq!(vector(&rows[0]), [0.0, -1.0]);
        assert_eq!(vector(&rows[1]), [0.6, 0.8]);
        assert_eq!((rows[0].tokens, rows[1].tokens), (4, 8));
    }

    #[test]
    fn embeddings_that_are_none_are_refused() {
        for data in [
            json!([]),
            json!([{"embedding": []}]),
            json!([{"embedding": [0.0]}]),
            json!([{"embedding": "AAAA"}]),
            json!([{"embedding": "???"}]),
            json!([{"embedding": [1.0]}, {"embedding": [1.0]}]),
            json!([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]),
            json!([{"embedding": [1e39]}]),
        ] {
            let refused = openai(&["a"], json!({"data": data}));
            assert!(refused.is_err(), "{data}");
        }
    }

    #[test]
    fn tensors_are_read_flat_or_nested_as_vectors_or_labels() {
        let server = || Kserve::new("http://h", "m");
        for data in [json!([3.0, 4.0, 0.0, 2.0]), json!([[3.0, 4.0], [0.0, 2.0]])] {
            let rows = kserve(server(), &["a", "b"], output(&[2, 2], data)).unwrap();
            assert_eq!(vector(&rows[0]), [0.6, 0.8]);
            assert_eq!(vector(&rows[1]), [0.0, 1.0]);
        }
        let one = kserve(server(), &["a"], output(&[2], json!([0, 5]))).unwrap();
        assert_eq!(vector(&one[0]), [0.0, 1.0]);
        let rows = kserve(
            classifier(true),
            &["a"],
            output(&[1, 2], json!([0.0, 3.0_f32.ln()])),
        );
        let Made::Labels(labels) = &rows.unwrap()[0].made else {
            panic!("no labels");
        };
        assert_eq!(labels[0].0, "no");
        assert!((labels[0].1 - 0.25).abs() < 1e-6 && (labels[1].1 - 0.75).abs() < 1e-6);
    }

    #[test]
    fn tensors_of_another_form_are_refused_with_what_they_must_be() {
        let refused = |server, answer| kserve(server, &["a"], answer).unwrap_err();
        let none = refused(classifier(false), json!({"outputs": []}));
        assert!(none.contains("no tensor \"output\""), "{none}");
        let shape = refused(classifier(false), output(&[2, 2], json!([1, 0, 1, 0])));
        assert!(shape.contains("must have 1 rows"), "{shape}");
        let columns = refused(classifier(false), output(&[1, 3], json!([1, 0, 0])));
        assert!(columns.contains("one for each label"), "{columns}");
        let short = refused(classifier(false), output(&[1, 2], json!([1])));
        assert!(short.contains("has 1 numbers"), "{short}");
        let long = refused(classifier(false), output(&[1, 2], json!([1, 0, 0])));
        assert!(long.contains("more than 2"), "{long}");
        let logits = refused(classifier(false), output(&[1, 2], json!([-3.0, 5.0])));
        assert!(logits.contains("are these logits?"), "{logits}");
        let words = refused(classifier(true), output(&[1, 2], json!(["a", "b"])));
        assert!(words.contains("no number"), "{words}");
        let large = refused(classifier(false), output(&[1, usize::MAX], json!([1])));
        assert!(large.contains("columns"), "{large}");
    }

    #[test]
    fn what_is_asked_of_kserve_has_its_form() {
        let mut server = Kserve::new("http://h", "m");
        let body_of = |server: &Kserve| -> Value {
            let kind = RemoteKind::Kserve(server.clone());
            serde_json::from_str(&body(&kind, &["a", "\"b\""])).unwrap()
        };
        let expected = json!({"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a", "\"b\""]}],
            "outputs": [{"name": "output"}]});
        assert_eq!(body_of(&server), expected);
        server.column = true;
        assert_eq!(body_of(&server)["inputs"][0]["shape"], json!([2, 1]));
    }
}
