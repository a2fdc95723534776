//! Tokens beside the cuts, through crashes at any fsync: whoever reads along ends with what was committed, though each
//! life of the process answers in other words. In its first life one answer has no end, and no other begins before it: so
//! every crash comes, and nearly all of them take back what was shown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
/// The prompt of the first record.
const FIRST: &str = "k1 1";
/// No crash takes longer to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers with numbers of its own, after those that are there already, and tells each as it is made.
struct Drifting {
    life: u32,
    /// The answer to the first record goes on until this disk has crashed.
    until_crash: Option<MemoryDisk>,
    /// That answer has begun.
    begun: Arc<AtomicBool>,
}

impl Drifting {
    fn new(life: u32, until_crash: Option<MemoryDisk>) -> Arc<Drifting> {
        let begun = Arc::new(AtomicBool::new(until_crash.is_none()));
        Arc::new(Drifting {
            life,
            until_crash,
            begun,
        })
    }
}

impl Model for Drifting {
    fn submit(&self, mut request: Request) -> Result<(), (Request, ModelError)> {
        let (prompt, forced) = asked(&request);
        let (life, begun) = (self.life, self.begun.clone());
        let crashes = self.until_crash.clone().filter(|_| prompt == FIRST);
        std::thread::spawn(move || {
            let until = Instant::now() + PATIENCE;
            let has_time = || Instant::now() < until;
            while crashes.is_none() && !begun.load(Ordering::SeqCst) && has_time() {
                std::thread::sleep(Duration::from_micros(50));
            }
            let goes_on = |made: usize| match &crashes {
                Some(disk) => !disk.has_crashed() && has_time(),
                None => made < TOKENS,
            };
            let mut text = format!("{{\"asked\":\"{prompt}\",\"said\":[");
            let (mut told, mut tokens) = (0, forced.clone());
            let mut index = 0;
            while index < tokens.len() || goes_on(index) {
                if index == tokens.len() {
                    tokens.push(life * 1000 + index as u32);
                }
                let token = tokens[index];
                let comma = if index == 0 { "" } else { "," };
                text.push_str(&format!("{comma}{token}"));
                request.reply.piece(&Piece {
                    choice: 0,
                    index: index as u32,
                    lane: Lane::Content,
                    text: &text[told..],
                    begins: None,
                    logprobs: &[],
                });
                told = text.len();
                if index >= forced.len() {
                    request.reply.token(index as u32, token, "");
                    std::thread::sleep(Duration::from_micros(50));
                }
                index += 1;
                begun.store(true, Ordering::SeqCst);
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
    let (mut crashes, mut taken_back) = (0, 0);
    for sync in (1..120).step_by(4) {
        let kept = Arc::<Kept>::default();
        let mut setting = Setting::new(40, Some(Order::Key));
        setting.feeds = vec![kept.clone()];
        let disk = MemoryDisk::new();
        disk.crash_at(match sync % 8 {
            1 => Crash::BeforeSync(sync),
            _ => Crash::AfterSync(sync),
        });
        if let Ok(run) = setting.start(&disk, Drifting::new(1, Some(disk.clone()))) {
            run.join();
        }
        assert!(disk.has_crashed(), "no fsync {sync}");
        crashes += 1;
        let after = disk.restart(9);
        let run = setting.start(&after, Drifting::new(2, None));
        let ended = run.unwrap().join();
        assert!(ended.error.is_none(), "{:?}", ended.error);

        let mut reader = TokenReader::default();
        let events = std::mem::take(&mut *kept.0.lock().unwrap());
        let mut replaced = 0;
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
        taken_back += usize::from(replaced > 0);
    }
    assert!(
        taken_back > crashes / 2,
        "{taken_back} of {crashes} crashes took back what was read"
    );
}
