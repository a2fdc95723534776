use super::*;
use crate::lately::GrownStage;

const LATE: Duration = Duration::from_secs(31);
const HUNG: Duration = Duration::from_secs(301);
const SOON: Duration = Duration::from_secs(29);

fn engine(name: &str, silent: Duration, loaded: bool) -> EngineStanding {
    EngineStanding {
        name: name.to_owned(),
        silent,
        loaded,
        away: false,
    }
}

fn said(standing: Standing) -> (bool, bool, Vec<String>) {
    let report = health(&found(&standing));
    (report.live, report.ready, report.reasons)
}

#[test]
fn what_is_away_for_a_moment_is_no_reason() {
    let standing = Standing {
        silent_at_most: Duration::ZERO,
        workers: vec![(SOON, SOON, None), (Duration::ZERO, Duration::ZERO, None)],
        engines: vec![engine("small", LATE, true)],
        replicas: Vec::new(),
        servers: vec![("far".to_owned(), remote::Standing::Open { since: SOON })],
        stages: vec![("redact".to_owned(), SOON, "it traps".to_owned())],
        ends: false,
    };
    assert_eq!(said(standing), (true, true, Vec::new()));
}

#[test]
fn what_hangs_in_this_process_makes_it_not_live() {
    let engine = Standing {
        engines: vec![engine("small", HUNG, true)],
        ..Standing::default()
    };
    let why = "the engine of model small has not gone on for 301 s".to_owned();
    assert_eq!(said(engine), (false, false, vec![why]));
    let worker = Standing {
        workers: vec![(HUNG, SOON, None)],
        ..Standing::default()
    };
    let why = "worker 0 has not gone on for 301 s".to_owned();
    assert_eq!(said(worker), (false, false, vec![why]));
}

#[test]
fn a_replica_that_does_not_serve_is_said_and_leaves_the_host_ready() {
    let replica = |standing, reason: &str| ReplicaReport {
        adapter: "gpu".to_owned(),
        standing,
        reason: reason.to_owned(),
        ..ReplicaReport::default()
    };
    let tried_again = |seconds| ReplicaReport {
        again_seconds: Some(seconds),
        ..replica(ReplicaState::LeftOut, "no memory")
    };
    let all = [
        replica(ReplicaState::Serves, ""),
        replica(ReplicaState::Away, ""),
        replica(ReplicaState::LeftOut, "no memory"),
        tried_again(8),
        tried_again(0),
        replica(ReplicaState::Stalled, ""),
    ];
    let numbered = all.into_iter().enumerate();
    let standing = Standing {
        replicas: numbered
            .map(|(number, replica)| ("small".to_owned(), number, replica))
            .collect(),
        ..Standing::default()
    };
    let found = found(&standing);
    let texts: Vec<&str> = found.iter().map(|one| one.trouble.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "model small: replica 1 on gpu has lost its device, and is loaded again",
            "model small: replica 2 on gpu is left out: no memory",
            "model small: replica 3 on gpu is left out: no memory; it is tried again in 8 s",
            "model small: replica 4 on gpu is left out: no memory; it is tried again now",
            "model small: replica 5 on gpu does not go on: what it was asked goes to the others",
        ]
    );
    assert!(health(&found).ready);
}

#[test]
fn a_model_of_which_nothing_serves_makes_the_host_not_ready() {
    let away = |replicas: Vec<(String, usize, ReplicaReport)>| Standing {
        engines: vec![EngineStanding {
            away: true,
            ..engine("small", Duration::ZERO, true)
        }],
        replicas,
        ..Standing::default()
    };
    let why = "model small does not serve: its device was lost, or its engine does not go on";
    assert_eq!(said(away(Vec::new())), (true, false, vec![why.to_owned()]));
    let replicas = (0..2).map(|number| {
        let replica = ReplicaReport {
            standing: ReplicaState::Away,
            ..ReplicaReport::default()
        };
        ("small".to_owned(), number, replica)
    });
    let why = "model small: no replica serves, and requests wait";
    let standing = away(replicas.collect());
    assert_eq!(said(standing), (true, false, vec![why.to_owned()]));
    // What was unloaded is not loaded, and that is said once.
    let unloaded = Standing {
        engines: vec![engine("small", Duration::ZERO, false)],
        ..Standing::default()
    };
    let why = "model small is not loaded".to_owned();
    assert_eq!(said(unloaded), (true, false, vec![why]));
}

#[test]
fn a_worker_has_as_long_as_its_operators_may_take() {
    let standing = |silent| Standing {
        silent_at_most: HUNG * 2,
        workers: vec![(silent, SOON, None)],
        ..Standing::default()
    };
    assert!(health(&found(&standing(HUNG))).live);
    assert!(!health(&found(&standing(HUNG * 2))).live);
}

#[test]
fn what_a_restart_would_not_mend_makes_it_not_ready_and_leaves_it_live() {
    let hour = Duration::from_secs(3600);
    let fine = Duration::ZERO;
    for (standing, why) in [
        (
            Standing {
                workers: vec![(fine, fine, Some("tickets".to_owned()))],
                ..Standing::default()
            },
            "source tickets: worker 0 has not been told yet what to read",
        ),
        (
            Standing {
                workers: vec![(fine, fine, None), (fine, hour, None)],
                ..Standing::default()
            },
            "no cut of worker 1 has held for 3600 s",
        ),
        (
            Standing {
                engines: vec![engine("small", fine, false)],
                ..Standing::default()
            },
            "model small is not loaded",
        ),
        (
            Standing {
                servers: vec![("far".to_owned(), remote::Standing::Open { since: LATE })],
                ..Standing::default()
            },
            "model far: its server has not answered for 31 s",
        ),
        (
            Standing {
                stages: vec![("redact".to_owned(), LATE, "it\ntraps".to_owned())],
                ..Standing::default()
            },
            "stage redact cannot answer for 31 s: it\\ntraps",
        ),
        (
            Standing {
                ends: true,
                ..Standing::default()
            },
            "the pipeline is ending",
        ),
    ] {
        assert_eq!(said(standing), (true, false, vec![why.to_owned()]));
    }
}

#[test]
fn a_server_is_away_until_the_next_request_would_try_it() {
    let since = LATE;
    let half_open = |probing| remote::Standing::HalfOpen { since, probing };
    for (standing, ready, tones) in [
        (remote::Standing::Closed, true, vec![]),
        (remote::Standing::Resting, true, vec![]),
        (remote::Standing::Open { since }, false, vec![Tone::Bad]),
        (half_open(false), true, vec![Tone::Warn]),
        // A server that hangs is tried for a minute, in which every other request is refused.
        (half_open(true), false, vec![Tone::Bad]),
    ] {
        let standing = Standing {
            servers: vec![("far".to_owned(), standing)],
            ..Standing::default()
        };
        let found = found(&standing);
        assert_eq!(health(&found).ready, ready, "{standing:?}");
        let told = told(found).into_iter().map(|trouble| trouble.tone);
        assert_eq!(told.collect::<Vec<_>>(), tones, "{standing:?}");
    }
}

#[test]
fn whatever_makes_a_host_not_ready_is_told_to_people_in_the_same_words() {
    let standing = Standing {
        silent_at_most: Duration::ZERO,
        workers: vec![(HUNG, HUNG, Some("tickets".to_owned()))],
        engines: vec![engine("small", HUNG, false)],
        replicas: Vec::new(),
        servers: vec![("far".to_owned(), remote::Standing::Open { since: SOON })],
        stages: vec![("redact".to_owned(), SOON, "it traps".to_owned())],
        ends: true,
    };
    let health = health(&found(&standing));
    let told = told(found(&standing));
    assert_eq!((health.live, health.ready), (false, false));
    for why in &health.reasons {
        assert!(told.iter().any(|trouble| trouble.text == *why), "{why}");
    }
    // People are told at once what has to last for a while before probes are.
    assert_eq!((health.reasons.len(), told.len()), (6, 8), "{told:#?}");
    assert!(told.is_sorted_by_key(|trouble| trouble.tone));
    let stage = told.iter().find(|one| one.place.kind == PlaceKind::Stage);
    let stage = stage.map(|one| (&*one.place.name, &*one.text));
    let text = "stage redact cannot answer for 29 s: it traps";
    assert_eq!(stage, Some(("redact", text)));
}

#[test]
fn of_troubles_there_are_so_many_only_and_how_many_more_is_said() {
    let unloaded = |number: usize| engine(&format!("m{number}"), Duration::ZERO, false);
    let standing = Standing {
        engines: (0..TROUBLES + 5).map(unloaded).collect(),
        ends: true,
        ..Standing::default()
    };
    let told = told(found(&standing));
    assert_eq!(told.len(), TROUBLES);
    let last = told.last().map(|one| &*one.text);
    assert_eq!(last, Some("and 7 more"));
}

#[test]
fn a_total_is_a_trouble_while_it_grows_and_a_stage_while_it_holds_up_others() {
    let grown = Grown {
        since: Duration::from_secs(10),
        aborted: 1,
        rejected: vec![("in".into(), 1200)],
        failed: vec![("support".into(), 1)],
        stages: vec![
            GrownStage {
                name: "guest".into(),
                dead: 3,
                lost: 1,
                ..GrownStage::default()
            },
            GrownStage {
                name: "answer".into(),
                full: 0.75,
                ..GrownStage::default()
            },
        ],
    };
    let told = told(growing(&grown));
    let told: Vec<_> = told.iter().map(|one| (one.tone, &*one.text)).collect();
    let bad = [
        "1 cut has come to nothing within 10 s",
        "source in: 1,200 inputs were no record within 10 s",
        "model support: 1 request has failed within 10 s",
        "stage guest: 3 dead letters, 1 lost instance within 10 s",
    ];
    let mut expected = bad.map(|text| (Tone::Bad, text)).to_vec();
    let full = "stage answer is full 75 % of the time: what comes before it waits";
    expected.push((Tone::Warn, full));
    assert_eq!(told, expected);
    assert!(growing(&Grown::default()).is_empty());
}
