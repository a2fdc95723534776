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
    let [scaled, monitor] = custom.lines().collect::<Vec<_>>()[..] else {
        panic!("{custom}");
    };
    assert!(scaled.contains("ScaledObject"), "{scaled}");
    assert!(monitor.contains("PodMonitor"), "{monitor}");
    let many = scaled.replace("\"maxReplicaCount\": 8", "\"maxReplicaCount\": \"many\"");
    let late = monitor.replace("\"interval\": \"15s\"", "\"interval\": \"soon\"");
    for (object, valid) in [
        (scaled, true),
        (many.as_str(), false),
        (monitor, true),
        (late.as_str(), false),
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
    ] {
        assert!(text.contains(line), "{line}");
    }
    // Where there is no systemd nothing can say more.
    if let Some(security) = analyze(&["security", "--offline=true", "--threshold=25"]) {
        let said = String::from_utf8_lossy(&security.stdout);
        assert!(security.status.success(), "{said}");
    }
}
