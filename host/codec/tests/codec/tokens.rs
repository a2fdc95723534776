//! The reader of tokens: whatever comes, and however often, it ends with what was committed.

use proptest::prelude::*;
use tidegate_codec::tokens::{
    Change, OwnedChoiceEnd, OwnedEvent, OwnedWhat, ReaderLimits, State, TokenReader,
};
use tidegate_contract::Lane;

fn event(attempt: u64, what: OwnedWhat) -> OwnedEvent {
    OwnedEvent {
        request: "ask/0/0/1".into(),
        key: None,
        attempt,
        what,
    }
}

fn text(attempt: u64, at: u64, text: &str) -> OwnedEvent {
    let what = OwnedWhat::Text {
        choice: 0,
        lane: Lane::Content,
        at,
        index: 0,
        text: text.into(),
        call: None,
    };
    event(attempt, what)
}

fn reset(attempt: u64, from: u64) -> OwnedEvent {
    event(attempt, OwnedWhat::Reset { from })
}

fn end(attempt: u64, lengths: &[(Lane, u64)]) -> OwnedEvent {
    let choices = vec![OwnedChoiceEnd {
        choice: 0,
        finish: "end".into(),
        lanes: lengths.to_vec(),
    }];
    event(attempt, OwnedWhat::End { choices })
}

fn content(length: u64) -> Vec<(Lane, u64)> {
    vec![(Lane::Content, length)]
}

/// A reader, and what someone has before their eyes who does what it says.
#[derive(Default)]
struct Watched {
    reader: TokenReader,
    screen: Vec<char>,
    changes: Vec<Change>,
}

impl Watched {
    fn take(&mut self, event: &OwnedEvent) {
        for change in self.reader.take(event) {
            assert_eq!(change.lane, Lane::Content);
            assert!(change.keep <= self.screen.len() as u64);
            self.screen.truncate(change.keep as usize);
            self.screen.extend(change.text.chars());
            self.changes.push(change);
        }
    }

    fn state(&self) -> State {
        self.reader.state("ask/0/0/1").unwrap()
    }

    fn text(&self) -> String {
        let answer = self.reader.answer("ask/0/0/1").unwrap();
        let choice = answer.choices.first();
        let text = choice.and_then(|choice| choice.lanes.get(&Lane::Content));
        text.cloned().unwrap_or_default()
    }

    fn screen(&self) -> String {
        self.screen.iter().collect()
    }
}

#[test]
fn what_was_sent_twice_is_shown_once_and_what_is_missing_is_known() {
    let mut watched = Watched::default();
    watched.take(&reset(7, 0));
    watched.take(&text(7, 0, "It "));
    watched.take(&text(7, 0, "It is"));
    assert_eq!(
        (watched.screen(), watched.state()),
        ("It is".into(), State::Open)
    );
    watched.take(&text(7, 8, "late"));
    assert_eq!(
        (watched.screen(), watched.state()),
        ("It is".into(), State::Gap)
    );
    watched.take(&end(7, &content(12)));
    assert_eq!(watched.state(), State::Gap);
    watched.take(&text(7, 5, " a "));
    assert_eq!(watched.screen(), "It is a late");
    assert_eq!(watched.state(), State::Complete);
}

#[test]
fn a_higher_attempt_that_says_the_same_moves_nothing_and_one_that_does_not_replaces_the_rest() {
    let mut watched = Watched::default();
    watched.take(&reset(7, 0));
    watched.take(&text(7, 0, "It is so"));
    watched.take(&reset(9, 0));
    watched.take(&text(9, 0, "It is"));
    assert_eq!(
        (watched.screen(), watched.changes.len()),
        ("It is so".into(), 1)
    );
    watched.take(&text(7, 8, " and so"));
    assert_eq!(watched.screen(), "It is so", "the lower one is void");
    watched.take(&text(9, 5, " not."));
    let change = watched.changes.last().unwrap();
    assert_eq!((change.keep, change.text.as_str()), (6, "not."));
    watched.take(&end(9, &content(10)));
    assert_eq!(
        (watched.screen(), watched.state()),
        ("It is not.".into(), State::Complete)
    );
    watched.take(&end(7, &content(8)));
    assert_eq!(watched.state(), State::Complete);
}

#[test]
fn a_shorter_answer_takes_the_rest_of_the_longer_away_when_it_is_whole() {
    let mut watched = Watched::default();
    watched.take(&text(7, 0, "It is so"));
    watched.take(&reset(9, 0));
    watched.take(&text(9, 0, "It"));
    assert_eq!(watched.screen(), "It is so");
    watched.take(&end(9, &content(2)));
    assert_eq!(
        (watched.screen(), watched.state()),
        ("It".into(), State::Complete)
    );
}

#[test]
fn an_answer_that_is_lost_may_come_with_a_later_attempt() {
    let mut watched = Watched::default();
    watched.take(&text(7, 0, "It"));
    watched.take(&event(7, OwnedWhat::Lost));
    assert_eq!(watched.state(), State::Lost);
    watched.take(&reset(8, 0));
    assert_eq!(watched.state(), State::Open);
}

#[test]
fn what_a_reader_keeps_is_bounded() {
    let limits = ReaderLimits {
        answers: 2,
        bytes: 4,
    };
    let mut reader = TokenReader::new(limits);
    for request in ["a", "b", "a", "c"] {
        let mut event = text(1, 0, "it");
        event.request = request.into();
        reader.take(&event);
    }
    assert_eq!(
        reader.state("b"),
        None,
        "nothing was heard of it for longest"
    );
    assert_eq!(reader.state("a"), Some(State::Open));
    let mut long = text(1, 2, "too long");
    long.request = "a".into();
    assert!(reader.take(&long).is_empty());
    assert_eq!(reader.state("a"), Some(State::Gap));
    reader.forget("a");
    assert_eq!(reader.requests().collect::<Vec<_>>(), ["c"]);
}

/// An attempt: what it says from where it begins, in pieces of such lengths, and how much of it was sent.
#[derive(Clone, Debug)]
struct Said {
    from: prop::sample::Index,
    text: String,
    pieces: Vec<usize>,
    sent: prop::sample::Index,
}

fn said() -> impl Strategy<Value = Said> {
    let pieces = prop::collection::vec(1..5usize, 1..6);
    let index = any::<prop::sample::Index>;
    (index(), "[ab é😀]{0,20}", pieces, index()).prop_map(|(from, text, pieces, sent)| Said {
        from,
        text,
        pieces,
        sent,
    })
}

/// The events of attempts of which each but the last was killed, and the text of the last.
fn events(attempts: &[Said]) -> (Vec<OwnedEvent>, String) {
    let mut events = Vec::new();
    let mut there: Vec<char> = Vec::new();
    for (number, said) in attempts.iter().enumerate() {
        let attempt = 10 + number as u64;
        // Of what is there, so much stays.
        let from = said.from.index(there.len() + 1);
        there.truncate(from);
        events.push(reset(attempt, from as u64));
        let text_of: Vec<char> = said.text.chars().collect();
        let is_last = number + 1 == attempts.len();
        let most = match is_last {
            true => text_of.len(),
            false => said.sent.index(text_of.len() + 1),
        };
        let mut sizes = said.pieces.iter().cycle();
        let mut at = 0;
        while at < most {
            let size = (*sizes.next().unwrap()).min(most - at);
            let piece: String = text_of[at..at + size].iter().collect();
            events.push(text(attempt, (from + at) as u64, &piece));
            at += size;
        }
        there.extend(&text_of[..most]);
        if is_last {
            events.push(end(attempt, &content(there.len() as u64)));
        }
    }
    (events, there.into_iter().collect())
}

proptest! {
    #[test]
    fn kills_resets_and_suffixes_sent_again_give_the_committed_text(
        attempts in prop::collection::vec(said(), 1..5),
        again in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
    ) {
        let (events, committed) = events(&attempts);
        // A producer that tries again, or a reader that goes back: some of the last come once more.
        let mut sent = events.clone();
        for (place, back) in again {
            let place = place.index(sent.len()) + 1;
            let back = back.index(place);
            let suffix: Vec<OwnedEvent> = sent[back..place].to_vec();
            sent.splice(place..place, suffix);
        }
        let mut watched = Watched::default();
        for event in &sent {
            watched.take(event);
        }
        prop_assert_eq!(watched.state(), State::Complete);
        prop_assert_eq!(watched.text(), committed.clone());
        prop_assert_eq!(watched.screen(), committed);
    }

    #[test]
    fn in_any_order_and_however_often_the_committed_text_is_what_is_left(
        (sent, committed) in prop::collection::vec(said(), 1..5).prop_flat_map(|attempts| {
            let (events, committed) = events(&attempts);
            let twice = events.clone().into_iter().chain(events).collect::<Vec<_>>();
            (Just(twice).prop_shuffle(), Just(committed))
        }),
    ) {
        let mut watched = Watched::default();
        for event in &sent {
            watched.take(event);
        }
        prop_assert_eq!(watched.state(), State::Complete);
        prop_assert_eq!(watched.text(), committed.clone());
        prop_assert_eq!(watched.screen(), committed);
    }
}
