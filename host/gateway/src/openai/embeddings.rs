//! `/v1/embeddings` and `/v1/rerank`: vectors of texts, and what is nearest to one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_contract::MOST_DOCUMENTS;

use super::answer::{Final, Ranked, Usage};
use super::asking::{Asking, Question};
use super::completions::texts;
use super::error::ApiError;
use super::fields::{Fields, Known, wrong_type};
use super::framing::{Framing, Head};
use super::parameters;
use super::route::Endpoint;
use crate::requests::{Failure, OwnedPiece};

/// Most texts of a request, as OpenAI's description has it.
const MOST_INPUTS: usize = 2048;

/// How vectors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vectors {
    base64: bool,
    /// The length that the client counts on.
    dimensions: Option<u32>,
}

impl Vectors {
    /// Vectors are not cut.
    pub(crate) fn check(self, has: u32) -> Result<(), ApiError> {
        match self.dimensions {
            Some(wanted) if wanted != has => {
                let why = format!("dimensions is {wanted}, the model's vectors have {has}");
                Err(ApiError::invalid("dimensions", "unsupported_value", why))
            }
            _ => Ok(()),
        }
    }
}

/// Reads a request for vectors.
pub(crate) fn read(bytes: &[u8]) -> Result<(Asking, Vectors), ApiError> {
    let mut body = Fields::body(bytes)?;
    let model = body.needed_text("model")?;
    let inputs = match body.any("input") {
        None => return Err(body.missing("input")),
        Some(Value::String(input)) => vec![input],
        Some(Value::Array(list)) => texts("input", list)?,
        Some(other) => {
            let wanted = "a string or an array of strings";
            return Err(wrong_type("input", &other, wanted));
        }
    };
    few(&body, "input", inputs.len())?;
    let base64 = match body.text("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let why = format!("is {other:?}, must be \"float\" or \"base64\"");
            return Err(body.wrong("encoding_format", why));
        }
    };
    let dimensions = body.integer("dimensions", 1, u64::from(u32::MAX))?;
    let vectors = Vectors {
        base64,
        dimensions: dimensions.map(|most| most as u32),
    };
    let user = parameters::user(&mut body)?;
    body.end(&Known {
        idle: &[],
        refused: &[],
    })?;
    let asking = asking(Endpoint::Embeddings, model, user, inputs);
    have_vectors(&asking)?;
    Ok((asking, vectors))
}

fn few(body: &Fields, name: &str, count: usize) -> Result<(), ApiError> {
    if (1..=MOST_INPUTS).contains(&count) {
        return Ok(());
    }
    let why = format!("has {count} texts, must have 1 to {MOST_INPUTS}");
    Err(body.wrong(name, why))
}

fn asking(endpoint: Endpoint, model: String, user: Option<String>, inputs: Vec<String>) -> Asking {
    let questions = inputs.into_iter().map(|input| Question {
        input: Some(input),
        ..Question::default()
    });
    Asking {
        endpoint,
        model,
        user,
        metadata: None,
        stream: false,
        told_to_continue: false,
        questions: questions.collect(),
    }
}

/// Refuses empty texts where each is to be a vector. A model that reads pairs takes an empty document as any other, as
/// sentence-transformers' `CrossEncoder` does.
pub(crate) fn have_vectors(asking: &Asking) -> Result<(), ApiError> {
    let mut inputs = asking
        .questions
        .iter()
        .filter_map(|question| question.input.as_deref());
    if inputs.any(str::is_empty) {
        let at = asking.endpoint.prompt();
        let why = format!("{at} has an empty text, which has no vector");
        return Err(ApiError::invalid(at, "invalid_value", why));
    }
    Ok(())
}

/// What a reader of ranks wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranks {
    top: usize,
    documents: bool,
}

/// Reads a request for ranks: its first question is the query.
pub(crate) fn read_rerank(bytes: &[u8]) -> Result<(Asking, Ranks), ApiError> {
    let mut body = Fields::body(bytes)?;
    let model = body.needed_text("model")?;
    let query = body.needed_text("query")?;
    if query.is_empty() {
        return Err(body.wrong("query", "is empty"));
    }
    let list = body.list("documents")?;
    let list = list.ok_or_else(|| body.missing("documents"))?;
    few(&body, "documents", list.len())?;
    let mut inputs = vec![query];
    for (index, document) in list.into_iter().enumerate() {
        inputs.push(match document {
            Value::String(text) => text,
            other => {
                let mut document = Fields::object(format!("documents[{index}]"), other)?;
                let text = document.needed_text("text")?;
                document.end(&Known {
                    idle: &[],
                    refused: &[],
                })?;
                text
            }
        });
    }
    let all = inputs.len() as u64 - 1;
    let top = body.integer("top_n", 1, u64::from(u32::MAX))?;
    let ranks = Ranks {
        top: top.unwrap_or(all) as usize,
        documents: body.flag("return_documents")?.unwrap_or(false),
    };
    let user = parameters::user(&mut body)?;
    body.end(&Known {
        idle: &[],
        refused: &[
            ("max_chunks_per_doc", "a document is one text"),
            ("max_tokens_per_doc", "a document is not cut"),
            ("rank_fields", "a document is one text"),
        ],
    })?;
    Ok((asking(Endpoint::Rerank, model, user, inputs), ranks))
}

/// Asks for the whole ranking with one record, as a model needs it that reads the query with each document.
pub(crate) fn in_one(asking: &mut Asking) -> Result<(), ApiError> {
    let documents = asking.questions.len().saturating_sub(1);
    if documents > MOST_DOCUMENTS {
        let why = format!("documents has {documents} texts, must have 1 to {MOST_DOCUMENTS}");
        return Err(ApiError::invalid("documents", "invalid_value", why));
    }
    let mut texts = std::mem::take(&mut asking.questions).into_iter();
    let query = texts.next().unwrap_or_default();
    asking.questions = vec![Question {
        documents: texts.filter_map(|question| question.input).collect(),
        ..query
    }];
    Ok(())
}

fn vectors(answers: &[Final]) -> Result<Vec<&[f32]>, ApiError> {
    let vectors = answers.iter().map(|answer| answer.vector.as_deref());
    vectors.collect::<Option<_>>().ok_or_else(|| {
        let member = "answer".to_owned();
        ApiError::failed(&Failure::NoAnswer { member }, "input")
    })
}

fn usage_json(usage: Usage) -> Value {
    json!({"prompt_tokens": usage.prompt, "total_tokens": usage.prompt})
}

/// The form of vectors.
pub(crate) struct VectorFraming {
    pub(crate) head: Head,
    pub(crate) vectors: Vectors,
}

impl Framing for VectorFraming {
    fn head(&mut self) -> &mut Head {
        &mut self.head
    }

    fn whole(&mut self, answers: &[Final], usage: Usage) -> Result<Value, ApiError> {
        let found = vectors(answers)?;
        for vector in &found {
            self.vectors.check(vector.len() as u32)?;
        }
        let data = found.into_iter().enumerate();
        let data = data.map(|(index, vector)| {
            let vector = if self.vectors.base64 {
                let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
                Value::from(STANDARD.encode(bytes))
            } else {
                json!(vector)
            };
            json!({"object": "embedding", "index": index, "embedding": vector})
        });
        Ok(json!({
            "object": "list",
            "data": data.collect::<Vec<_>>(),
            "model": self.head.model,
            "usage": usage_json(usage),
        }))
    }

    fn piece(&mut self, _: usize, _: &OwnedPiece, _: &mut Vec<u8>) {}

    fn end(&mut self, _: &[Final], _: Usage, _: &mut Vec<u8>) {}
}

/// The form of ranks.
pub(crate) struct RankFraming {
    pub(crate) head: Head,
    pub(crate) ranks: Ranks,
    pub(crate) documents: Vec<String>,
    /// Whether one record has the whole ranking.
    pub(crate) whole: bool,
}

impl Framing for RankFraming {
    fn head(&mut self) -> &mut Head {
        &mut self.head
    }

    fn whole(&mut self, answers: &[Final], usage: Usage) -> Result<Value, ApiError> {
        let ranked = match self.whole {
            true => self.ranking(answers)?,
            false => by_cosine(&vectors(answers)?),
        };
        let results = ranked.into_iter().take(self.ranks.top);
        let results = results.map(|Ranked { index, score }| {
            let mut result = json!({"index": index, "relevance_score": score});
            if self.ranks.documents {
                result["document"] = json!({"text": self.documents.get(index)});
            }
            result
        });
        Ok(json!({
            "id": format!("rerank-{}", self.head.id),
            "object": "list",
            "model": self.head.model,
            "results": results.collect::<Vec<_>>(),
            "usage": usage_json(usage),
        }))
    }

    fn piece(&mut self, _: usize, _: &OwnedPiece, _: &mut Vec<u8>) {}

    fn end(&mut self, _: &[Final], _: Usage, _: &mut Vec<u8>) {}
}

impl RankFraming {
    /// What the pipeline says of the documents, in its order: operators may have changed it.
    fn ranking(&self, answers: &[Final]) -> Result<Vec<Ranked>, ApiError> {
        let known = |ranked: &Ranked| ranked.index < self.documents.len();
        let ranking = answers.first().and_then(|answer| answer.ranking.clone());
        let ranking = ranking.filter(|ranking| ranking.iter().all(known));
        ranking.ok_or_else(|| {
            let member = "ranking".to_owned();
            ApiError::failed(&Failure::NoAnswer { member }, "documents")
        })
    }
}

/// Documents by the vectors of them, behind that of the query.
fn by_cosine(vectors: &[&[f32]]) -> Vec<Ranked> {
    let Some((query, documents)) = vectors.split_first() else {
        return Vec::new();
    };
    let ranked = documents
        .iter()
        .enumerate()
        .map(|(index, document)| Ranked {
            index,
            score: cosine(query, document),
        });
    let mut ranked: Vec<Ranked> = ranked.collect();
    // Equal ones stay in order.
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranked
}

/// The cosine of the angle between two vectors; 0 where there is none.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return 0.0;
    }
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y));
        products.sum()
    };
    let length = (dot(a, a) * dot(b, b)).sqrt();
    if length > 0.0 {
        (dot(a, b) / length) as f32
    } else {
        0.0
    }
}
