//! What a pipeline file says of telemetry is what is meant.

use std::path::Path;
use std::time::Duration;

use super::*;

fn parsed(telemetry: &str) -> Result<Pipeline, Mistakes> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let content = format!(
        "[pipeline]\nname = \"told\"\n[source.lines]\ntype = \"stdin\"\n[sink.out]\ntype = \"stdout\"\n{telemetry}"
    );
    parse(
        Path::new("pipeline.toml"),
        &directory.join("pipeline.toml"),
        content,
    )
}

#[test]
fn nothing_is_told_unless_the_file_says_so() {
    let telemetry = parsed("").unwrap().telemetry;
    assert!(telemetry.traces.is_none() && telemetry.metrics.is_none());
    let telemetry = parsed("[telemetry]\n").unwrap();
    assert!(
        telemetry.warnings[0]
            .what
            .contains("neither traces nor metrics")
    );
}

#[test]
fn those_who_watch_from_elsewhere_ask_where_the_file_says() {
    assert_eq!(parsed("").unwrap().watch, None);
    let pipeline = parsed("[admin]\nmetrics-address = \"127.0.0.1:9464\"\n").unwrap();
    assert_eq!(pipeline.watch, Some(([127, 0, 0, 1], 9464).into()));
    assert!(pipeline.warnings.is_empty(), "{:?}", pipeline.warnings);
    // The admin API can be off beside it.
    let open = "[admin]\naddress = \"off\"\nmetrics-address = \"0.0.0.0:9464\"\n";
    let pipeline = parsed(open).unwrap();
    assert_eq!((pipeline.admin, pipeline.watch.is_some()), (None, true));
    let warning = &pipeline.warnings[0].what;
    assert!(warning.contains("metrics-token-file"), "{warning}");
    // Two listeners on one port are found in the file, and not when it is run.
    let twice = "[admin]\naddress = \"127.0.0.1:9464\"\nmetrics-address = \"0.0.0.0:9464\"\nmetrics-token-file = \"token\"\n";
    let mistakes = parsed(twice).unwrap_err();
    let mistake = &mistakes.mistakes[0];
    assert_eq!(mistake.key, "admin.metrics-address");
    assert_eq!(
        mistake.what,
        "0.0.0.0:9464 cannot listen beside admin.address = \"127.0.0.1:9464\"; write another port"
    );
    assert_eq!(mistakes.mistakes.len(), 1);
    let mistakes = parsed("[admin]\nmetrics-address = \"9464\"\n").unwrap_err();
    let what = &mistakes.mistakes[0].what;
    assert!(what.contains("not an address with a port"), "{what}");
}

#[test]
fn what_is_told_is_what_is_typed() {
    let pipeline = parsed(
        "[telemetry.traces]\nendpoint = \"https://otel.example\"\nsample = 0.5\nqueue = 100\nforced-per-second = 7\n\
         headers-variable = \"KEYS\"\ntimeout = \"2s\"\n\
         [telemetry.metrics]\nendpoint = \"http://127.0.0.1:4318/own\"\ninterval = \"5s\"\n",
    );
    let telemetry = pipeline.unwrap().telemetry;
    let traces = telemetry.traces.unwrap();
    assert_eq!((traces.sample, traces.queue, traces.forced), (0.5, 100, 7));
    let collector = &traces.collector;
    assert_eq!(collector.endpoint.as_deref(), Some("https://otel.example"));
    assert_eq!(collector.headers_variable.as_deref(), Some("KEYS"));
    assert_eq!(collector.timeout, Duration::from_secs(2));
    let metrics = telemetry.metrics.unwrap();
    assert_eq!(metrics.interval, Duration::from_secs(5));
    assert_eq!(metrics.collector.timeout, Duration::from_secs(10));

    let usual = parsed("[telemetry.traces]\n")
        .unwrap()
        .telemetry
        .traces
        .unwrap();
    assert_eq!(
        (usual.sample, usual.queue, usual.forced),
        (0.01, 8192, 1000)
    );
    assert_eq!(usual.collector.endpoint, None);
}

#[test]
fn every_mistake_is_told_at_once_with_its_line() {
    let mistakes = parsed(
        "[telemetry.traces]\nendpoint = \"127.0.0.1:4318\"\nsample = 1.5\nqueue = 0\ntimeout = 3\n\
         headers-variable = \"a-b\"\n[telemetry.metrics]\ninterval = \"1ms\"\nevery = 1\n[telemetry.logs]\n",
    )
    .unwrap_err();
    let said: Vec<_> = mistakes
        .mistakes
        .iter()
        .map(|one| {
            (
                one.position.as_ref().map_or(0, |at| at.line),
                one.key.as_str(),
            )
        })
        .collect();
    let expected = [
        (8, "telemetry.traces.endpoint"),
        (9, "telemetry.traces.sample"),
        (10, "telemetry.traces.queue"),
        (11, "telemetry.traces.timeout"),
        (12, "telemetry.traces.headers-variable"),
        (14, "telemetry.metrics.interval"),
        (15, "telemetry.metrics.every"),
        (16, "telemetry.logs"),
    ];
    assert_eq!(said, expected, "{mistakes}");
}

#[test]
fn headers_that_go_in_the_open_are_warned_of() {
    let pipeline = parsed(
        "[telemetry.traces]\nendpoint = \"http://otel.example\"\nheaders-variable = \"KEYS\"\n",
    );
    let warnings = pipeline.unwrap().warnings;
    assert!(warnings[0].what.contains("in the open"), "{warnings:?}");
}
