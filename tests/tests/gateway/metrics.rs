//! What a running program tells those who watch it: held against the reference, promtool, a Prometheus and the dashboard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_telemetry::metrics::{Family, table};
use tidegate_tests::adapter::{HIDDEN, write_adapter};
use tidegate_tests::{Workspace, root, until};

use crate::client::{PATIENCE, Served, model};
use crate::figures::{metric, told};
use crate::prometheus::{Prometheus, promtool};

const TOKEN: &str = "scrapes-0123456789abcdef";

/// A pipeline with something of everything: requests to a model of this machine, to an adapter of it and to a model of another
/// server, which are never asked, records that are handed over, a file, and operators of which one measures something.
fn pipeline() -> String {
    format!(
        r#"
[pipeline]
name = "watched"
cut-interval = "20ms"
summary = "summary.json"
[admin]
metrics-token-file = "token"
[gateway]
address = "127.0.0.1:0"
{}
adapters = ["cpu", "cpu"]
[model.polite]
type = "lora"
base = "support"
path = "polite"
[model.far]
type = "openai"
url = "http://127.0.0.1:9/v1"
model = "there"
context = 4096
[source.chat]
type = "gateway"
[[source.chat.under-load]]
waiting = 100
max-tokens = 8
[source.handed]
type = "ingest"
[source.tickets]
type = "file"
paths = ["tickets.jsonl"]
event-time = "at"
[source.nothing]
type = "file"
paths = ["nothing.jsonl"]
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["messages"] }}
inputs = ["chat"]
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 16
inputs = ["redact"]
[[stage]]
name = "measure"
operator = "{{operators}}/hostile.wasm"
config = {{ mode = "series" }}
inputs = ["tickets", "handed"]
[[stage]]
name = "elsewhere"
model = "far"
prompt = "{{value}}"
inputs = ["nothing"]
[[stage]]
name = "politely"
model = "polite"
prompt = "{{value}}"
max-tokens = 8
inputs = ["nothing"]
[sink.reply]
type = "gateway"
inputs = ["answer"]
[sink.kept]
type = "file"
path = "kept.jsonl"
inputs = ["measure", "elsewhere", "politely"]
"#,
        model()
    )
}

fn start() -> Served {
    let workspace = Workspace::new(&pipeline());
    workspace.write("token", format!("{TOKEN}\n"));
    workspace.write("nothing.jsonl", "");
    write_adapter(&workspace.path("polite"), 1, HIDDEN);
    // Each is a label: what is in it must not end the line that it stands on.
    let ticket = |n: u32| json!({"at": "2026-01-02T03:04:05Z", "n": n, "text": "a\"b\\c\nd{}"});
    let tickets: Vec<String> = (0..3000).map(|n| ticket(n).to_string() + "\n").collect();
    workspace.write("tickets.jsonl", tickets.concat() + "no JSON\n");
    Served::again(workspace)
}

/// The types of all families that are told, by name.
fn types(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let pairs = lines.map(|line| line.split_once(' ').unwrap());
    let owned = pairs.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
    owned.collect()
}

/// Names and labels of all series that are told.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with("tidegate_"));
    let series = lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()));
    series.collect()
}

/// The queries of the dashboard, with its variables replaced, each with its panel.
fn queries() -> Vec<(String, String)> {
    let path = root().join("deploy/grafana/tidegate.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$__rate_interval", "1m");
            let query = query.replace("$instance", ".*");
            assert!(!query.contains('$'), "{title}: {query}");
            queries.push((title.to_owned(), query));
        }
    }
    assert!(queries.len() > 50, "{}", queries.len());
    queries
}

/// The rows of all tables of the reference whose first cell is a name.
fn reference() -> BTreeSet<String> {
    let page = root().join("docs/src/reference/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(str::to_owned).collect()
}

#[test]
fn the_reference_has_every_metric_as_it_is_and_no_other() {
    let row = |family: &&Family| {
        let labels = family.labels.iter();
        let labels = labels.map(|label| format!("`{}`: {}", label.name, label.bound));
        format!(
            "| `{}` | {} | {} | {} | {} | {} |",
            family.name,
            family.kind.name(),
            family.unit.name(),
            labels.collect::<Vec<_>>().join("; "),
            family.since.name(),
            family.help,
        )
    };
    let known: BTreeSet<String> = table::ALL.iter().map(row).collect();
    let written = reference();
    let differ: Vec<_> = known.symmetric_difference(&written).collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn whatever_runs_is_told_and_shown_and_is_bounded() {
    let mut served = start();
    let chat = "/v1/chat/completions";
    let asking = json!({"model": "support", "messages": [{"role": "user", "content": "Where is my parcel?"}]});
    let mut streamed = asking.clone();
    streamed["stream"] = true.into();
    for asked in [&asking, &streamed, &asking] {
        let got = served.post(chat, asked);
        assert_eq!(got.status, 200, "{got:?}");
    }
    for n in 0..3 {
        let got = served.post("/v1/ingest/handed", &json!({"n": n}));
        assert!(matches!(got.status, 200..=299), "{got:?}");
    }
    let account = |fate: &str| format!("tidegate_account_records_total{{fate=\"{fate}\"}}");
    until("all that came is committed", PATIENCE, || {
        served.metric(&account("in")) == 3 + 3 + 3001
    });
    // Workers tell now and then how far they are.
    until("how far tickets are is known", PATIENCE, || {
        let text = served.metrics();
        text.contains("tidegate_source_lag_seconds{source=\"tickets\"} 0")
    });

    // The reference in both directions: what is told, and of which type.
    let text = served.metrics();
    let (_, text) = text.split_once("\r\n\r\n").unwrap();
    let told = types(text);
    let of_operators = |name: &&String| {
        name.starts_with("tidegate_operator_") && **name != table::OPERATOR_SERIES_REFUSED.name
    };
    let own: BTreeMap<String, String> = table::ALL
        .iter()
        .map(|family| (family.name.to_owned(), family.kind.name().to_owned()))
        .collect();
    let missing: Vec<_> = own
        .iter()
        .filter(|one| told.get(one.0) != Some(one.1))
        .collect();
    assert!(missing.is_empty(), "{missing:?} in {text}");
    let unknown = told.keys().filter(|name| !own.contains_key(*name));
    let unknown: BTreeSet<&String> = unknown.filter(|name| !of_operators(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for family in table::ALL {
        let has = |line: &str| line.starts_with(family.name);
        assert!(text.lines().any(has), "{} has no sample", family.name);
    }
    let said = promtool(&["check", "metrics"], text);
    assert_eq!(said, "", "promtool finds nothing");

    // Whatever is in it, an operator's label is one label, and there are as many as a revision may have.
    let levels = series(text);
    let levels = levels
        .iter()
        .filter(|one| one.starts_with("tidegate_operator_level{"));
    assert_eq!(levels.count(), 1000);
    let refused = "tidegate_operator_series_refused_total{slot=\"measure\"";
    let refused = text.lines().find(|line| line.starts_with(refused)).unwrap();
    assert!(refused.ends_with(" 2003"), "{refused}");

    // Whoever asks for what is not there, with whatever key, makes no series of it.
    let strange = |n: u32| {
        let key = format!("Bearer key-{n}");
        let path = format!("/v1/none-{n}/{n}");
        let model = json!({"model": format!("model-{n}"), "messages": []});
        served.send("GET", &path, &[("authorization", &key)], "");
        served.post(chat, &model);
        served.post(&format!("/v1/ingest/none-{n}"), &model);
    };
    // Workers tell now and then of their sources, each for itself: that may come at any time.
    let series_now = || -> BTreeSet<String> {
        let all = series(&served.metrics()).into_iter();
        all.filter(|one| !one.starts_with("tidegate_source_lag_"))
            .collect()
    };
    strange(0);
    let before = series_now();
    (1..30).for_each(strange);
    assert_eq!(series_now(), before);

    // A Prometheus with the configuration that is shown, and nothing but the token of metrics.
    promtool(&["check", "rules", "alerts.yml"], "");
    promtool(&["test", "rules", "alerts.test.yml"], "");
    let admin = served.workspace.json("state/admin.json");
    let token = served.workspace.path("token").display().to_string();
    let prometheus = Prometheus::start(admin["address"].as_str().unwrap(), &token);
    until("it is scraped", PATIENCE, || {
        let up = prometheus.query("up{job=\"tidegate\"}");
        up.first().is_some_and(|up| up["value"][1] == "1")
    });
    let queries = queries();
    let mut empty = Vec::new();
    let mut answered = || {
        let has_none = |query: &str| prometheus.query(query).is_empty();
        empty = (queries.iter())
            .filter(|(_, query)| has_none(query))
            .map(|(panel, query)| format!("{panel}: {query}"))
            .collect();
        empty.is_empty()
    };
    let began = std::time::Instant::now();
    // Rates need a second scrape.
    while !answered() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(empty.is_empty(), "panels without an answer: {empty:#?}");
    let groups = prometheus.asked("/api/v1/rules");
    let rules = groups["groups"][0]["rules"].as_array().unwrap();
    let alerts = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    assert_eq!(rules.len(), alerts.matches("- alert: ").count());
    for rule in rules {
        assert_ne!(rule["health"], "err", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
    }

    let ended = served.running.terminate(PATIENCE);
    assert!(ended.success(), "{ended}");
    let summary = served.workspace.json("summary.json");
    assert_eq!(summary["records"]["dead"], 1, "{summary}");
}

#[test]
fn after_kills_the_account_is_that_of_the_summary_and_the_process_counts_for_itself() {
    const RECORDS: u64 = 20_000;
    let pipeline = r#"
[pipeline]
name = "killed"
cut-interval = "5ms"
batch = 16
summary = "summary.json"
[source.in]
type = "file"
paths = ["in.jsonl"]
[[stage]]
name = "abuse"
operator = "{operators}/drop-abuse.wasm"
config = { paths = ["text"], words = ["grumble"] }
[sink.one]
type = "file"
path = "one.jsonl"
[sink.two]
type = "file"
path = "two.jsonl"
inputs = ["abuse"]
"#;
    let workspace = Workspace::new(pipeline);
    let line = |n: u64| match n % 20 {
        0 => "this is not JSON\n".to_owned(),
        1 => format!("{{\"n\":{n},\"text\":\"grumble\"}}\n"),
        _ => format!("{{\"n\":{n},\"text\":\"hello\"}}\n"),
    };
    workspace.write("in.jsonl", (0..RECORDS).map(line).collect::<String>());
    let account = |fate: &str| format!("tidegate_account_records_total{{fate=\"{fate}\"}}");
    let mut lived = Vec::new();
    for kills in 0..4 {
        let mut running =
            workspace.start(&["run", "--until", "forever", "--quiet", "pipeline.toml"]);
        let state = workspace.path("state");
        // The file of the life before names nobody who answers.
        until("it runs", PATIENCE, || {
            let metrics = told(&state, "/metrics");
            metrics.is_some_and(|metrics| metric(&metrics, "tidegate_ready") == 1)
        });
        let now = |name: &str| metric(&told(&state, "/metrics").unwrap(), name);
        let done = || now(&account("in"));
        if kills < 3 {
            let begun = done();
            until("more is committed", PATIENCE, || {
                let is = done();
                is > begun || is == RECORDS
            });
            lived.push(done());
            running.kill();
            continue;
        }
        until("all is committed", PATIENCE, || done() == RECORDS);
        let fates = ["in", "out", "dropped", "dead", "split"];
        let account = fates.map(|fate| (fate, now(&account(fate))));
        // This process has not done what those before it have.
        let own = now("tidegate_in_records_total");
        assert!(own <= RECORDS - lived[2], "{own} after {lived:?}");
        let ended = running.terminate(PATIENCE);
        assert!(ended.success(), "{ended}");
        let summary = workspace.json("summary.json");
        for (fate, number) in account {
            assert_eq!(summary["records"][fate], number, "{fate}: {summary}");
        }
        let records = |fate: &str| summary["records"][fate].as_u64().unwrap();
        assert_eq!(records("dead"), RECORDS / 20);
        assert_eq!(
            records("in") + records("split"),
            records("out") + records("dropped") + records("dead")
        );
    }
    assert!(lived.is_sorted(), "it never goes back: {lived:?}");
}
