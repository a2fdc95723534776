//! Tokens beside the cuts, through crashes at any fsync: whoever reads along ends with what was committed, though each
//! life of the process answers in other words.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_codec::tokens::{
    OwnedEvent, OwnedWhat, State, TokenReader, encode_token_event, parse_token_event,
};
use tidegate_contract::{
    Lane, Model, ModelError, ModelFacts, Piece, Request, TokenEvent, TokenFeed,
};
use tidegate_flow::Order;
use tidegate_state::{Crash, MemoryDisk};

use crate::crash::{Setting, files};
use crate::native::{answer, asked, facts, tokens_are_bytes};

const TOKENS: usize = 20;

/// Answers with numbers of its own, after those that are there already, and tells each as it is made.
struct Drifting {
    life: u32,
}

impl Model for Drifting {
    fn submit(&self, mut request: Request) -> Result<(), (Request, ModelError)> {
        let (prompt, forced) = asked(&request);
        let mut tokens = forced.clone();
        tokens.extend((forced.len()..TOKENS).map(|index| self.life * 1000 + index as u32));
        std::thread::spawn(move || {
            let mut text = format!("{{\"asked\":\"{prompt}\",\"said\":[");
            let mut told = 0;
            for (index, token) in tokens.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                text.push_str(&format!("{comma}{token}"));
                let index = index as u32;
                request.reply.piece(&Piece {
                    choice: 0,
                    index,
                    lane: Lane::Content,
                    text: &text[told..],
                    begins: None,
                    logprobs: &[],
                });
                told = text.len();
                if index as usize >= forced.len() {
                    request.reply.token(index, *token, "");
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
            text.push_str("]}");
            request.reply.done(Ok(answer(text, tokens)));
        });
        Ok(())
    }
    tokens_are_bytes!();
    fn facts(&self) -> ModelFacts {
        facts()
    }
}

/// Keeps what it is sent, over all lives.
#[derive(Default)]
struct Kept(Mutex<Vec<OwnedEvent>>);

impl TokenFeed for Kept {
    fn send(&self, event: &TokenEvent<'_>) -> bool {
        let event = parse_token_event(&encode_token_event(event)).unwrap();
        self.0.lock().unwrap().push(event);
        true
    }
}

#[test]
fn whoever_reads_tokens_ends_with_the_committed_answers_wherever_the_process_crashed() {
    let (mut crashes, mut replaced) = (0, 0);
    for sync in (1..120).step_by(4) {
        let kept = Arc::<Kept>::default();
        let mut setting = Setting::new(40, Some(Order::Key));
        setting.feeds = vec![kept.clone()];
        let disk = MemoryDisk::new();
        disk.crash_at(match sync % 8 {
            1 => Crash::BeforeSync(sync),
            _ => Crash::AfterSync(sync),
        });
        if let Ok(run) = setting.start(&disk, Arc::new(Drifting { life: 1 })) {
            run.join();
        }
        if !disk.has_crashed() {
            continue;
        }
        crashes += 1;
        let after = disk.restart(9);
        let run = setting.start(&after, Arc::new(Drifting { life: 2 }));
        let ended = run.unwrap().join();
        assert!(ended.error.is_none(), "{:?}", ended.error);

        let mut reader = TokenReader::default();
        let events = std::mem::take(&mut *kept.0.lock().unwrap());
        for event in &events {
            reader.take(event);
        }
        let mut read: Vec<String> = reader
            .requests()
            .map(|request| {
                assert_eq!(reader.state(request), Some(State::Complete), "{request}");
                let answer = reader.answer(request).unwrap();
                let attempts = events.iter().filter(|event| event.request == request);
                let before = |event: &&OwnedEvent| event.attempt < answer.attempt;
                let is_text = |event: &&OwnedEvent| matches!(event.what, OwnedWhat::Text { .. });
                replaced += usize::from(attempts.filter(is_text).any(|event| before(&event)));
                answer.choices[0].lanes[&Lane::Content].clone()
            })
            .collect();
        let (answers, _) = files(&after);
        let mut committed: Vec<&str> = answers.lines().collect();
        read.sort();
        committed.sort_unstable();
        assert_eq!(read, committed, "crash at fsync {sync}");
    }
    assert!(crashes > 5, "only {crashes} crashes happened");
    assert!(replaced > 0, "no answer was read that a crash took back");
}
