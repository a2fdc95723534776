//! Parts of answers: who is given them, and how the end of one of several is told.

use crossbeam_channel::{Sender, unbounded};
use tidegate_contract::{Answer, Made, Model, ModelError, Piece, Reply, TokenLogprob};

use super::support::*;
use crate::ModelOptions;

/// What a reply is told.
#[derive(Debug)]
enum Told {
    Piece(u32),
    Ended(u32),
    Done(Result<Answer, ModelError>),
}

struct Listens {
    wants: bool,
    told: Sender<Told>,
}

impl Reply for Listens {
    fn token(&mut self, _: u32, _: u32, _: &str) {}

    fn piece(&mut self, piece: &Piece<'_>) {
        self.told.send(Told::Piece(piece.choice)).unwrap();
    }

    fn wants_pieces(&self) -> bool {
        self.wants
    }

    fn choice_ended(&mut self, choice: u32) {
        self.told.send(Told::Ended(choice)).unwrap();
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        self.told.send(Told::Done(result)).unwrap();
    }
}

fn told(asked: &Ask, wants: bool) -> Vec<Told> {
    let (_engine, model, control) = free(shape(4, 64, 128), ModelOptions::default());
    let (told, heard) = unbounded();
    let request = asked.request_to(1 << 40, Box::new(Listens { wants, told }));
    assert!(model.submit(request).is_ok());
    let mut all = Vec::new();
    loop {
        all.push(heard.recv_timeout(LIMIT).unwrap());
        if matches!(all.last(), Some(Told::Done(_))) {
            break;
        }
    }
    control.is_sound();
    all
}

fn answer(told: &[Told]) -> &Answer {
    match told.last() {
        Some(Told::Done(Ok(answer))) => answer,
        other => panic!("no answer but {other:?}"),
    }
}

/// Of three answers of different lengths.
fn of_three() -> Ask {
    let mut asked = ask("x", 24);
    asked.parameters.n = 3;
    asked.parameters.temperature = 2.0;
    asked.parameters.stop = vec!["a".into(), "e".into()];
    asked.parameters.logprobs = Some(1);
    asked
}

#[test]
fn an_answer_that_ends_before_the_others_says_so_and_no_part_of_it_comes_after() {
    for seed in 0..20 {
        let mut asked = of_three();
        asked.seed = seed;
        let told = told(&asked, true);
        let mut ended = Vec::new();
        for one in &told {
            match one {
                Told::Piece(choice) => assert!(!ended.contains(choice), "{told:?}"),
                Told::Ended(choice) => ended.push(*choice),
                Told::Done(_) => {}
            }
        }
        ended.sort_unstable();
        ended.dedup();
        assert_eq!(ended.len(), 2, "the last ends with the whole: {told:?}");
    }
}

#[test]
fn one_who_wants_no_parts_is_given_none_and_has_the_same_answer() {
    for (n, seed) in [(1, 3), (3, 4)] {
        let mut asked = of_three();
        (asked.parameters.n, asked.seed) = (n, seed);
        let (with, without) = (told(&asked, true), told(&asked, false));
        assert!(with.len() > without.len());
        assert_eq!(without.len(), 1, "{without:?}");
        let made = |told| answer(told).made.clone();
        assert_eq!(made(&with), made(&without));
        let Made::Choices(choices) = made(&without) else {
            panic!("texts were asked for");
        };
        let likely: Vec<&TokenLogprob> = choices.iter().flat_map(|one| &one.logprobs).collect();
        assert!(!likely.is_empty());
    }
}
