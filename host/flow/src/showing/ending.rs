//! The end of a request: what its model has not told piece by piece, and what the answer is after its handlers.

use tidegate_contract::{Answer, AnswerEnd, Call, Choice, Finish, Lane, Made, ModelError};

use super::Showing;
use crate::handlers::Halt;
use crate::pieces::{OwnedPiece, Part};

/// How the request of an answer stands that is shown.
#[derive(Debug)]
pub(crate) enum Stands {
    /// More may come of it.
    Open,
    /// It has ended, and what came of it before may still have to go through handlers.
    Said(Box<Result<Answer, ModelError>>),
    /// The answer is there, and what is left of it among the parts.
    Whole(Box<Answer>),
}

/// What becomes of an answer of which everything has gone through.
pub(crate) enum Finished {
    /// Its model may say more.
    NotYet,
    /// Its model has no answer. Whoever sees it sees the next attempt too.
    Refused(ModelError),
    /// Handlers have ended it, and its model says nothing of it.
    EndedEarly { choices: u32 },
    /// What was let through.
    Answer(Answer),
}

impl Showing {
    /// The request has ended. What came of it before goes first.
    pub(crate) fn answered(&mut self, result: Result<Answer, ModelError>) {
        self.stands = Stands::Said(Box::new(result));
    }

    /// The answer as its model has it: what was not told piece by piece goes through handlers now.
    pub(crate) fn complete(&mut self, answer: Answer) {
        // A vector, or labels, have no text to go through handlers.
        if let Made::Choices(choices) = &answer.made {
            for (number, choice) in choices.iter().enumerate() {
                self.tell_rest(number as u32, choice);
            }
        }
        self.stands = Stands::Whole(Box::new(answer));
    }

    /// Shows what has come as [`Showing::go_on`], and what becomes of the answer where nothing is left of it.
    pub(crate) fn finish(&mut self) -> Result<Finished, Halt> {
        self.go_on()?;
        match std::mem::replace(&mut self.stands, Stands::Open) {
            Stands::Open => Ok(Finished::NotYet),
            Stands::Said(result) => match *result {
                Ok(answer) => {
                    self.complete(answer);
                    self.finish()
                }
                Err(error) if !self.is_ended() => Ok(Finished::Refused(error)),
                // What the handlers let through is the whole answer, whatever became of the rest.
                Err(_) => Ok(Finished::EndedEarly {
                    choices: self.choices,
                }),
            },
            Stands::Whole(mut answer) => {
                if let Made::Choices(choices) = &mut answer.made {
                    for (number, choice) in choices.iter_mut().enumerate() {
                        self.let_through(number as u32, choice);
                    }
                }
                Ok(Finished::Answer(*answer))
            }
        }
    }

    /// What the model has not told of a choice is the rest of it.
    fn tell_rest(&mut self, number: u32, choice: &Choice) {
        let last = choice.tokens.len().saturating_sub(1) as u32;
        let said = [
            (Lane::Reasoning, &choice.reasoning, None),
            (Lane::Content, &choice.text, None),
        ];
        let calls = choice.calls.iter().enumerate().map(|(at, call)| {
            let lane = Lane::Arguments(at as u32);
            (lane, &call.arguments, Some((&call.id, &call.name)))
        });
        for (lane, text, begins) in said.into_iter().chain(calls) {
            let made = self.lanes.get(&(number, lane)).map(|through| through.made);
            let rest = text.get(made.unwrap_or_default()..).unwrap_or_default();
            if rest.is_empty() && (made.is_some() || begins.is_none()) {
                continue;
            }
            let begins = begins.filter(|_| made.is_none());
            self.rest.push_back(Part::Piece(OwnedPiece {
                choice: number,
                index: last,
                lane,
                text: rest.to_owned(),
                begins: begins.map(|(id, name)| (id.clone(), name.clone())),
                logprobs: Vec::new(),
            }));
        }
        self.rest.push_back(Part::ChoiceEnded(number));
    }

    /// A choice is what handlers let through of it.
    fn let_through(&mut self, number: u32, choice: &mut Choice) {
        match self.ended.get(&number) {
            Some(AnswerEnd::Stop) => choice.finish = Finish::Stop,
            Some(AnswerEnd::Filtered) => choice.finish = Finish::Filtered,
            None => {}
        }
        if self.handlers.is_empty() {
            return;
        }
        let text = |lane| match self.lanes.get(&(number, lane)) {
            Some(through) => through.text.clone(),
            None => String::new(),
        };
        let said = text(Lane::Content);
        if number == 0 {
            self.has_handled_first = self.ended.contains_key(&number) || said != choice.text;
        }
        choice.text = said;
        choice.reasoning = text(Lane::Reasoning);
        let calls = self
            .lanes
            .range((number, Lane::Arguments(0))..=(number, Lane::Arguments(u32::MAX)));
        let calls = calls.filter_map(|(_, through)| {
            let (id, name) = through.call.clone()?;
            let arguments = through.text.clone();
            Some(Call {
                id,
                name,
                arguments,
            })
        });
        choice.calls = calls.collect();
        if self.changed.contains(&number) || self.ended.contains_key(&number) {
            choice.logprobs = self.logprobs.remove(&number).unwrap_or_default();
        }
    }
}
