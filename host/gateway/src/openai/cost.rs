//! What a request costs, as far as that is known before it is asked: its prompts' tokens, and the most of its answers.

use tidegate_contract::{AskingRecord, ModelError};

use super::asking::{Asking, Question};
use super::route::{Count, Route};

/// Longer tokens are hardly to be found: some vocabularies have long runs of spaces.
const TOKEN_BYTES: usize = 64;

/// Tokens of each prompt, which must fit, and leave room for a token of an answer. Of a text that cannot fit, as few as its
/// bytes can be.
pub(super) fn count(
    count: Option<&Count>,
    limit: u32,
    asking: &Asking,
) -> Result<Vec<u64>, ModelError> {
    let Some(count) = count else {
        return Ok(vec![0; asking.questions.len()]);
    };
    let most = (limit as usize).saturating_sub(usize::from(asking.endpoint.has_pieces()));
    let counted = asking.questions.iter().map(|question| {
        if !question.documents.is_empty() {
            return pairs(count, most, question);
        }
        let tokens = match question.least_tokens() {
            // A long text takes long to be cut into tokens, and much memory: nobody waits for what is too long anyway.
            least if least > most => least,
            _ => count(&question.counted())?.tokens,
        };
        if tokens > most {
            return Err(ModelError::PromptTooLong {
                tokens,
                limit: most,
            });
        }
        Ok(tokens as u64)
    });
    counted.collect()
}

/// Tokens of a query with each of its documents. What is too long for the model is cut, and not refused.
fn pairs(count: &Count, most: usize, question: &Question) -> Result<u64, ModelError> {
    let tokens = |text: &String| match text.len() / TOKEN_BYTES {
        least if least > most => Ok(most),
        _ => {
            let prompt = Some(text.clone());
            let record = AskingRecord {
                prompt,
                ..AskingRecord::default()
            };
            Ok(count(&record)?.tokens)
        }
    };
    let query = question.input.as_ref().map_or(Ok(0), tokens)?;
    let documents = question.documents.iter();
    let pairs = documents.map(|document| Ok((query + tokens(document)?).min(most) as u64));
    pairs.sum()
}

impl Question {
    /// No fewer tokens than this, as no token has more bytes than some.
    fn least_tokens(&self) -> usize {
        let texts = self.asking.messages.iter().map(|message| &message.content);
        let texts = texts.chain(&self.asking.prompt).chain(&self.input);
        texts.map(String::len).sum::<usize>() / TOKEN_BYTES
    }
}

/// Most tokens of one answer.
fn most_answer(route: &Route, question: &Question) -> u64 {
    let most = route.bounds.answer_tokens;
    let wanted = question.asking.parameters.max_tokens;
    u64::from(wanted.map_or(most, |wanted| wanted.min(most)))
}

/// Most tokens of all answers.
pub(super) fn most_tokens(route: &Route, asking: &Asking) -> u64 {
    if !asking.endpoint.has_pieces() {
        return 0;
    }
    let answers = asking.questions.iter();
    answers
        .map(|each| most_answer(route, each) * u64::from(each.n()))
        .sum()
}

/// Most pieces of one record, where they are shown: a token makes one, and the end of each lane may make another.
pub(super) fn pieces(route: &Route, asking: &Asking) -> Option<usize> {
    let shown = asking.stream && asking.endpoint.has_pieces();
    let answers = asking.questions.iter();
    let most = answers.map(|each| (2 * most_answer(route, each) + 64) * u64::from(each.n()));
    shown.then(|| most.max().unwrap_or(0) as usize)
}
