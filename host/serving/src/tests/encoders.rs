//! Models that turn whole texts into vectors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tidegate_contract::{
    Aggregation, CLASS_BESIDE, DecodeError, Encoder, EncoderOutput, EncoderText, MOST_DOCUMENTS,
    Made, Makes, Model, ModelError, ModelTask, ScoreScale,
};
use tidegate_reference::{ReferenceEncoder, golden};
use tidegate_text::{EncodedPair, Tokenizer};
use tidegate_weights::{Checkpoint, ReadWhole};

use super::support::*;
use crate::encoding::{Encoding, EncodingLimits};
use crate::hosted::{Core, Stepped};
use crate::request::{Submission, Work};
use crate::stats::Counters;
use crate::{
    Engine, EngineOptions, LoadError, ModelHandle, ModelLoader, ModelOptions, load_replicas,
};

/// Vectors of two: the number of tokens, and a sum that the order of the tokens changes.
fn vector(text: &[u32]) -> [f32; 2] {
    let sum = (1..).zip(text).map(|(at, token)| at * token).sum::<u32>();
    [text.len() as f32, sum as f32]
}

#[derive(Clone)]
struct Kept {
    calls: Arc<Mutex<Vec<Vec<usize>>>>,
    fails: Arc<Mutex<Option<DecodeError>>>,
    loads: Arc<AtomicU64>,
    gate: Option<(Sender<()>, Receiver<()>)>,
}

struct Fake {
    kept: Kept,
    output: EncoderOutput,
}

impl Encoder for Fake {
    fn output(&self) -> EncoderOutput {
        self.output
    }

    fn width(&self) -> usize {
        match self.output {
            EncoderOutput::Relevance(_) => 1,
            _ => 2,
        }
    }

    fn context(&self) -> usize {
        12
    }

    fn max_rows(&self) -> usize {
        30
    }

    fn memory(&self) -> u64 {
        10
    }

    fn types(&self) -> usize {
        2
    }

    fn encode(
        &mut self,
        texts: &[EncoderText<'_>],
        vectors: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        if let EncoderOutput::Relevance(_) = self.output {
            self.kept.calls.lock().unwrap().push(vec![texts.len()]);
            // As many as tokens of the second type.
            let second = |text: &EncoderText<'_>| text.types.iter().sum::<u32>() as f32;
            *vectors = texts.iter().map(second).collect();
            return Ok(());
        }
        let texts: Vec<&[u32]> = texts.iter().map(|text| text.tokens).collect();
        if let Some((_, gate)) = &self.kept.gate {
            let _ = gate.recv_timeout(LIMIT);
        }
        let mut calls = self.kept.calls.lock().unwrap();
        calls.push(texts.iter().map(|text| text.len()).collect());
        assert!(calls[calls.len() - 1].iter().sum::<usize>() <= 30);
        if texts.iter().any(|text| text.contains(&byte(b'%')))
            && let Some(error) = self.kept.fails.lock().unwrap().clone()
        {
            return Err(error);
        }
        *vectors = match self.output {
            // Upper case letters are in entities.
            EncoderOutput::TokenScores => (texts.iter().copied().flatten())
                .flat_map(|token| match *token >= byte(b'A') && *token <= byte(b'Z') {
                    true => [0.0, 1.0],
                    false => [1.0, 0.0],
                })
                .collect(),
            _ => texts.iter().flat_map(|text| vector(text)).collect(),
        };
        Ok(())
    }
}

fn encoding(
    output: EncoderOutput,
    options: ModelOptions,
    gated: bool,
) -> (Engine, Result<ModelHandle, LoadError>, Kept) {
    let engine = Engine::start(EngineOptions::default());
    let kept = Kept {
        calls: Arc::default(),
        fails: Arc::default(),
        loads: Arc::default(),
        gate: gated.then(unbounded),
    };
    if let Some((open, _)) = &kept.gate {
        open.send(()).unwrap();
    }
    let own = kept.clone();
    let load = move || {
        own.loads.fetch_add(1, Ordering::SeqCst);
        let kept = own.clone();
        Ok(Box::new(Fake { kept, output }) as Box<dyn Encoder>)
    };
    let model = engine.load(
        "encoder",
        source(ModelLoader::Encoder(Box::new(load)), options),
    );
    (engine, model, kept)
}

/// A text of so many tokens.
fn single(tokens: usize) -> EncodedPair {
    EncodedPair {
        tokens: vec![1; tokens],
        types: Vec::new(),
    }
}

fn embedding() -> (Engine, ModelHandle, Kept) {
    let (engine, model, kept) = encoding(EncoderOutput::Embedding, ModelOptions::default(), false);
    (engine, model.unwrap(), kept)
}

fn encode(model: &ModelHandle, text: &str, like: &Ask) -> Pending {
    let (request, pending) = Ask::request_of(ModelTask::Encode { text: text.into() }, like);
    assert!(model.submit(request).is_ok());
    pending
}

#[test]
fn texts_go_together_as_far_as_rows_reach_and_get_their_own_vectors() {
    let (_engine, model, kept) = encoding(EncoderOutput::Embedding, ModelOptions::default(), true);
    let model = model.unwrap();
    let texts: Vec<String> = (0..20).map(|n| "ab".repeat(1 + n % 6)).collect();
    let pending: Vec<Pending> = texts
        .iter()
        .map(|text| encode(&model, text, &ask("", 0)))
        .collect();
    for _ in 0..40 {
        kept.gate.as_ref().unwrap().0.send(()).unwrap();
    }
    for (text, pending) in texts.iter().zip(&pending) {
        let answer = pending.answer();
        assert_eq!(answer.made, Made::Embedding(vector(&bytes(text)).to_vec()));
        assert_eq!(answer.prompt_tokens as usize, text.len());
        assert!(pending.tokens().is_empty());
    }
    let calls = kept.calls.lock().unwrap();
    assert!(calls.iter().any(|call| call.len() > 2), "{calls:?}");
    assert_eq!(model.makes(), Makes::Embeddings);
    assert_eq!(model.stats().answered, 20);
}

#[test]
fn scores_become_probabilities_of_labels() {
    let labels = |labels: &[&str]| ModelOptions {
        labels: labels.iter().map(|label| (*label).into()).collect(),
        ..ModelOptions::default()
    };
    let (_engine, model, _) = encoding(EncoderOutput::Scores, labels(&["no", "yes"]), false);
    let model = model.unwrap();
    assert_eq!(model.makes(), Makes::Labels);
    let text = "\u{0}";
    let Made::Labels(made) = encode(&model, text, &ask("", 0)).answer().made else {
        panic!("labels")
    };
    // Scores 1 and 4.
    let [_, second] = vector(&bytes(text));
    let no = 1.0 / (1.0 + f64::from(second - 1.0).exp());
    assert_eq!((made[0].0.as_str(), made[1].0.as_str()), ("no", "yes"));
    assert!((f64::from(made[0].1) - no).abs() < 1e-6, "{made:?}");
    assert!((made[0].1 + made[1].1 - 1.0).abs() < 1e-6);
    for (output, wrong) in [
        (EncoderOutput::Scores, labels(&["one"])),
        (EncoderOutput::Embedding, labels(&["a", "b"])),
    ] {
        let error = encoding(output, wrong, false).1.unwrap_err();
        assert!(matches!(error, LoadError::Labels { .. }), "{error}");
    }
}

#[test]
fn a_text_that_is_too_long_is_refused_or_cut_and_an_empty_one_refused() {
    let (_engine, model, _) = embedding();
    let too_long = ModelError::PromptTooLong {
        tokens: 13,
        limit: 12,
    };
    let long = "0123456789abc";
    assert_eq!(encode(&model, long, &ask("", 0)).error(), too_long);
    assert!(encode(&model, &long[..12], &ask("", 0)).wait().1.is_ok());
    assert_eq!(
        encode(&model, "", &ask("", 0)).error(),
        ModelError::EmptyPrompt
    );
    assert!(matches!(
        ask("x", 3).of(&model).error(),
        ModelError::WrongTask {
            task: "generate",
            ..
        }
    ));
    let truncate = ModelOptions {
        truncate: true,
        ..ModelOptions::default()
    };
    let (_engine, model, _) = encoding(EncoderOutput::Embedding, truncate, false);
    let answer = encode(&model.unwrap(), long, &ask("", 0)).answer();
    assert_eq!(
        answer.made,
        Made::Embedding(vector(&bytes(&long[..12])).to_vec())
    );
}

#[test]
fn texts_go_by_class_and_deadline_and_can_be_cancelled() {
    // However long it takes, none of them rises by a class.
    let options = ModelOptions {
        aging: Duration::from_secs(3600),
        ..at_once(1)
    };
    let (_engine, model, kept) = encoding(EncoderOutput::Embedding, options, true);
    let model = model.unwrap();
    let first = encode(&model, "x", &ask("", 0));
    while model.stats().waiting > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let like = |class, seconds: Option<u64>| Ask {
        class,
        deadline: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
        ..ask("", 0)
    };
    let pending = [
        encode(&model, "aaaaa", &like(1, None)),
        encode(&model, "aaaa", &like(0, None)),
        encode(&model, "aa", &like(0, Some(600))),
        encode(&model, "aaa", &like(0, Some(900))),
    ];
    let cancelled = encode(&model, "aaaaaaa", &like(0, None));
    model.cancel(cancelled.id);
    let expired = encode(&model, "aaaaaaaa", &like(0, Some(0)));
    for _ in 0..10 {
        kept.gate.as_ref().unwrap().0.send(()).unwrap();
    }
    for pending in pending.iter().chain([&first]) {
        pending.answer();
    }
    assert_eq!(cancelled.error(), ModelError::Cancelled);
    assert_eq!(expired.error(), ModelError::Expired { made: 0 });
    let calls = kept.calls.lock().unwrap();
    // The loader's own try, the first, then in order.
    assert_eq!(calls[2..], [vec![2], vec![3], vec![4], vec![5]]);
}

#[test]
fn a_text_that_fails_a_step_fails_alone_and_a_lost_device_is_loaded_again() {
    let (_engine, model, kept) = embedding();
    *kept.fails.lock().unwrap() = Some(DecodeError::Device {
        reason: "no".into(),
    });
    let texts = ["one", "two", "%", "three"];
    for fatal in [false, true] {
        if fatal {
            *kept.fails.lock().unwrap() = Some(DecodeError::DeviceLost {
                reason: "reset".into(),
            });
        }
        let pending: Vec<Pending> = texts
            .iter()
            .map(|text| encode(&model, text, &ask("", 0)))
            .collect();
        assert!(matches!(pending[2].error(), ModelError::Device(_)));
        for place in [0, 1, 3] {
            assert_eq!(
                pending[place].answer().made,
                Made::Embedding(vector(&bytes(texts[place])).to_vec())
            );
        }
        assert_eq!(kept.loads.load(Ordering::SeqCst) > 1, fatal);
    }
    *kept.fails.lock().unwrap() = None;
    assert!(encode(&model, "%", &ask("", 0)).wait().1.is_ok());
}

#[test]
fn texts_of_a_replica_whose_device_is_lost_are_done_by_another() {
    let engines = [(); 2].map(|()| Engine::start(EngineOptions::default()));
    let kept = [(); 2].map(|()| Kept {
        calls: Arc::default(),
        fails: Arc::default(),
        loads: Arc::default(),
        gate: None,
    });
    let replicas = engines.iter().zip(&kept).map(|(engine, kept)| {
        let own = kept.clone();
        let load = move || {
            own.loads.fetch_add(1, Ordering::SeqCst);
            let kept = own.clone();
            let output = EncoderOutput::Embedding;
            Ok(Box::new(Fake { kept, output }) as Box<dyn Encoder>)
        };
        let load = ModelLoader::Encoder(Box::new(load));
        (engine, source(load, ModelOptions::default()))
    });
    let model = load_replicas("encoder", replicas.collect(), &[]).unwrap();
    // What takes one device down the other can do.
    *kept[0].fails.lock().unwrap() = Some(DecodeError::DeviceLost {
        reason: "reset".into(),
    });
    let texts: Vec<String> = (0..40).map(|n| format!("{}%", "a".repeat(n % 7))).collect();
    let pending: Vec<Pending> = texts
        .iter()
        .map(|text| encode(&model, text, &ask("", 0)))
        .collect();
    for (text, pending) in texts.iter().zip(&pending) {
        let wanted = Made::Embedding(vector(&bytes(text)).to_vec());
        assert_eq!(pending.answer().made, wanted);
    }
    let stats = model.stats();
    assert_eq!((stats.answered, stats.failed), (40, 0), "{stats:?}");
    assert!(
        stats.moved > 0 && stats.replicas[1].answered == 40,
        "{stats:?}"
    );
}

#[test]
fn of_texts_too_the_one_with_the_least_slack_goes_first() {
    let limits = EncodingLimits {
        step_tokens: 200,
        texts: 1,
        aging: Duration::from_secs(1),
        width: 2,
        output: EncoderOutput::Embedding,
        labels: Vec::new(),
    };
    let mut encoding = Encoding::new(limits, Arc::new(Counters::default()));
    let mut now = Duration::ZERO;
    let submit = |encoding: &mut Encoding, tokens: usize, now, deadline| {
        let (submission, pending) = ask("", 0).submission(now, deadline);
        encoding.submit(Submission {
            burden: Default::default(),
            work: Ok(Work::Encode {
                texts: vec![single(tokens)],
                recognizing: None,
            }),
            ..submission
        });
        pending
    };
    // A millisecond, and a tenth for each token.
    let step = |encoding: &mut Encoding, now: &mut Duration| {
        let (plan, texts) = encoding.plan_with_texts(*now).unwrap();
        let tokens: usize = texts.iter().map(|text| text.tokens.len()).sum();
        let took = Duration::from_micros(1000 + 100 * tokens as u64);
        *now += took;
        encoding.deliver(&plan, &[0.5, 0.5], *now, took).unwrap();
    };
    for n in 0..20 {
        submit(&mut encoding, 1 + n * 37 % 190, now, None);
        step(&mut encoding, &mut now);
    }
    let within = |milliseconds| Some(now + Duration::from_millis(milliseconds));
    let short = submit(&mut encoding, 2, now, within(40));
    let long = submit(&mut encoding, 190, now, within(41));
    step(&mut encoding, &mut now);
    assert!(long.has_ended() && !short.has_ended());
    step(&mut encoding, &mut now);
    assert!(long.wait().1.is_ok() && short.wait().1.is_ok());
}

#[test]
fn a_text_that_is_taken_back_when_its_step_begins_takes_no_other_along() {
    let limits = EncodingLimits {
        step_tokens: 200,
        texts: 8,
        aging: Duration::from_secs(1),
        width: 2,
        output: EncoderOutput::Embedding,
        labels: Vec::new(),
    };
    let kept = Kept {
        calls: Arc::default(),
        fails: Arc::default(),
        loads: Arc::default(),
        gate: None,
    };
    let encoder = Box::new(Fake {
        kept: kept.clone(),
        output: EncoderOutput::Embedding,
    });
    let counters = Arc::new(Counters::default());
    let mut core = Core::encoding(encoder, Encoding::new(limits, Arc::clone(&counters)));
    let texts = [3, 4, 5].map(|tokens| {
        let (submission, pending) = ask("", 0).submission(Duration::ZERO, None);
        core.submit(Submission {
            burden: Default::default(),
            work: Ok(Work::Encode {
                texts: vec![single(tokens)],
                recognizing: None,
            }),
            ..submission
        });
        pending
    });
    let clock = || Duration::from_millis(1);
    let begun = core.begin(true, &clock).unwrap();
    core.cancel(texts[1].id);
    assert_eq!(core.finish(begun, &clock), Ok(Stepped::Well));
    assert_eq!(*kept.calls.lock().unwrap(), [[3, 5]]);
    assert_eq!(texts[1].error(), ModelError::Cancelled);
    for (text, tokens) in [(&texts[0], 3), (&texts[2], 5)] {
        let wanted = Made::Embedding(vector(&vec![1; tokens]).to_vec());
        assert_eq!(text.answer().made, wanted);
    }
    // With nobody left there is nothing to do.
    core.submit(ask("", 0).submission(Duration::ZERO, None).0);
    let begun = core.begin(true, &clock).unwrap();
    assert_eq!(core.finish(begun, &clock), Ok(Stepped::Nothing));
}

/// A model that scores pairs, with a tokenizer that frames them.
fn ranking(scale: ScoreScale) -> (Engine, ModelHandle, Kept) {
    let (engine, _, kept) = encoding(
        EncoderOutput::Relevance(scale),
        ModelOptions::default(),
        false,
    );
    let model = engine.load("pairs", pairs(&kept, scale)).unwrap();
    kept.calls.lock().unwrap().clear();
    (engine, model, kept)
}

fn pairs(kept: &Kept, scale: ScoreScale) -> crate::ModelSource {
    let own = kept.clone();
    let load = move || {
        let (kept, output) = (own.clone(), EncoderOutput::Relevance(scale));
        Ok(Box::new(Fake { kept, output }) as Box<dyn Encoder>)
    };
    crate::ModelSource {
        tokenizer: pairing(),
        ..source(
            ModelLoader::Encoder(Box::new(load)),
            // However long it takes, none that is asked of it rises by a class, or is overdue.
            ModelOptions {
                aging: Duration::from_secs(3600),
                ..ModelOptions::default()
            },
        )
    }
}

fn rank(model: &ModelHandle, query: &str, documents: &[&str]) -> Pending {
    let documents = documents.iter().map(|text| (*text).to_owned()).collect();
    let query = query.to_owned();
    let (request, pending) = Ask::request_of(ModelTask::Rank { query, documents }, &ask("", 0));
    assert!(model.submit(request).is_ok());
    pending
}

#[test]
fn documents_are_scored_in_their_order_over_as_many_steps_as_they_need() {
    let (_engine, model, kept) = ranking(ScoreScale::Raw);
    assert_eq!(model.makes(), Makes::Relevance);
    // 3 around each pair, 12 tokens at most: the longest gives way, and steps have 30.
    let documents = ["a", "abc", "", "abcdefghijkl", "abcd"];
    let answer = rank(&model, "qq", &documents).wait().1.unwrap();
    // With the last special token, which is of the second type.
    assert_eq!(answer.made, Made::Relevance(vec![2.0, 4.0, 1.0, 8.0, 5.0]));
    assert_eq!(answer.prompt_tokens, 6 + 8 + 5 + 12 + 9);
    assert_eq!(*kept.calls.lock().unwrap(), [[3], [2]]);
    let answer = rank(&model, "qqqqqqqqqqqq", &["abc", "abcdefgh"])
        .wait()
        .1
        .unwrap();
    // Of nine places a document of three has all it needs, and one of eight the lesser half.
    assert_eq!(answer.made, Made::Relevance(vec![4.0, 5.0]));
}

/// As [`rank`], of so many documents of so many bytes each.
fn rank_many(model: &ModelHandle, documents: usize, bytes: usize, like: &Ask) -> Pending {
    let documents = vec!["d".repeat(bytes); documents];
    let query = "q".to_owned();
    let (request, pending) = Ask::request_of(ModelTask::Rank { query, documents }, like);
    assert!(model.submit(request).is_ok());
    pending
}

#[test]
fn documents_are_encoded_beside_what_else_is_asked() {
    let (engine, model, _) = ranking(ScoreScale::Raw);
    let (load, _control) = super::support::Fake::loader(shape(4, 64, 128), Arc::new(hashed));
    let other = engine.load("other", source(load, ModelOptions::default()));
    engine.encodes(0);
    let ranked = rank_many(&model, MOST_DOCUMENTS, 4, &ask("", 0));
    // Whoever asked goes on, and so does what else the engine has.
    let answered = ask("a", 3).of(&other.unwrap());
    assert_eq!(answered.choice().tokens.len(), 3);
    assert!(!ranked.has_ended());
    assert_eq!(model.stats().waiting, 1);
    engine.encodes(usize::MAX);
    let scores = vec![5.0; MOST_DOCUMENTS];
    assert_eq!(ranked.answer().made, Made::Relevance(scores));
    assert_eq!(model.stats().waiting, 0);
}

#[test]
fn requests_take_turns_in_having_their_documents_encoded() {
    let (engine, model, kept) = ranking(ScoreScale::Raw);
    engine.encodes(0);
    let large = rank_many(&model, 4, 64 << 10, &ask("", 0));
    let small = rank_many(&model, 3, 4, &ask("", 0));
    // The query of each, and a piece of each.
    engine.encodes(4);
    assert_eq!(small.answer().made, Made::Relevance(vec![5.0; 3]));
    assert_eq!(*kept.calls.lock().unwrap(), [[3]]);
    assert!(!large.has_ended());
    engine.encodes(usize::MAX);
    let Made::Relevance(scores) = large.answer().made else {
        panic!("no scores");
    };
    assert_eq!(scores.len(), 4);
}

#[test]
fn documents_of_a_better_class_are_encoded_first() {
    let (engine, model, kept) = ranking(ScoreScale::Raw);
    engine.encodes(0);
    let of_class = |class| Ask {
        class,
        ..ask("", 0)
    };
    let beside = rank_many(&model, 3, 4, &of_class(CLASS_BESIDE));
    let worse = rank_many(&model, 4, 4, &of_class(9));
    let better = rank_many(&model, 5, 4, &of_class(1));
    // A query and a piece for each of two.
    engine.encodes(2);
    assert_eq!(better.answer().made, Made::Relevance(vec![5.0; 5]));
    engine.encodes(2);
    assert_eq!(worse.answer().made, Made::Relevance(vec![5.0; 4]));
    assert!(!beside.has_ended());
    engine.encodes(usize::MAX);
    assert_eq!(beside.answer().made, Made::Relevance(vec![5.0; 3]));
    let documents: usize = kept.calls.lock().unwrap().iter().flatten().sum();
    assert_eq!(documents, 12);
}

#[test]
fn a_request_ends_on_the_model_that_it_was_asked_of_while_documents_are_encoded() {
    let (engine, model, kept) = ranking(ScoreScale::Raw);
    engine.encodes(0);
    let before = rank_many(&model, 2, 4, &ask("", 0));
    let model = engine
        .load("pairs", pairs(&kept, ScoreScale::Sigmoid))
        .unwrap();
    let after = rank_many(&model, 2, 4, &ask("", 0));
    assert_eq!(model.stats().replaced.waiting, 1);
    engine.encodes(usize::MAX);
    assert_eq!(before.answer().made, Made::Relevance(vec![5.0; 2]));
    let Made::Relevance(scores) = after.answer().made else {
        panic!("no scores");
    };
    assert!(scores.iter().all(|score| *score < 1.0), "{scores:?}");
    assert_eq!(model.stats().replaced.waiting, 0);
}

#[test]
fn documents_are_encoded_by_the_replica_that_has_the_fewest_to_encode() {
    let kept = ranking(ScoreScale::Raw).2;
    let engines = [(); 2].map(|()| Engine::start(EngineOptions::default()));
    let sources = engines
        .iter()
        .map(|engine| (engine, pairs(&kept, ScoreScale::Raw)));
    let model = load_replicas("pairs", sources.collect(), &[]).unwrap();
    engines[0].encodes(0);
    let held = rank_many(&model, 2, 4, &ask("", 0));
    let other = rank_many(&model, 3, 4, &ask("", 0));
    assert_eq!(other.answer().made, Made::Relevance(vec![5.0; 3]));
    assert!(!held.has_ended());
    model.cancel(held.id);
    assert_eq!(held.error(), ModelError::Cancelled);
}

#[test]
fn a_request_whose_documents_are_not_encoded_yet_can_be_left_and_is_bounded() {
    let (engine, model, kept) = ranking(ScoreScale::Raw);
    engine.encodes(0);
    let left = rank_many(&model, MOST_DOCUMENTS, 4, &ask("", 0));
    model.cancel(left.id);
    assert_eq!(left.error(), ModelError::Cancelled);
    let late = Ask {
        deadline: Some(Instant::now()),
        ..ask("", 0)
    };
    let late = rank_many(&model, MOST_DOCUMENTS, 4, &late);
    let mut pending = Vec::new();
    let full = loop {
        let (query, documents) = ("q".to_owned(), vec!["d".to_owned()]);
        let (request, one) = Ask::request_of(ModelTask::Rank { query, documents }, &ask("", 0));
        match model.submit(request) {
            Ok(()) => pending.push(one),
            Err((_, error)) => break error,
        }
    };
    let limit = ModelOptions::default().queue;
    assert_eq!(full, ModelError::Full { limit });
    // The places of the one that was left, and of the one that is late, may have been free by then, or not.
    assert!((limit - 2..=limit).contains(&pending.len()));
    // It does not wait for a turn to hear it.
    assert_eq!(late.error(), ModelError::Expired { made: 0 });
    assert_eq!(*kept.calls.lock().unwrap(), Vec::<Vec<usize>>::new());
    let stats = model.stats();
    assert_eq!((stats.cancelled, stats.expired), (1, 1));
    drop(engine);
    for one in pending {
        assert_eq!(one.error(), ModelError::Closed);
    }
}

#[test]
fn a_request_that_is_left_when_its_documents_were_just_encoded_ends_all_the_same() {
    let (_engine, model, _) = ranking(ScoreScale::Raw);
    for documents in [1, 7, 200] {
        for _ in 0..20 {
            let left = rank_many(&model, documents, 4, &ask("", 0));
            model.cancel(left.id);
            match left.wait().1 {
                Ok(answer) => assert!(matches!(answer.made, Made::Relevance(_))),
                Err(error) => assert_eq!(error, ModelError::Cancelled),
            }
        }
    }
    assert_eq!((model.stats().waiting, model.stats().running), (0, 0));
}

#[test]
fn scores_are_read_as_the_model_says() {
    let (_engine, model, _) = ranking(ScoreScale::Sigmoid);
    let answer = rank(&model, "q", &["ab"]).wait().1.unwrap();
    let Made::Relevance(scores) = answer.made else {
        panic!("{:?}", answer.made);
    };
    assert!((scores[0] - 0.952_574_1).abs() < 1e-6, "{scores:?}");
}

#[test]
fn what_cannot_be_ranked_is_refused() {
    let (_engine, model, _) = ranking(ScoreScale::Raw);
    let why = |pending: Pending| pending.wait().1.unwrap_err().to_string();
    assert_eq!(why(rank(&model, "", &["a"])), "prompt is empty");
    assert_eq!(
        why(rank(&model, "q", &[])),
        format!("the count of documents is 0, must be 1 to {MOST_DOCUMENTS}")
    );
    let many = vec!["a"; MOST_DOCUMENTS + 1];
    assert!(why(rank(&model, "q", &many)).contains("is 1025, must be"));
    let text = encode(&model, "a", &ask("", 0));
    assert!(why(text).contains("cannot embed or classify"));
    let (_engine, model, _) = embedding();
    assert!(why(rank(&model, "q", &["a"])).contains("cannot rank"));
    // A tokenizer without a template for pairs.
    let output = EncoderOutput::Relevance(ScoreScale::Raw);
    let (_engine, model, _) = encoding(output, ModelOptions::default(), false);
    let why = why(rank(&model.unwrap(), "q", &["a"]));
    assert!(why.contains("no template for pairs"), "{why}");
}

/// What sentence-transformers' CrossEncoder makes of texts, some of which are cut; its weights are widened to f32.
#[test]
fn rankings_are_those_of_sentence_transformers() {
    for name in ["bert-relevance-f16", "roberta-relevance-bf16"] {
        let pairs = std::fs::read(golden::folder(name).join("pairs.json")).unwrap();
        let pairs: serde_json::Value = serde_json::from_slice(&pairs).unwrap();
        let checkpoint = Arc::new(Checkpoint::open(&golden::model(name), &ReadWhole).unwrap());
        let load = move || {
            let encoder = ReferenceEncoder::load(&checkpoint, 90);
            Ok(Box::new(encoder.map_err(|error| error.to_string())?) as Box<dyn Encoder>)
        };
        let source = crate::ModelSource {
            tokenizer: Arc::new(Tokenizer::from_dir(golden::folder(name)).unwrap()),
            ..source(
                ModelLoader::Encoder(Box::new(load)),
                ModelOptions::default(),
            )
        };
        let engine = Engine::start(EngineOptions::default());
        let model = engine.load(name, source).unwrap();
        let rankings = pairs["rankings"].as_array().unwrap();
        assert_eq!(rankings.len(), 2);
        for ranking in rankings {
            let texts = ranking["documents"].as_array().unwrap();
            let documents: Vec<&str> = texts.iter().map(|text| text.as_str().unwrap()).collect();
            let query = ranking["query"].as_str().unwrap();
            let answer = rank(&model, query, &documents).wait().1.unwrap();
            let Made::Relevance(found) = answer.made else {
                panic!("{:?}", answer.made);
            };
            let wanted = ranking["scores"].as_array().unwrap();
            assert_eq!(found.len(), wanted.len());
            for ((found, wanted), text) in found.iter().zip(wanted).zip(documents) {
                let off = f64::from(*found) - wanted.as_f64().unwrap();
                assert!(
                    off.abs() < 1e-5,
                    "{name}, {query:?}, {text:?}: off by {off}"
                );
            }
        }
    }
}

fn recognize(model: &ModelHandle, text: &str, aggregation: Aggregation) -> Pending {
    let task = ModelTask::Recognize {
        text: text.into(),
        aggregation,
    };
    let (request, pending) = Ask::request_of(task, &ask("", 0));
    model.submit(request).map_err(|(_, error)| error).unwrap();
    pending
}

fn labelled() -> ModelOptions {
    ModelOptions {
        labels: vec!["O".into(), "CAPITALS".into()],
        ..ModelOptions::default()
    }
}

#[test]
fn a_text_whose_entities_panic_fails_alone() {
    let (_engine, model, kept) = encoding(EncoderOutput::TokenScores, labelled(), true);
    let model = model.unwrap();
    let texts = ["ab", "x AB", "\u{7}C", "é BC"];
    // The first goes alone, the others wait and go together.
    let asked = texts.map(|text| {
        let asked = recognize(&model, text, Aggregation::Simple);
        while text == texts[0] && model.stats().waiting > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        asked
    });
    for _ in 0..8 {
        kept.gate.as_ref().unwrap().0.send(()).unwrap();
    }
    for (text, asked) in texts.iter().zip(&asked) {
        if text.contains('\u{7}') {
            let reason = "what is made of the answer panicked";
            assert_eq!(asked.error(), ModelError::Device(reason.into()));
            continue;
        }
        let Made::Entities(entities) = asked.answer().made else {
            panic!("entities");
        };
        let found: Vec<&str> = entities.iter().map(|one| one.text.as_str()).collect();
        let capitals = text
            .split(' ')
            .filter(|word| word.starts_with(char::is_uppercase));
        assert_eq!(found, capitals.collect::<Vec<&str>>());
    }
    assert!(kept.calls.lock().unwrap().iter().any(|call| call.len() > 2));
    let stats = model.stats();
    assert_eq!((stats.failed, stats.answered), (1, 3));
    assert_eq!(kept.loads.load(Ordering::SeqCst), 1);
}

#[test]
fn entities_of_texts_that_went_together_are_their_own() {
    let (engine, model, kept) = encoding(EncoderOutput::TokenScores, labelled(), true);
    let model = model.unwrap();
    assert_eq!(model.makes(), Makes::Entities);
    // The first goes alone, the others wait and go together.
    let texts = ["a", "x ABé", "", "é😀BC", "ABC", "def"];
    let asked = texts.map(|text| recognize(&model, text, Aggregation::Simple));
    let (open, _) = kept.gate.as_ref().unwrap();
    (0..texts.len()).for_each(|_| open.send(()).unwrap());
    let found = asked.map(|pending| match pending.wait().1 {
        Ok(answer) => match answer.made {
            Made::Entities(entities) => (entities.into_iter())
                .map(|e| (e.label, e.start, e.end, e.text))
                .collect(),
            other => panic!("{other:?}"),
        },
        Err(error) => {
            assert_eq!(error, ModelError::EmptyPrompt);
            Vec::new()
        }
    });
    let one = |start, end, text: &str| vec![("CAPITALS".to_owned(), start, end, text.to_owned())];
    let none = Vec::new;
    assert_eq!(
        found,
        [
            none(),
            one(2, 4, "AB"),
            none(),
            one(2, 4, "BC"),
            one(0, 3, "ABC"),
            none()
        ]
    );
    assert!(kept.calls.lock().unwrap().iter().any(|call| call.len() > 2));
    drop(engine);
}

#[test]
fn who_labels_tokens_is_asked_for_nothing_else_and_others_for_no_entities() {
    let (_engine, model, _) = encoding(EncoderOutput::TokenScores, labelled(), false);
    let model = model.unwrap();
    let error = encode(&model, "a", &ask("", 0)).error();
    assert!(
        error.to_string().contains("cannot embed or classify"),
        "{error}"
    );
    let (_engine, vectors, _) = embedding();
    let error = recognize(&vectors, "a", Aggregation::None).error();
    assert!(
        error.to_string().contains("cannot recognize entities"),
        "{error}"
    );
    let long = recognize(&model, "0123456789abc", Aggregation::Simple).error();
    assert!(matches!(
        long,
        ModelError::PromptTooLong {
            tokens: 13,
            limit: 12
        }
    ));
    let truncate = ModelOptions {
        truncate: true,
        ..labelled()
    };
    let (_engine, cut, _) = encoding(EncoderOutput::TokenScores, truncate, false);
    let answer = recognize(&cut.unwrap(), "0123456789aBC", Aggregation::Simple).answer();
    let Made::Entities(entities) = answer.made else {
        panic!("{:?}", answer.made);
    };
    assert_eq!((entities[0].text.as_str(), entities[0].end), ("B", 12));
    let unnamed = encoding(EncoderOutput::TokenScores, ModelOptions::default(), false);
    let error = unnamed.1.unwrap_err();
    assert!(matches!(error, LoadError::Labels { .. }), "{error}");
}

/// What transformers' pipeline finds, by every way of putting tokens together; its weights are widened to f32. A space
/// that belongs to the first token of a word is told by it, and not here.
#[test]
fn entities_are_those_of_transformers() {
    for name in golden::TOKEN_CLASSIFIERS {
        let found = std::fs::read(golden::folder(name).join("entities.json")).unwrap();
        let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
        let checkpoint = Arc::new(Checkpoint::open(&golden::model(name), &ReadWhole).unwrap());
        let labels = checkpoint.encoder().unwrap().head.labels().to_vec();
        let load = move || {
            let encoder = ReferenceEncoder::load(&checkpoint, 90);
            Ok(Box::new(encoder.map_err(|error| error.to_string())?) as Box<dyn Encoder>)
        };
        let options = ModelOptions {
            labels,
            ..ModelOptions::default()
        };
        let source = crate::ModelSource {
            tokenizer: Arc::new(Tokenizer::from_dir(golden::folder(name)).unwrap()),
            ..source(ModelLoader::Encoder(Box::new(load)), options)
        };
        let engine = Engine::start(EngineOptions::default());
        let model = engine.load(name, source).unwrap();
        let (mut entities_there, mut trimmed) = (0, 0);
        for found in found["found"].as_array().unwrap() {
            let text = found["text"].as_str().unwrap();
            let way = found["aggregation"].as_str().unwrap();
            let ways = Aggregation::ALL.into_iter();
            let (_, aggregation) = ways.into_iter().find(|(name, _)| *name == way).unwrap();
            let answer = recognize(&model, text, aggregation).answer();
            let Made::Entities(made) = answer.made else {
                panic!("{:?}", answer.made);
            };
            let characters: Vec<char> = text.chars().collect();
            let mut wanted = Vec::new();
            for one in found["entities"].as_array().unwrap() {
                let place = |key: &str| one[key].as_u64().unwrap() as usize;
                let (mut start, mut end) = (place("start"), place("end"));
                while start < end && characters[start].is_whitespace() {
                    (start, trimmed) = (start + 1, trimmed + 1);
                }
                while start < end && characters[end - 1].is_whitespace() {
                    end -= 1;
                }
                if start < end {
                    let text: String = characters[start..end].iter().collect();
                    let score = one["score"].as_f64().unwrap();
                    wanted.push((one["label"].as_str().unwrap(), start, end, text, score));
                }
            }
            assert_eq!(
                made.len(),
                wanted.len(),
                "{name}, {way}, {text:?}: {made:?}"
            );
            for (made, (label, start, end, part, score)) in made.iter().zip(wanted) {
                let what = format!("{name}, {way}, {text:?}: {made:?}");
                let place = (made.start as usize, made.end as usize);
                assert_eq!(
                    (made.label.as_str(), place),
                    (label, (start, end)),
                    "{what}"
                );
                assert_eq!(made.text, part, "{what}");
                assert!((f64::from(made.score) - score).abs() < 1e-5, "{what}");
                entities_there += 1;
            }
        }
        assert!(entities_there > 100, "{name}");
        assert_eq!(trimmed > 0, name.starts_with("modernbert"), "{name}");
    }
}

#[test]
fn texts_that_no_step_had_a_part_of_are_given_away_and_those_of_one_that_does_not_end_are_tried_alone()
 {
    let limits = EncodingLimits {
        step_tokens: 200,
        texts: 2,
        aging: Duration::from_secs(1),
        width: 2,
        output: EncoderOutput::Embedding,
        labels: Vec::new(),
    };
    let encoding = || Encoding::new(limits.clone(), Arc::new(Counters::default()));
    let (mut one, mut other) = (encoding(), encoding());
    let now = Duration::ZERO;
    let pending: Vec<Pending> = (1..=5)
        .map(|tokens| {
            let (submission, pending) = ask("", 0).submission(now, None);
            one.submit(Submission {
                burden: Default::default(),
                work: Ok(Work::Encode {
                    texts: vec![single(tokens)],
                    recognizing: None,
                }),
                ..submission
            });
            pending
        })
        .collect();
    let (begun, _) = one.plan_with_texts(now).unwrap();
    let moved = one.give_away_unbegun();
    assert_eq!(moved.len(), 3);
    other.take_over(moved);
    // The step of the first two does not end: they go on elsewhere, each alone, and nothing is told twice.
    let (moved, failed) = one.abandon();
    assert_eq!((moved.len(), failed.len()), (2, 0));
    assert!(!one.has_work());
    other.take_over(moved);
    let took = Duration::from_millis(1);
    one.deliver(&begun, &[0.5; 4], now, took).unwrap();
    assert!(pending.iter().all(|pending| !pending.has_ended()));
    let mut sizes = Vec::new();
    while let Some((plan, texts)) = other.plan_with_texts(now) {
        sizes.push(texts.len());
        other
            .deliver(&plan, &vec![0.25; texts.len() * 2], now, took)
            .unwrap();
    }
    assert_eq!(sizes, [1, 1, 2, 1]);
    for pending in &pending {
        assert_eq!(pending.answer().made, Made::Embedding(vec![0.25; 2]));
    }
    // One that was alone in two steps that did not end has had its tries.
    let (submission, pending) = ask("", 0).submission(now, None);
    one.submit(Submission {
        burden: Default::default(),
        work: Ok(Work::Encode {
            texts: vec![single(3)],
            recognizing: None,
        }),
        ..submission
    });
    one.plan_with_texts(now).unwrap();
    let (moved, failed) = one.abandon();
    assert!(failed.is_empty());
    other.take_over(moved);
    other.plan_with_texts(now).unwrap();
    let (moved, failed) = other.abandon();
    assert_eq!((moved.len(), failed.len()), (0, 1));
    for failed in failed {
        failed.fail(&Counters::default(), ModelError::Closed);
    }
    assert_eq!(pending.error(), ModelError::Closed);
}
