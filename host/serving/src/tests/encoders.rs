//! Models that turn whole texts into vectors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tidegate_contract::{
    DecodeError, Encoder, EncoderOutput, Made, Makes, Model, ModelError, ModelTask,
};

use super::support::*;
use crate::encoding::{Encoding, EncodingLimits};
use crate::hosted::{Core, Stepped};
use crate::request::{Submission, Work};
use crate::stats::Counters;
use crate::{Engine, EngineOptions, LoadError, ModelHandle, ModelLoader, ModelOptions};

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
        2
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

    fn encode(&mut self, texts: &[&[u32]], vectors: &mut Vec<f32>) -> Result<(), DecodeError> {
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
        *vectors = texts.iter().flat_map(|text| vector(text)).collect();
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
    let (_engine, model, kept) = encoding(EncoderOutput::Embedding, at_once(1), true);
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
fn of_texts_too_the_one_with_the_least_slack_goes_first() {
    let limits = EncodingLimits {
        step_tokens: 200,
        texts: 1,
        aging: Duration::from_secs(1),
        width: 2,
        labels: Vec::new(),
    };
    let mut encoding = Encoding::new(limits, Arc::new(Counters::default()));
    let mut now = Duration::ZERO;
    let submit = |encoding: &mut Encoding, tokens: usize, now, deadline| {
        let (submission, pending) = ask("", 0).submission(now, deadline);
        encoding.submit(Submission {
            work: Ok(Work::Encode {
                tokens: vec![1; tokens],
            }),
            ..submission
        });
        pending
    };
    // A millisecond, and a tenth for each token.
    let step = |encoding: &mut Encoding, now: &mut Duration| {
        let plan = encoding.plan(*now).unwrap();
        let tokens: usize = encoding.texts(&plan).iter().map(|text| text.len()).sum();
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
            work: Ok(Work::Encode {
                tokens: vec![1; tokens],
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
