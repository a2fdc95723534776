//! Frames at several sizes, of a host that runs, starts, is lost, and has hostile names.

use std::ffi::OsStr;

use serde_json::{Value, json};
use tidegate_control::StatusReport;

use super::draw::{Shown, draw, whole};
use super::figures::Figures;
use super::frame::{Frame, Look, fitted, width};
use super::has_colours;
use super::keys::Key;
use super::views::View;

fn counters(input: u64, dead: u64) -> Value {
    json!({"in": input, "out": input, "dropped": 0, "dead": dead, "retried": 0})
}

fn stage(name: &str, input: u64, dead: u64, waiting: u64) -> Value {
    let mut stage = counters(input, dead);
    let more = json!({
        "name": name, "kind": "operator", "batches": 1, "inbox": 7, "waiting": waiting, "limit": 64,
        "full_seconds": (input * waiting) as f64 / 256_000.0,
        "time_ms": {"p50": 1.5, "p95": 2.0, "p99": 12.25},
    });
    for (key, value) in more.as_object().unwrap() {
        stage[key] = value.clone();
    }
    stage
}

fn report(input: u64, change: impl FnOnce(&mut Value)) -> StatusReport {
    let revision = |digest: &str, runs: bool, tripped: Option<&str>| {
        json!({"revision": digest, "version": "0.1.0", "digest": "sha256:1", "runs": runs, "tripped": tripped,
            "records": 40, "outcomes": {}, "failed": 2, "lost_instances": 0, "guest_ms": 1, "memory": 2_097_152,
            "instances": 4})
    };
    let version = |version: &str| json!({"name": "redact-pii", "version": version, "digest": "sha256:1", "revision": ""});
    let mut report = json!({
        "pipeline": "support-bot", "uptime_seconds": 3725.0, "state": "running", "instance": "one",
        "records": {"in": input, "out": input / 2, "dropped": 4, "dead": 3, "in_flight": 64},
        "tokens": 9726, "tokens_per_second": 1652.0,
        "latency_ms": {"p50": 1.5, "p95": 20.0, "p99": 2530.0},
        "adapter": "llvmpipe", "swaps": 0, "max_swap_wait_ms": 0.0,
        "slots": [{"slot": "redact", "name": "redact-pii", "version": "0.1.0",
            "digest": "sha256:fa549fded0e4aaaa", "generation": 2, "label": "", "counters": counters(input, 0),
            "revisions": [revision("sha256:0123456789abcdef", false, Some("6 of 10 records failed")),
                revision("sha256:fedcba9876543210", true, None)]}],
        "models": [{"name": "support", "path": "model", "loaded": true, "digest": "sha256:1", "adapter": "a",
            "context": 512, "sequences": 32, "memory": 1 << 30, "waiting": 5, "running": 16, "blocks": 100,
            "blocks_used": 1, "answered": 1, "failed": 0, "prompt_tokens": 1, "prefix_hit_tokens": 0,
            "tokens": input, "first_token_ms": {"p50": 40.0, "p95": 60.0, "p99": 70.0}, "drafted": 0, "accepted": 0,
            "preemptions": 0, "reloads": 0}],
        "remote": [{"name": "big", "server": "https://models.example/v1", "in_flight": 3, "waiting": 1, "answered": 9,
            "failed": 0, "breaker": "half-open", "open_seconds": 75}],
        "gateway": {"url": "http://127.0.0.1:8080", "waiting": 2, "answered": input,
            "shed": [{"source": "api", "step": "refused", "requests": 3}]},
        "audit": {"path": "audit.jsonl", "lines": 1234, "head": "5f0c5f0c5f0c5f0c"},
        "progress": [{"kind": "load", "subject": "next", "done": 1, "of": 4, "unit": "bytes", "seconds": 3.0}],
        "sources": [{"name": "tickets", "records": input, "rejected": 0, "unread_records": 1_200_000,
            "behind_seconds": 95.0}],
        "cuts": {"held": 42, "aborted": 1, "uncommitted_seconds": 0.25,
            "time_ms": {"p50": 4.0, "p95": 8.0, "p99": 9.0}},
        "troubles": [
            {"tone": "bad", "text": "stage redact cannot answer for 7 s: no memory", "where": {"kind": "stage", "name": "redact"}},
            {"tone": "bad", "text": "1 cut has come to nothing within 10 s", "where": {"kind": "cuts"}},
            {"tone": "warn", "text": "model big: its server has not answered for 75 s, and the next request tries it",
                "where": {"kind": "model", "name": "big"}}],
        "deployments": [{"at": 3_723_000, "slot": "redact", "label": "fix", "old": version("0.2.0"),
            "new": version("0.1.0"), "fell_back": true}],
        "stages": [stage("abuse", input, 1, 0), stage("redact", input * 2, 0, 64), stage("answer", input / 2, 2, 32)],
    });
    change(&mut report);
    serde_json::from_value(report).unwrap()
}

/// Two answers, a second apart.
fn figures(change: impl Fn(&mut Value)) -> Figures {
    grown(&change, &change)
}

/// The same of a host that is otherwise in the second.
fn grown(first: impl Fn(&mut Value), second: impl Fn(&mut Value)) -> Figures {
    let mut figures = Figures::default();
    let earlier = |report: &mut Value| {
        report["uptime_seconds"] = 3724.0.into();
        first(report);
    };
    figures.take(report(1000, earlier));
    figures.take(report(3000, second));
    figures
}

fn frame(figures: &Figures, shown: &mut Shown, columns: usize, rows: usize) -> Vec<String> {
    let text = draw(figures, shown, columns, rows).text();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_screen_of_80_columns_has_all_of_it_at_a_glance() {
    let lines = frame(&figures(|_| {}), &mut Shown::default(), 80, 24);
    let expected = [
        "support-bot  running 1 h 02 min",
        " 1 Overview   2 Stages   3 Slots   4 Models   5 Ends",
        "stage redact cannot answer for 7 s: no memory",
        "1 cut has come to nothing within 10 s",
        "model big: its server has not answered for 75 s, and the next request tries it",
        "load next: 25 % of 4 bytes, 3 s",
        "records   2,000 in/s  1,000 out/s  in flight 64  dropped 4  dead 3",
        "latency   p50 1.50 ms  p95 20.0 ms  p99 2.53 s  1,652 tokens/s",
        "cuts      42 hold  aborted 1  oldest uncut 0.2 s  p50 4.00 ms  p99 9.00 ms",
        "source      in/s      unread       behind  rejected       records",
        "tickets    2,000   1,200,000   1 min 35 s         0         3,000",
        "stage      in/s    out/s       waiting      p50      p99   dead  full   inbox",
        "abuse     2,000    2,000          0/64  1.50 ms  12.2 ms      1    0%       7",
        "redact    4,000    4,000         64/64  1.50 ms  12.2 ms      0  100%       7",
        "answer    1,000    1,000         32/64  1.50 ms  12.2 ms      2   12%       7",
        "slot      redact  redact-pii 0.1.0  fa549fded0e4  generation 2",
        "model     support  sequences [#####.....] 16/32  waiting 5",
        "          KV [#.........] 1/100  2,000 tokens/s",
        "          first token p50 40.0 ms p99 70.0 ms  1.0 GiB  failed 0",
        "model     big  at https://models.example/v1  breaker half open since 1 min 15 s",
        "          in flight 3  waiting 1  failed 0",
        "gateway   http://127.0.0.1:8080  2,000 answers/s  waiting 2  answered 3,000",
        "audit     1,234 lines  head 5f0c5f0c5f0c",
        "2 more below  q quit  h help  Tab view  s sort: file  p pause",
    ];
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
}

#[test]
fn each_view_has_all_of_what_it_is_about() {
    let figures = figures(|_| {});
    let mut shown = Shown::default();
    let has = |shown: &mut Shown, words: &[&str]| {
        let text = frame(&figures, shown, 160, 50).join("\n");
        for word in words {
            assert!(text.contains(word), "{word:?} in\n{text}");
        }
    };
    shown.key(Key::Next);
    has(&mut shown, &["retried", "dropped", "redact", "64/64"]);
    shown.key(Key::Next);
    let slots = [
        "revision",
        "fedcba987654 runs",
        "2.0 MiB",
        "0123456789ab is run no more: 6 of 10",
        "back by itself: a breaker had opened",
    ];
    has(&mut shown, &slots);
    shown.key(Key::View(3));
    has(&mut shown, &["first token p50 40.0 ms", "half open"]);
    shown.key(Key::Previous);
    assert_eq!(shown.view, View::Slots);
    shown.key(Key::View(4));
    let ends = [
        "tickets",
        "aborted 1",
        "dead 3",
        "under load api step refused: 3",
        "1,234 lines",
    ];
    has(&mut shown, &ends);
    shown.key(Key::View(8));
    assert_eq!(shown.view, View::Ends, "there is no ninth");
    shown.key(Key::Next);
    assert_eq!(shown.view, View::Overview);
    // What is printed once has all of the overview.
    let once = whole(&figures, &Shown::default(), 100).text();
    assert!(
        once.contains("1,234 lines") && once.contains("0.2.0 to 0.1.0"),
        "{once}"
    );
}

#[test]
fn adapters_of_a_model_stand_below_it_with_their_own_rates() {
    let with = |tokens: u64| {
        move |report: &mut Value| {
            report["models"][0]["loras"] = json!([{"name": "polite", "digest": "sha256:2", "rank": 8, "answered": 1234,
                "failed": 5, "left": 0, "prompt_tokens": 1, "prefix_hit_tokens": 0, "tokens": tokens}]);
        }
    };
    let figures = grown(with(100), with(400));
    let mut shown = Shown::default();
    shown.key(Key::View(3));
    let lines = frame(&figures, &mut shown, 160, 50);
    let line = lines.iter().find(|line| line.starts_with("adapter"));
    let words = "polite  of support  rank 8  300 tokens/s  answered 1,234  failed 5";
    assert!(line.is_some_and(|line| line.contains(words)), "{lines:?}");
}

#[test]
fn a_small_screen_has_what_matters_first_and_the_rest_below() {
    let figures = figures(|_| {});
    let mut shown = Shown::default();
    let lines = frame(&figures, &mut shown, 40, 12);
    assert_eq!(lines.len(), 12);
    assert_eq!(lines[0], "support-bot  running 1 h 02 min");
    assert_eq!(lines[1], " Overview", "there is no room for all five");
    assert!(lines[11].contains("more below"), "{lines:?}");
    shown.key(Key::Down);
    shown.key(Key::Down);
    let scrolled = frame(&figures, &mut shown, 40, 12);
    assert_eq!(scrolled[..2], lines[..2], "the head stays");
    assert_eq!(scrolled[2], lines[4]);
    shown.key(Key::Bottom);
    for _ in 0..100 {
        shown.key(Key::Down);
    }
    let end = frame(&figures, &mut shown, 40, 12);
    assert!(
        end[10].contains("switched") && !end[11].contains("more"),
        "{end:?}"
    );
    shown.key(Key::Up);
    let back = frame(&figures, &mut shown, 40, 12);
    assert_ne!(
        back, end,
        "what was pressed beyond the end is not remembered"
    );
    shown.key(Key::Top);
    assert_eq!(frame(&figures, &mut shown, 40, 12), lines);

    // As small as a terminal gets: whose it is, three lines, and the keys.
    let tiny = frame(&figures, &mut shown, 20, 5);
    assert_eq!(tiny[0], "support-bot  running");
    assert!(tiny[4].contains("more below"), "{tiny:?}");
    let mut seen = Vec::new();
    for _ in 0..200 {
        seen.extend(frame(&figures, &mut shown, 20, 5).drain(1..4));
        shown.key(Key::PageDown);
    }
    for word in [
        "2,000 in/s",
        "dead 3",
        "p99 2.53 s",
        "redact",
        "KV",
        "1,234 lines",
    ] {
        assert!(
            seen.iter().any(|line| line.contains(word)),
            "{word:?} in {seen:#?}"
        );
    }
}

#[test]
fn a_frame_is_as_large_as_its_screen_whatever_that_is() {
    let figures = figures(|report| report["slots"][0]["name"] = "名前".repeat(2000).into());
    for view in View::ALL {
        for (columns, rows) in [
            (0, 0),
            (1, 1),
            (2, 9),
            (5, 2),
            (20, 5),
            (79, 23),
            (300, 3),
            (3, 90),
        ] {
            let mut shown = Shown {
                view,
                ..Shown::default()
            };
            let Frame { lines } = draw(&figures, &mut shown, columns, rows);
            assert!(lines.len() <= rows, "{view:?} {columns} {rows}");
            for line in &lines {
                let pieces = line.pieces().iter();
                let end = pieces.map(|piece| piece.column + width(&piece.text)).max();
                assert!(
                    end.unwrap_or(0) <= columns,
                    "{view:?} {columns} {rows}: {line:?}"
                );
            }
        }
    }
    assert_eq!(fitted("名前名前", 5), "名前…");
    assert_eq!(fitted("名前名前", 4), "名…", "half of a letter is none");
    assert_eq!(
        (fitted("名", 1), fitted("abc", 0)),
        ("…".into(), String::new())
    );
}

#[test]
fn stages_are_sorted_and_help_is_there_when_it_is_asked_for() {
    let figures = figures(|_| {});
    let mut shown = Shown {
        view: View::Stages,
        ..Shown::default()
    };
    let order = |shown: &mut Shown| {
        let lines = frame(&figures, shown, 80, 24);
        lines[4..7]
            .iter()
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(order(&mut shown), ["abuse", "redact", "answer"]);
    shown.key(Key::Sort);
    assert_eq!(order(&mut shown), ["redact", "abuse", "answer"], "in/s");
    shown.key(Key::Sort);
    assert_eq!(order(&mut shown), ["redact", "answer", "abuse"], "waiting");
    shown.key(Key::Sort);
    assert_eq!(
        order(&mut shown),
        ["answer", "abuse", "redact"],
        "dead letters"
    );
    shown.key(Key::Help);
    let help = frame(&figures, &mut shown, 80, 24).join("\n");
    assert!(help.contains("q, Ctrl-C     quit"), "{help}");
    shown.key(Key::Pause);
    let paused = frame(&figures, &mut shown, 80, 24);
    assert!(paused[23].starts_with("PAUSED"), "{paused:?}");
}

#[test]
fn a_host_that_is_lost_or_started_again_has_no_rate_and_says_so() {
    let mut figures = figures(|_| {});
    let mut shown = Shown {
        lost: Some("connection refused\u{1b}[2J".into()),
        ..Shown::default()
    };
    let lines = frame(&figures, &mut shown, 80, 24);
    assert_eq!(lines[0], "support-bot  lost 1 h 02 min");
    assert_eq!(lines[1], "lost, trying again: connection refused\\u{1b}[2J");
    let again = |report: &mut Value| report["instance"] = "two".into();
    figures.take(report(10, again));
    shown.lost = None;
    let lines = frame(&figures, &mut shown, 80, 24);
    assert!(lines[6].contains("- in/s  - out/s"), "{lines:?}");
    let unknown = frame(&Figures::default(), &mut shown, 80, 24);
    assert!(unknown[0].starts_with("nothing is known yet"));
    // Of a host that starts there is what takes long, and its models.
    let starting = |report: &mut Value| {
        report["state"] = "starting".into();
        for key in ["slots", "stages", "sources", "deployments", "troubles"] {
            report[key] = json!([]);
        }
        report["gateway"] = Value::Null;
    };
    let lines = frame(&self::figures(starting), &mut shown, 80, 24);
    assert_eq!(lines[0], "support-bot  starting 1 h 02 min");
    assert_eq!(lines[2], "load next: 25 % of 4 bytes, 3 s");
}

#[test]
fn hostile_names_move_nothing_and_nothing_is_read_as_an_escape() {
    const HOSTILE: &str = "a\u{1b}[31m\nb\u{202e}\u{9b}2J\u{7}\r";
    fn poison(value: &mut Value) {
        match value {
            Value::String(text) => *text = HOSTILE.into(),
            Value::Array(values) => values.iter_mut().for_each(poison),
            Value::Object(members) => {
                let enums = ["state", "kind", "breaker", "tone"];
                let members = members
                    .iter_mut()
                    .filter(|(key, _)| !enums.contains(&key.as_str()));
                members.for_each(|(_, value)| poison(value));
            }
            _ => {}
        }
    }
    let figures = figures(|report| {
        report["progress"][0]["kind"] = HOSTILE.into();
        poison(report);
    });
    for view in View::ALL {
        let mut shown = Shown {
            view,
            lost: Some(HOSTILE.into()),
            ..Shown::default()
        };
        let Frame { lines } = draw(&figures, &mut shown, 120, 60);
        let pieces = lines.iter().flat_map(|line| line.pieces());
        for piece in pieces {
            assert!(tidegate_telemetry::is_plain(&piece.text), "{piece:?}");
        }
        assert!(
            lines[0].text().starts_with("a\\u{1b}[31m\\nb\\u{202e}"),
            "{:?}",
            lines[0]
        );
    }
    // A name that is wide, or as long as it may be, leaves the figures where they are.
    let wide = self::figures(|report| {
        report["stages"][0]["name"] = "段".repeat(500).into();
        report["stages"][1]["name"] = "👩‍🚀".into();
    });
    let mut shown = Shown {
        view: View::Stages,
        ..Shown::default()
    };
    let Frame { lines } = draw(&wide, &mut shown, 80, 24);
    let columns = |row: usize| {
        let pieces = lines[row].pieces()[1..].iter();
        pieces
            .map(|piece| piece.column + width(&piece.text))
            .collect::<Vec<_>>()
    };
    let stages = 4..7;
    assert!(
        stages
            .clone()
            .all(|row| columns(row) == columns(stages.start)),
        "{lines:#?}"
    );
}

#[test]
fn what_is_wrong_is_what_the_host_says_where_it_belongs_and_no_total_is() {
    let of = |figures: &Figures, view: View, is: fn(Look) -> bool| {
        let lines = view.lines(figures, Default::default(), 200);
        let pieces = lines.iter().flat_map(|line| line.pieces());
        let of = pieces.filter(|piece| is(piece.look));
        of.map(|piece| piece.text.clone()).collect::<Vec<_>>()
    };
    // What failed a month ago and is told as a total, and what fails now: only the host knows which.
    let calm = grown(
        |_| {},
        |report| {
            report["troubles"] = json!([]);
            report["records"]["dead"] = 5.into();
            report["cuts"]["aborted"] = 2.into();
            report["models"][0]["failed"] = 7.into();
            report["slots"][0]["revisions"][0]["failed"] = 77.into();
        },
    );
    let bad = |look| look == Look::Bad;
    for view in View::ALL {
        assert_eq!(of(&calm, view, bad), [""; 0], "{view:?}");
    }
    let breaker = of(&calm, View::Models, |look| look == Look::Warn);
    assert_eq!(breaker, [""; 0], "the host says nothing of its server");
    let figures = figures(|_| {});
    let stage = "stage redact cannot answer for 7 s: no memory";
    let cut = "1 cut has come to nothing within 10 s";
    assert_eq!(of(&figures, View::Overview, bad), [stage, cut]);
    assert_eq!(of(&figures, View::Stages, bad), [stage]);
    assert_eq!(of(&figures, View::Slots, bad), [stage]);
    assert_eq!(of(&figures, View::Models, bad), [""; 0]);
    assert_eq!(of(&figures, View::Ends, bad), [cut]);
    let warned = of(&figures, View::Models, |look| look == Look::Warn);
    assert_eq!(warned.len(), 2, "its server and the breaker: {warned:?}");
    // One that is long goes on in the next lines, and ends.
    let long = self::figures(|report| {
        let text = format!(
            "stage redact cannot answer for 7 s: {}",
            "why not ".repeat(100)
        );
        report["troubles"][0]["text"] = text.into();
    });
    let mut shown = Shown::default();
    let lines = frame(&long, &mut shown, 80, 24);
    assert!(lines[3].starts_with("  "), "{lines:?}");
    assert!(lines[4].ends_with('…'), "{lines:?}");
    assert_eq!(lines[5], cut);
}

#[test]
fn a_host_that_has_not_answered_is_said_to_be_silent_and_its_figures_to_be_old() {
    let mut shown = Shown {
        silent: Some(std::time::Duration::from_secs(3)),
        ..Shown::default()
    };
    let lines = frame(&figures(|_| {}), &mut shown, 80, 24);
    assert_eq!(lines[0], "support-bot  silent 1 h 02 min");
    assert_eq!(lines[1], "no answer for 3.0 s: what is shown is old");
    let unknown = frame(&Figures::default(), &mut shown, 80, 24);
    assert_eq!(unknown[0], "nothing is known yet: no answer for 3.0 s");
}

#[test]
fn of_why_a_host_is_lost_the_path_is_cut_and_not_the_cause() {
    let path = format!("/srv/{}/state/admin.json", "deep/".repeat(40));
    let why = "was left by a process that has ended; is the pipeline running?";
    let mut shown = Shown {
        lost: Some(format!("no running host found: {path} {why}")),
        ..Shown::default()
    };
    let lines = frame(&figures(|_| {}), &mut shown, 80, 24);
    let said = format!("{} {}", lines[1], lines[2].trim_start());
    assert!(
        said.starts_with("lost, trying again: no running host found: …"),
        "{said}"
    );
    assert!(
        said.ends_with(&format!("/state/admin.json {why}")),
        "{said}"
    );
    // Where there is room for neither the cause goes on beyond the screen.
    let tiny = frame(&figures(|_| {}), &mut shown, 30, 24);
    assert!(
        tiny[2].ends_with('…') && !tiny.join(" ").contains("deep"),
        "{tiny:?}"
    );
}

#[test]
fn rates_are_by_the_hosts_own_time_however_late_its_answers_are_taken() {
    // Both were taken at once here: one of them had waited.
    let mut figures = Figures::default();
    for (input, seconds) in [(1000, 100.0), (4000, 110.0)] {
        figures.take(report(input, |report| {
            report["uptime_seconds"] = seconds.into();
        }));
    }
    let rate = figures.rate(|report| Some(report.records.input));
    assert_eq!(rate, Some(300.0));
    // The same answer again has no time in it.
    figures.take(report(4000, |report| {
        report["uptime_seconds"] = 110.0.into();
    }));
    assert_eq!(figures.rate(|report| Some(report.records.input)), None);
}

#[test]
fn what_is_wrong_stands_out_and_colours_are_only_where_they_are_wanted() {
    let Frame { lines } = draw(&figures(|_| {}), &mut Shown::default(), 80, 24);
    let look = |text: &str| {
        let mut pieces = lines.iter().flat_map(|line| line.pieces());
        let piece = pieces.find(|piece| piece.text == text);
        piece.unwrap_or_else(|| panic!("{text} in {lines:#?}")).look
    };
    assert_eq!(look("running"), Look::Good);
    assert_eq!(look("64/64"), Look::Warn, "it takes no more");
    assert_eq!(look("32/64"), Look::Plain);
    assert_eq!(
        look("stage redact cannot answer for 7 s: no memory"),
        Look::Bad
    );
    assert_eq!(look(" 1 Overview "), Look::Chosen);

    let colours = |no_color: Option<&str>, term: &str| {
        has_colours(no_color.map(OsStr::new), Some(OsStr::new(term)))
    };
    assert!(colours(None, "xterm-256color") && colours(Some(""), "screen"));
    assert!(
        !colours(Some("1"), "xterm") && !colours(None, "vt100") && !colours(None, "xterm-mono")
    );
}
