//! The phases of a step: what is done while a step runs, and that nothing is lost in any of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_contract::{DecodeError, Finish, Model, ModelError, Speculation, Structure};

use super::support::*;
use crate::{Engine, EngineOptions, ModelHandle, ModelOptions};

fn serve(ahead: bool, events: &Events, hook: Arc<Hook>) -> (Engine, ModelHandle, Control) {
    let engine = Engine::start(EngineOptions::default());
    let (load, control) = phased(shape(4, 64, 128), Arc::new(hashed), ahead, events, hook);
    let source = source(load, ModelOptions::default());
    let handle = engine.load("phased", source).unwrap();
    (engine, handle, control)
}

fn all_well() -> Arc<Hook> {
    Arc::new(|_, _| None)
}

/// Waits until a reply has heard of its end.
fn ended(events: &Events) {
    let end = std::time::Instant::now() + LIMIT;
    while events.count(|event| matches!(event, Event::Done(_))) == 0 {
        assert!(std::time::Instant::now() < end, "{:?}", events.all());
        std::thread::yield_now();
    }
}

/// For each event whether a step runs when it happens, by its place: submitted, and not waited for yet.
fn while_running(all: &[Event]) -> Vec<bool> {
    let mut runs = false;
    let running = all.iter().map(|event| {
        match event {
            Event::Submit { .. } => runs = true,
            Event::Collect => runs = false,
            _ => {}
        }
        runs
    });
    running.collect()
}

#[test]
fn tokens_are_handed_on_and_masks_made_while_the_next_step_runs() {
    let events = Events::default();
    let (_engine, model, control) = serve(false, &events, all_well());
    let mut asked = ask("structured", 40);
    asked.parameters.structure = Some(Structure::Regex("[a-f]{12}".into()));
    asked.parameters.speculation = Speculation::Off;
    let request = asked.request_to(1 << 40, events.reply());
    assert!(model.submit(request).is_ok());
    ended(&events);
    let all = events.all();
    let running = while_running(&all);
    let mut tokens = 0;
    for (event, runs) in all.iter().zip(running) {
        match event {
            Event::Submit { masks } => assert_eq!(*masks, 0, "made before: {all:?}"),
            Event::Draw { masks } => assert_eq!((*masks, runs), (1, true), "{all:?}"),
            Event::Token(index) => {
                assert_eq!(*index, tokens);
                tokens += 1;
                // After the last there is no step to hide behind.
                assert_eq!(runs, tokens < 12, "{all:?}");
            }
            Event::SubmitAfter { .. } => panic!("it does not run ahead: {all:?}"),
            Event::Collect | Event::Done(_) => {}
        }
    }
    assert_eq!(tokens, 12, "{all:?}");
    assert_eq!(all.last(), Some(&Event::Done(true)));
    control.is_sound();
}

#[test]
fn who_has_all_its_answer_hears_so_while_others_go_on() {
    let events = Events::default();
    let (_engine, model, control) = serve(false, &events, all_well());
    let long = ask("long", 60);
    // The first step ends when both are there.
    control.hold();
    let pending = long.of(&model);
    assert!(
        model
            .submit(ask("short", 3).request_to(1 << 40, events.reply()))
            .is_ok()
    );
    control.entered();
    control.run_free();
    ended(&events);
    let wanted = alone(&long, 128);
    assert!(wanted.0.len() > 20, "it goes on for long enough");
    assert_eq!(pending.choice().tokens, wanted.0);
    let all = events.all();
    let done = all.iter().position(|event| *event == Event::Done(true));
    assert!(while_running(&all)[done.unwrap()], "{all:?}");
    control.is_sound();
}

/// What a device has of an answer of 40 tokens.
fn device_time(ahead: bool, [forward, host]: [u64; 2]) -> DeviceTime {
    let [forward, host] = [forward, host].map(std::time::Duration::from_micros);
    let never_ends = |history: &[u32], logits: &mut [f32]| {
        hashed(history, logits);
        logits[EOS as usize] = -1.0;
    };
    let engine = Engine::start(EngineOptions::default());
    let (load, time, control) = sleeping(
        shape(4, 64, 128),
        Arc::new(never_ends),
        ahead,
        [forward, host],
    );
    let handle = engine.load("sleeping", source(load, ModelOptions::default()));
    let handle = handle.unwrap();
    let mut asked = ask("sleeping", 40);
    asked.parameters.speculation = Speculation::Off;
    time.forget();
    let choice = asked.of(&handle).choice();
    assert_eq!(choice.tokens, choice_alone(&asked, 0, 128, &never_ends).0);
    control.is_sound();
    time.get()
}

#[test]
fn the_hosts_work_hides_behind_the_devices() {
    let share = |time: &DeviceTime| time.idle.as_secs_f64() / time.all.as_secs_f64();
    let mut tries = Vec::new();
    // A busy machine may hold the host up in one try, and not in each of ten.
    let hides = (0..10).any(|_| {
        let [without, with] = [false, true].map(|ahead| device_time(ahead, [12_000, 4000]));
        // Between two steps without: the first has nothing before it.
        assert_eq!(without.idle_gaps, 39, "{without:?}");
        tries.push((without, with));
        with.idle_gaps <= 20 && share(&with) < share(&without) / 2.0
    });
    assert!(hides, "{tries:?}");
    // What a model of 1B takes on a large GPU: a figure, too short for a bound on a machine with other work.
    let [without, with] = [false, true].map(|ahead| device_time(ahead, [1800, 200]));
    println!("1800 and 200 us: {without:?} without, {with:?} with");
}

/// Three answers to one prompt, long enough for a fault in the middle.
fn of_three() -> (Ask, Vec<(Vec<u32>, Finish)>) {
    let mut asked = ask("of three", 20);
    asked.parameters.n = 3;
    asked.parameters.temperature = 1.0;
    let wanted: Vec<_> = (0..3)
        .map(|choice| choice_alone(&asked, choice, 128, &hashed))
        .collect();
    assert!(
        wanted.iter().all(|(tokens, _)| tokens.len() > 8),
        "{wanted:?}"
    );
    (asked, wanted)
}

fn answers(pending: &Pending) -> Vec<(Vec<u32>, Finish)> {
    let choices = pending.choices().into_iter();
    choices
        .map(|choice| (choice.tokens, choice.finish))
        .collect()
}

#[test]
fn a_fault_in_any_phase_loses_nothing_and_repeats_nothing() {
    let (asked, wanted) = of_three();
    let fatal = || DecodeError::DeviceLost {
        reason: "reset".into(),
    };
    let other = || DecodeError::Device {
        reason: "no".into(),
    };
    let phases = [
        (false, Phase::Submit),
        (false, Phase::Draw),
        (false, Phase::Collect),
        (true, Phase::SubmitAfter),
        (true, Phase::Draw),
        (true, Phase::Collect),
    ];
    for (ahead, phase) in phases {
        for fault in [Some(fatal()), Some(other()), None] {
            let what = format!("{fault:?} in {phase:?}, ahead: {ahead}");
            let is_fatal = fault.as_ref().is_none_or(DecodeError::is_fatal);
            let mut tries = 0..10;
            while tries.next().is_some() {
                let (fault, happened) = (fault.clone(), Arc::new(AtomicBool::new(false)));
                let happens = Arc::clone(&happened);
                let hook = move |at: Phase, step: usize| {
                    let now = at == phase && step == 6;
                    happens.fetch_or(now, Ordering::SeqCst);
                    assert!(!now || fault.is_some(), "the decoder is told to panic");
                    fault.clone().filter(|_| now)
                };
                let events = Events::default();
                let (_engine, model, control) = serve(ahead, &events, Arc::new(hook));
                let pending = asked.of(&model);
                assert_eq!(answers(&pending), wanted, "{what}");
                let is_ahead = |event: &Event| matches!(event, Event::SubmitAfter { .. });
                let were_ahead = events.count(is_ahead) > 5;
                let as_meant = were_ahead == ahead && happened.load(Ordering::SeqCst);
                // Where one took long, as on a busy machine any step may, the next is not begun ahead: once more.
                if !as_meant && !tries.is_empty() {
                    continue;
                }
                assert_eq!(were_ahead, ahead, "{what}");
                let handed_on: Vec<u32> = pending.tokens().iter().map(|token| token.1).collect();
                assert_eq!(handed_on, wanted[0].0, "{what}");
                let stats = model.stats();
                let reloads = u64::from(is_fatal);
                assert_eq!((stats.failed_steps, stats.reloads), (1, reloads), "{what}");
                assert_eq!((stats.failed, control.loads()), (0, 1 + reloads), "{what}");
                control.is_sound();
                break;
            }
        }
    }
}

#[test]
fn who_goes_while_a_step_runs_hears_of_it_at_once_and_leaves_no_trace() {
    for ends in [false, true] {
        let events = Events::default();
        let model: Arc<OnceLock<ModelHandle>> = Arc::default();
        let (of_hook, goes) = (Arc::clone(&model), tidegate_contract::RequestId(1 << 40));
        let hook = move |at: Phase, step: usize| {
            if (at, step) == (Phase::Submit, 6)
                && let Some(model) = of_hook.get()
            {
                match ends {
                    true => model.end(goes),
                    false => model.cancel(goes),
                }
            }
            None
        };
        let (_engine, handle, control) = serve(false, &events, Arc::new(hook));
        let handle = model.get_or_init(|| handle);
        let going = ask("goes", 60).request_to(goes.0, events.reply());
        assert!(handle.submit(going).is_ok());
        ended(&events);
        let all = events.all();
        let done = all
            .iter()
            .position(|event| *event == Event::Done(ends))
            .unwrap();
        let begun = all[..done]
            .iter()
            .filter(|event| matches!(event, Event::Submit { .. }));
        assert_eq!(begun.count(), 6, "{all:?}");
        // Cancelled is done with; what has an answer hears of it with the others, when there is time.
        assert!(ends || while_running(&all)[done], "{all:?}");
        let tokens = all.iter().filter(|event| matches!(event, Event::Token(_)));
        assert_eq!(tokens.count(), 5, "what the steps before it made: {all:?}");
        // The same blocks hold another answer now.
        let (asked, wanted) = of_three();
        assert_eq!(answers(&asked.of(handle)), wanted);
        assert_eq!(
            ask("goes", 9).of(handle).choice().tokens,
            alone(&ask("goes", 9), 128).0
        );
        assert_eq!(handle.stats().blocks_used, 0);
        control.is_sound();
    }
}

#[test]
fn a_reply_that_panics_while_a_step_runs_takes_nothing_of_it() {
    struct Panics(crossbeam_channel::Sender<Result<tidegate_contract::Answer, ModelError>>);
    impl tidegate_contract::Reply for Panics {
        fn token(&mut self, index: u32, _: u32, _: &str) {
            assert!(index < 3, "a reply that panics");
        }

        fn done(self: Box<Self>, result: Result<tidegate_contract::Answer, ModelError>) {
            let _ = self.0.send(result);
        }
    }
    let events = Events::default();
    let (_engine, model, control) = serve(true, &events, all_well());
    for most in [4, 60] {
        let (asked, wanted) = of_three();
        let other = asked.of(&model);
        let (done, result) = crossbeam_channel::bounded(2);
        let request = ask("panics", most).request_to(1 << 40, Box::new(Panics(done)));
        assert!(model.submit(request).is_ok());
        let result = result.recv_timeout(LIMIT).unwrap();
        // Whether it was in the middle or had all its answer already.
        assert_eq!(result, Err(ModelError::Cancelled));
        assert_eq!(answers(&other), wanted);
    }
    let stats = model.stats();
    assert_eq!((stats.cancelled, stats.answered), (2, 2));
    assert_eq!((stats.failed_steps, stats.reloads), (0, 0));
    control.is_sound();
}

#[test]
fn a_panic_while_a_step_is_planned_ahead_costs_nobody_an_answer() {
    let mut tries = 0..10;
    while tries.next().is_some() {
        let events = Events::default();
        let (_engine, model, control) = serve(true, &events, all_well());
        control.hold();
        let mut asks: Vec<Ask> = (0..4).map(|n| ask(&format!("other {n}"), 30)).collect();
        asks[1].parameters.stop = vec![panics("ahead")];
        let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
        control.entered();
        control.run_free();
        for (ask, pending) in asks.iter().zip(&pending) {
            assert_eq!(pending.choice().tokens, alone(ask, 128).0);
        }
        let stats = model.stats();
        // Where its steps took long, as on a busy machine any may, none was begun ahead: once more.
        if stats.reloads == 0 && !tries.is_empty() {
            continue;
        }
        let counts = (stats.reloads, stats.retried, stats.failed);
        assert_eq!(
            counts,
            (1, 0, 0),
            "it runs in steps that are not begun ahead"
        );
        control.is_sound();
        break;
    }
}

/// What a request with this structure and these penalties, alone, has happen, and its answer.
fn ahead(asked: &Ask) -> (Vec<Event>, usize) {
    let first_alone = |(all, _): &(Vec<Event>, usize)| {
        let begun = all.iter();
        let begun = begun.filter(|event| matches!(event, Event::Submit { .. }));
        begun.count() == 1
    };
    // Where one takes long, as on a busy machine any step may, the next is not begun ahead: once more.
    let found = (0..10).map(|_| ahead_once(asked)).find(first_alone);
    found.unwrap_or_else(|| ahead_once(asked))
}

fn ahead_once(asked: &Ask) -> (Vec<Event>, usize) {
    let events = Events::default();
    let (_engine, model, control) = serve(true, &events, all_well());
    // Of the first step there is, nobody knows how long it takes.
    ask("first", 1).of(&model).choice();
    events.forget();
    let request = asked.request_to(1 << 40, events.reply());
    assert!(model.submit(request).is_ok());
    ended(&events);
    let wanted = alone(asked, 128).0.len();
    let again = asked.of(&model).choice().tokens;
    assert_eq!(again, alone(asked, 128).0);
    let stats = model.stats();
    assert_eq!((stats.failed_steps, stats.reloads), (0, 0));
    control.is_sound();
    let all = events.all();
    let end = all.iter().position(|event| *event == Event::Done(true));
    (all[..=end.unwrap()].to_vec(), wanted)
}

#[test]
fn the_next_step_is_begun_before_the_tokens_of_one_are_there() {
    let mut structured = ask("structured", 40);
    structured.parameters.structure = Some(Structure::Regex("[a-f]{12}".into()));
    let mut penalised = ask("penalised", 12);
    penalised.parameters.temperature = 1.0;
    penalised.parameters.repetition_penalty = 1.5;
    penalised.parameters.frequency_penalty = 0.7;
    for mut asked in [structured, penalised] {
        asked.parameters.speculation = Speculation::Off;
        let (all, tokens) = ahead(&asked);
        let is_structured = asked.parameters.structure.is_some();
        let (mut begun, mut drawn, mut collected, mut told) = (0, 0, 0, 0);
        for event in &all {
            match event {
                Event::Submit { .. } => {
                    assert_eq!(begun, 0, "only the first: {all:?}");
                    begun += 1;
                }
                Event::SubmitAfter { fed } => {
                    // The step before was drawn from, and is not collected.
                    assert_eq!((*fed, drawn, collected), (1, begun, begun - 1), "{all:?}");
                    begun += 1;
                }
                Event::Draw { masks } => {
                    assert_eq!(*masks, usize::from(is_structured), "{all:?}");
                    assert_eq!(drawn, collected, "{all:?}");
                    drawn += 1;
                }
                Event::Collect => {
                    // That there is no thirteenth token is known of a limit alone.
                    let last = tokens + usize::from(is_structured);
                    assert_eq!(begun, (collected + 2).min(last), "{all:?}");
                    collected += 1;
                }
                Event::Token(index) => {
                    assert_eq!(*index as usize, told);
                    told += 1;
                    // While the next one runs, and the one after it waits for the device.
                    let next = (told + 2).min(tokens + usize::from(is_structured));
                    assert_eq!(begun, next, "{all:?}");
                }
                Event::Done(_) => {}
            }
        }
        assert_eq!((tokens, told, collected), (12, 12, 12), "{all:?}");
    }
}

#[test]
fn who_goes_while_two_steps_are_begun_leaves_no_trace() {
    for (ends, phase) in [
        (false, Phase::SubmitAfter),
        (true, Phase::SubmitAfter),
        (false, Phase::Draw),
        (true, Phase::Draw),
    ] {
        let mut tries = 0..10;
        while tries.next().is_some() {
            let events = Events::default();
            let model: Arc<OnceLock<ModelHandle>> = Arc::default();
            let (of_hook, goes) = (Arc::clone(&model), tidegate_contract::RequestId(1 << 40));
            let (both_are_there, wait) = crossbeam_channel::bounded::<()>(1);
            let happened = Arc::new(AtomicBool::new(false));
            let happens = Arc::clone(&happened);
            let hook = move |at: Phase, step: usize| {
                if (at, step) == (Phase::Submit, 1) {
                    let _ = wait.recv_timeout(LIMIT);
                }
                if (at, step) == (phase, 6)
                    && let Some(model) = of_hook.get()
                {
                    happens.store(true, Ordering::SeqCst);
                    match ends {
                        true => model.end(goes),
                        false => model.cancel(goes),
                    }
                }
                None
            };
            let (_engine, handle, control) = serve(true, &events, Arc::new(hook));
            let handle = model.get_or_init(|| handle);
            let going = ask("goes", 60).request_to(goes.0, events.reply());
            let (asked, wanted) = of_three();
            assert!(handle.submit(going).is_ok());
            let beside = asked.of(handle);
            both_are_there.send(()).unwrap();
            ended(&events);
            // Where one took long, as on a busy machine any step may, the next is not begun ahead: once more.
            if !happened.load(Ordering::SeqCst) && !tries.is_empty() {
                continue;
            }
            assert_eq!(
                events.count(|event| *event == Event::Done(true)),
                usize::from(ends)
            );
            assert_eq!(answers(&beside), wanted);
            // The same blocks hold another answer now.
            assert_eq!(answers(&asked.of(handle)), wanted);
            let goes = ask("goes", 9);
            assert_eq!(goes.of(handle).choice().tokens, alone(&goes, 128).0);
            let stats = handle.stats();
            assert_eq!((stats.blocks_used, stats.failed_steps), (0, 0), "{stats:?}");
            control.is_sound();
            break;
        }
    }
}

#[test]
fn models_that_share_a_device_begin_no_step_ahead_of_each_other() {
    let engine = Engine::start(EngineOptions::default());
    let load = |name: &str| {
        let events = Events::default();
        let (load, control) = phased(
            shape(4, 64, 512),
            Arc::new(|history: &[u32], logits: &mut [f32]| {
                hashed(history, logits);
                logits[EOS as usize] = -1.0;
            }),
            true,
            &events,
            all_well(),
        );
        let handle = engine.load(name, source(load, ModelOptions::default()));
        (events, handle.unwrap(), control)
    };
    let (one, two) = (load("one"), load("two"));
    let is_ahead = |event: &Event| matches!(event, Event::SubmitAfter { .. });
    // All are there before the first step ends.
    one.2.hold();
    let pending: Vec<Pending> = [&one, &two]
        .map(|(_, model, _)| (0..20).map(|n| ask(&format!("{n}"), 400).of(model)))
        .into_iter()
        .flatten()
        .collect();
    one.2.entered();
    let begun = [&one, &two].map(|(events, ..)| events.count(is_ahead));
    one.2.run_free();
    // Each has more to do than these, even if it does all of them.
    while one.1.stats().steps + two.1.stats().steps < 1000 {
        std::thread::yield_now();
    }
    for ((events, ..), begun) in [&one, &two].into_iter().zip(begun) {
        let now = events.count(is_ahead);
        assert!(now <= begun + 1, "{now} after {begun}");
    }
    for (_, model, control) in [&one, &two] {
        let stats = model.stats();
        assert_eq!((stats.failed_steps, stats.reloads), (0, 0), "{stats:?}");
        control.is_sound();
    }
    drop(engine);
    for pending in &pending {
        let _ = pending.wait();
    }
}
