//! What is in deploy/: held against published schemas, and against what the program says of itself.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tidegate_tests::{Workspace, root, target};

/// What `cargo xtask clients` has fetched.
fn fetched(name: &str) -> std::path::PathBuf {
    let path = target().join("clients").join(name);
    assert!(
        path.exists(),
        "{} is missing: run cargo xtask clients",
        path.display()
    );
    path
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join("deploy").join(path)).unwrap()
}

#[test]
fn manifests_are_valid_by_the_published_schemas_of_kubernetes_keda_and_prometheus_operator() {
    let manifests = Command::new("python3")
        .env("PYTHONPATH", fetched("manifests/python"))
        .arg(root().join("tests/deploy/manifests.py"))
        .arg(root().join("deploy/kubernetes"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&manifests.stderr);
    assert!(manifests.status.success(), "{said}");
    for kind in [
        "StatefulSet",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "Service",
    ] {
        assert!(said.contains(kind), "{said}");
    }
    let custom = String::from_utf8(manifests.stdout).unwrap();
    let [scaled, monitor, rule] = custom.lines().collect::<Vec<_>>()[..] else {
        panic!("{custom}");
    };
    assert!(scaled.contains("ScaledObject"), "{scaled}");
    assert!(monitor.contains("PodMonitor"), "{monitor}");
    assert!(rule.contains("PrometheusRule"), "{rule}");
    let many = scaled.replace("\"maxReplicaCount\": 8", "\"maxReplicaCount\": \"many\"");
    let late = monitor.replace("\"interval\": \"15s\"", "\"interval\": \"soon\"");
    let nameless = rule.replace("\"expr\"", "\"asks\"");
    for (object, valid) in [
        (scaled, true),
        (many.as_str(), false),
        (monitor, true),
        (late.as_str(), false),
        (rule, true),
        (nameless.as_str(), false),
    ] {
        let mut node = Command::new("node")
            .arg(fetched("manifests/node/custom_object.mjs"))
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = node.stdin.take().unwrap();
        input.write_all(object.as_bytes()).unwrap();
        drop(input);
        assert_eq!(node.wait().unwrap().success(), valid, "{object}");
    }
}

#[test]
fn prometheuss_operator_has_the_rules_that_are_tested_and_every_job_asked_for_is_one_that_is_scraped()
 {
    let alerts = read("prometheus/alerts.yml");
    let rule = read("kubernetes/prometheus/prometheusrule.yaml");
    let (_, spec) = rule.split_once("\nspec:\n").unwrap();
    let indented = alerts.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("  {line}\n"),
    });
    assert!(
        spec == indented.collect::<String>(),
        "prometheusrule.yaml says how it is made anew"
    );
    // The jobs of what is scraped: as it is named in a configuration, or by a label of the pods.
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key} in {text}"))
            .trim()
            .to_owned()
    };
    let label = value(&read("kubernetes/prometheus/podmonitor.yaml"), "jobLabel:");
    let pods = read("kubernetes/base/statefulset.yaml");
    let (_, template) = pods.split_once("\n  template:\n").unwrap();
    let (_, labels) = template.split_once("labels:\n").unwrap();
    let docs = std::fs::read_to_string(root().join("docs/src/production.md")).unwrap();
    let made = [
        value(&read("prometheus/prometheus.yml"), "- job_name:"),
        value(&docs, "- job_name:"),
        value(labels, &format!("{label}:")),
    ];
    // In JSON a quotation mark has a backslash before it.
    let dashboard = read("grafana/tidegate.json").replace('\\', "");
    let mut asked = 0;
    for text in [&alerts, &dashboard] {
        for (at, _) in text.match_indices("job=") {
            let job = text[at..].split('"').nth(1).unwrap();
            for made in &made {
                assert_eq!(job, made, "{}", &text[at..at + 40]);
            }
            asked += 1;
        }
    }
    assert!(asked >= 8, "{asked} of them are looked at");
}

#[test]
fn the_pipeline_of_the_manifests_is_one_and_their_commands_are_the_programs() {
    let config = read("kubernetes/base/configmap.yaml");
    let (_, pipeline) = config.split_once("pipeline.toml: |\n").unwrap();
    let lines = pipeline.lines().map(|line| line.trim_start_matches("    "));
    let pipeline: Vec<&str> = lines.collect();
    // As the first container of each pod writes it.
    let pipeline = pipeline.join("\n").replace("INSTANCE", "tidegate-0");
    let workspace = Workspace::new(&pipeline.replace("/var/lib/tidegate/", ""));
    let check = workspace.run(&["check", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(said.contains("guarantee: exactly once"), "{said}");
    // Probes ask where the pipeline tells, and the policy lets nobody but those who watch there.
    assert!(config.contains("metrics-address = \"0.0.0.0:9464\""));
    let pods = read("kubernetes/base/statefulset.yaml");
    assert!(pods.contains("{name: metrics, containerPort: 9464}"));
    for (path, probes) in [("/healthz/live", 2), ("/healthz/ready", 1)] {
        let probe = format!("httpGet: {{path: {path}, port: metrics}}");
        assert_eq!(pods.matches(&probe).count(), probes, "{path}");
    }
    assert!(read("kubernetes/base/networkpolicy.yaml").contains("tidegate.io/watches"));
    // A run may take 28 s to end, after those of preStop.
    assert!(pods.contains("terminationGracePeriodSeconds: 45"));
    let image = read("container/Containerfile");
    assert!(image.contains("USER 10001:10001") && pods.contains("runAsUser: 10001"));
    assert!(pods.contains("readOnlyRootFilesystem: true"));
}

#[test]
fn the_systemd_unit_is_one_and_gives_little_away() {
    let unit = root().join("deploy/systemd/tidegate.service");
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze")
            .args(arguments)
            .arg(&unit)
            .output();
        output.ok()
    };
    let text = std::fs::read_to_string(&unit).unwrap();
    for line in [
        "DynamicUser=yes",
        "StateDirectory=tidegate",
        "ProtectSystem=strict",
        "TimeoutStopSec=45",
        // What the watchdog ends has the state key in its memory.
        "LimitCORE=0",
    ] {
        assert!(text.contains(line), "{line}");
    }
    // Where there is no systemd nothing can say more.
    if let Some(security) = analyze(&["security", "--offline=true", "--threshold=25"]) {
        let said = String::from_utf8_lossy(&security.stdout);
        assert!(security.status.success(), "{said}");
    }
}
