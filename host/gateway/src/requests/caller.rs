//! One who waits for a record.

use std::sync::{Arc, Mutex};

use tidegate_contract::{Answer, CallerId, Terms};
use tokio::sync::mpsc::UnboundedSender;

use super::listening::Shown;
use super::places::Place;
use super::spending::Spending;
use super::{Failure, Heard, Patience, Reply, Written, lock};

/// One who waits.
pub(super) struct Caller {
    pub(super) id: CallerId,
    terms: Terms,
    /// Whose deadline counts, where others may join.
    pub(super) patience: Option<Patience>,
    /// Whether pieces are heard, and most of them.
    pub(super) pieces: Option<usize>,
    /// Which record of the request it is.
    pub(super) tag: usize,
    pub(super) ways: Ways,
    pub(super) state: Mutex<State>,
}

/// How one waits.
pub(super) struct Asks {
    pub(super) terms: Terms,
    pub(super) patience: Option<Patience>,
    /// Most pieces that are heard, if any are.
    pub(super) pieces: Option<usize>,
    /// Which record of the request it is.
    pub(super) tag: usize,
    /// Pieces of the record that have not ended.
    pub(super) left: usize,
}

/// What a record has of its request.
pub(super) struct Ways {
    pub(super) to: UnboundedSender<(usize, Heard)>,
    /// Where it waits; none where more was left by an earlier process than there are places.
    pub(super) place: Option<Place>,
    /// What it costs.
    pub(super) spending: Arc<Spending>,
}

/// What is known of a record.
pub(super) struct State {
    /// Pieces of the record that have not ended.
    pub(super) left: usize,
    /// The model that has begun last.
    begun: Option<String>,
    /// Why there will be no answer, if it stays so.
    why: Option<Failure>,
    /// What the piece brings that comes to the sink just now.
    pub(super) answer: Option<Arc<Answer>>,
    pub(super) shown: Shown,
    /// A piece came to the gateway, and had no answer.
    pub(super) came_without: bool,
    /// Nothing more is heard.
    pub(super) over: bool,
    /// There is no answer.
    pub(super) failed: bool,
}

impl Caller {
    pub(super) fn new(id: CallerId, asks: Asks, ways: Ways) -> Caller {
        Caller {
            id,
            terms: asks.terms,
            patience: asks.patience,
            pieces: asks.pieces,
            tag: asks.tag,
            ways,
            state: Mutex::new(State {
                left: asks.left,
                begun: None,
                why: None,
                answer: None,
                shown: Shown::default(),
                came_without: false,
                over: false,
                failed: false,
            }),
        }
    }

    /// How it wants to be served, as of now.
    pub(super) fn terms(&self) -> Terms {
        let patience = self.patience.as_ref();
        let latest = patience.map(|patience| patience.deadline().into_std());
        Terms {
            deadline: latest.or(self.terms.deadline),
            ..self.terms
        }
    }

    /// Whether there will be no answer.
    pub(super) fn has_failed(&self) -> bool {
        lock(&self.state).failed
    }

    /// Whether nothing more is heard of it.
    pub(super) fn is_over(&self) -> bool {
        lock(&self.state).over
    }

    /// A model has begun to answer it, or it has ended.
    pub(super) fn waits_no_more(&self) {
        if let Some(place) = &self.ways.place {
            place.free();
        }
    }

    /// Says something; whoever has gone hears nothing.
    pub(super) fn say(&self, heard: Heard) {
        if !matches!(heard, Heard::Piece(_)) {
            // Before it is told: whoever asks next counts on it.
            self.waits_no_more();
        }
        let _ = self.ways.to.send((self.tag, heard));
    }

    /// A model has begun to answer.
    pub(super) fn begun(&self, model: &str) {
        let mut state = lock(&self.state);
        if state.over || state.begun.as_deref() == Some(model) {
            return;
        }
        state.begun = Some(model.to_owned());
        // Under the lock, so that no piece comes before it.
        self.say(Heard::Begun(model.to_owned()));
    }

    /// The first answer counts.
    pub(super) fn answer(&self, written: Written) {
        let reply = {
            let mut state = lock(&self.state);
            if std::mem::replace(&mut state.over, true) {
                return;
            }
            Reply {
                written,
                answer: state.answer.take(),
                shown: state.shown.take(),
            }
        };
        self.say(Heard::Answered(Box::new(reply)));
    }

    /// There is no answer. Returns whether that is news.
    pub(super) fn fail(&self, failure: Failure) -> bool {
        let news = {
            let mut state = lock(&self.state);
            let news = !std::mem::replace(&mut state.over, true);
            state.failed |= news;
            news
        };
        if news {
            self.say(Heard::Failed(failure));
        }
        news
    }

    /// The model's answer, where the sink has to compare.
    pub(super) fn model_text(&self) -> Option<String> {
        let state = lock(&self.state);
        match &state.answer.as_ref()?.made {
            tidegate_contract::Made::Choices(choices) => Some(choices.first()?.text.clone()),
            _ => None,
        }
    }
}

impl State {
    /// A piece has ended: with the last one, why there is no answer. Of several reasons the gravest is told.
    pub(super) fn ended(&mut self, why: Failure) -> Option<Failure> {
        let grave = |why: &Failure| match why {
            Failure::Dead { .. } => 3,
            Failure::NoAnswer { .. } => 2,
            Failure::Dropped { .. } => 1,
            _ => 0,
        };
        if self.why.as_ref().is_none_or(|old| grave(old) < grave(&why)) {
            self.why = Some(why);
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.why.take()
        } else {
            None
        }
    }
}
