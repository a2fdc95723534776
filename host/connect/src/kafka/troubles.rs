//! What a source asks its brokers, and the trouble it has with each question: only an answer to the same ends it.

use std::time::Duration;

use tidegate_contract::SourceError;

use super::Trouble;
use super::client::SETTLING;
use super::source::KafkaSource;

/// What a source asks of its brokers, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Records, and whether the brokers are there.
    Records,
    /// Where partitions begin that are assigned.
    Begin,
    /// How far others have read.
    Others,
    /// That positions are taken.
    Take,
}

/// One for each question.
#[derive(Debug)]
pub(super) struct Troubles([Trouble; 4]);

impl Troubles {
    pub(super) fn new(patience: Duration) -> Troubles {
        // A group that nobody knew has no coordinator for a moment, and one of whose members was killed no positions.
        let trouble = |number| match number == Question::Records as usize {
            true => Trouble::new(patience),
            false => Trouble::new(patience).quiet_for(SETTLING),
        };
        Troubles(std::array::from_fn(trouble))
    }

    pub(super) fn with(&mut self, question: Question) -> &mut Trouble {
        &mut self.0[question as usize]
    }

    /// Whether there is any.
    pub(super) fn are_there(&self) -> bool {
        self.0.iter().any(Trouble::is_on)
    }
}

impl KafkaSource {
    /// What is asked after, for the log.
    fn asked(&self, question: Question) -> String {
        let (group, place) = (&self.options.group, &self.place);
        match question {
            Question::Records => place.clone(),
            Question::Begin => format!("begin of {place} for group {group}"),
            Question::Others => format!("positions of group {group} in {place}"),
            Question::Take => format!("group {group} for {place}"),
        }
    }

    /// A question has no answer (again, still); an error once that has lasted too long.
    pub(super) fn note_trouble(
        &mut self,
        question: Question,
        why: &str,
    ) -> Result<(), SourceError> {
        let asked = self.asked(question);
        let noted = self.troubles.with(question).note(&asked, why);
        noted.map_err(|why| match question {
            Question::Take => SourceError::Commit { place: asked, why },
            _ => self.read_error(why),
        })
    }

    /// A question is answered.
    pub(super) fn clear_trouble(&mut self, question: Question) {
        if self.troubles.with(question).is_on() {
            let asked = self.asked(question);
            self.troubles.with(question).clear(&asked);
        }
    }
}
