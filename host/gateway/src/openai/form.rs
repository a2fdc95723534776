//! The endpoints' bodies, and the forms of their answers.

use super::asking::{Asking, Question};
use super::chat::ChatFraming;
use super::completions::CompletionFraming;
use super::embeddings::{RankFraming, Ranks, VectorFraming, Vectors};
use super::error::ApiError;
use super::framing::{Framing, Head};
use super::responses::{Echo, ResponseFraming};
use super::route::{Endpoint, Route};
use super::{chat, completions, embeddings, responses};

/// What of a body says how its answer looks, and nothing to the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// With the usage at the end of a stream.
    Chat(bool),
    Completions(bool),
    Responses(Echo),
    Vectors(Vectors),
    Ranks(Ranks),
}

/// Reads a body.
pub(crate) fn read(endpoint: Endpoint, bytes: &[u8]) -> Result<(Asking, Form), ApiError> {
    match endpoint {
        Endpoint::Chat => chat::read(bytes).map(|(asking, usage)| (asking, Form::Chat(usage))),
        Endpoint::Completions => {
            completions::read(bytes).map(|(asking, usage)| (asking, Form::Completions(usage)))
        }
        Endpoint::Responses => {
            responses::read(bytes).map(|(asking, echo)| (asking, Form::Responses(echo)))
        }
        Endpoint::Embeddings => {
            embeddings::read(bytes).map(|(asking, vectors)| (asking, Form::Vectors(vectors)))
        }
        Endpoint::Rerank => {
            embeddings::read_rerank(bytes).map(|(asking, ranks)| (asking, Form::Ranks(ranks)))
        }
    }
}

impl Form {
    /// What only the route can say of it.
    pub(crate) fn check(&self, route: &Route) -> Result<(), ApiError> {
        match (self, route.bounds.dimensions) {
            (Form::Vectors(vectors), Some(has)) => vectors.check(has),
            _ => Ok(()),
        }
    }

    /// The form of the answer.
    pub(crate) fn framing(self, head: Head, asking: &Asking) -> Box<dyn Framing> {
        let n = asking.questions.first().map_or(1, Question::n);
        match self {
            Form::Chat(usage) => Box::new(ChatFraming::new(head, usage, n)),
            Form::Completions(usage) => {
                let prompts = asking.questions.len();
                Box::new(CompletionFraming::new(head, usage, prompts, n))
            }
            Form::Responses(echo) => Box::new(ResponseFraming::new(head, echo)),
            Form::Vectors(vectors) => Box::new(VectorFraming { head, vectors }),
            Form::Ranks(ranks) => {
                let whole = (asking.questions.first())
                    .is_some_and(|question| !question.documents.is_empty());
                let documents = match asking.questions.first() {
                    Some(question) if whole => question.documents.clone(),
                    _ => {
                        let texts = asking.questions.iter().skip(1);
                        texts
                            .filter_map(|question| question.input.clone())
                            .collect()
                    }
                };
                Box::new(RankFraming {
                    head,
                    ranks,
                    documents,
                    whole,
                })
            }
        }
    }
}
