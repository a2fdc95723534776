//! The admin API over real connections, with a host that answers by heart.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod page;
mod playground;
mod read_only;
mod watched;

use super::*;
use crate::api::{
    ComponentVersion, DeployRefused, DeployReport, DeployRequest, RecordCounts, RunState,
    SlotCounters, SlotReport, StatusReport,
};
use crate::client::{Client, ClientError};
use crate::letters::{LetterReport, LettersRefused};
use crate::models::{BreakerState, ModelRefused, ModelReport, RemoteReport};
use crate::playground::{
    Hearer, ModelAnswer, ModelQuestion, PlaygroundRefused, TriedRecord, TryRecord,
};

/// Slot, and what was put into it.
type Seen = (String, DeployRequest);

#[derive(Default)]
struct Fake {
    seen: Mutex<Vec<Seen>>,
    inside: AtomicBool,
    /// Records read so far, and how often the status was asked for.
    records: AtomicU64,
    asked: AtomicU64,
    /// Things of the playground that are under way.
    under_way: AtomicU64,
    /// Letters that are looked for, the most at once, and whether that ends.
    looks: AtomicU64,
    most_looks: AtomicU64,
    found: AtomicBool,
}

fn version(version: &str) -> ComponentVersion {
    ComponentVersion {
        name: "redact-pii".into(),
        version: version.into(),
        digest: format!("sha256:{version}"),
        revision: String::new(),
    }
}

fn report() -> StatusReport {
    StatusReport {
        pipeline: "support-bot".into(),
        uptime_seconds: 1.5,
        state: RunState::Running,
        records: RecordCounts {
            input: 3,
            output: 2,
            in_flight: 1,
            ..RecordCounts::default()
        },
        tokens: 9,
        tokens_per_second: 4.5,
        latency_ms: Default::default(),
        adapter: None,
        slots: vec![SlotReport {
            slot: "redact".into(),
            name: "redact-pii".into(),
            version: "1.0.0".into(),
            digest: "sha256:1".into(),
            generation: 1,
            label: String::new(),
            counters: SlotCounters::default(),
            trouble: None,
            open: None,
            revisions: Vec::new(),
        }],
        models: vec![model("/models/small")],
        remote: vec![RemoteReport {
            name: "big".into(),
            server: "https://models.example/v1".into(),
            breaker: BreakerState::HalfOpen,
            open_seconds: Some(12),
            ..RemoteReport::default()
        }],
        gateway: None,
        swaps: 0,
        max_swap_wait_ms: 0.0,
        stages: Vec::new(),
        sources: Vec::new(),
        cuts: Default::default(),
        graph: Default::default(),
        deployments: Vec::new(),
        instance: "one".into(),
        audit: None,
        progress: Vec::new(),
        troubles: Vec::new(),
    }
}

fn model(path: &str) -> ModelReport {
    ModelReport {
        name: "support".into(),
        path: path.into(),
        loaded: true,
        ..ModelReport::default()
    }
}

impl Host for Fake {
    fn status(&self) -> StatusReport {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut report = report();
        let records = self.records.load(Ordering::SeqCst);
        report.records.input = report.records.input.max(records);
        report
    }

    fn dead_letter(&self, id: &str) -> Result<LetterReport, LettersRefused> {
        let now = self.looks.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_looks.fetch_max(now, Ordering::SeqCst);
        while !self.found.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.looks.fetch_sub(1, Ordering::SeqCst);
        Err(LettersRefused::Unknown { id: id.to_owned() })
    }

    fn models(&self) -> Vec<ModelReport> {
        report().models
    }

    fn load_model(&self, name: &str, path: Option<&Path>) -> Result<ModelReport, ModelRefused> {
        Fake::known(name)?;
        match path {
            Some(path) if path.ends_with("torn") => {
                Err(ModelRefused::Refused("its header is cut".into()))
            }
            Some(path) => Ok(model(&path.display().to_string())),
            None => Ok(model("/models/small")),
        }
    }

    fn unload_model(&self, name: &str) -> Result<ModelReport, ModelRefused> {
        Fake::known(name)?;
        Ok(ModelReport {
            loaded: false,
            ..model("/models/small")
        })
    }

    fn ask_model(
        &self,
        question: &ModelQuestion,
        hearer: &dyn Hearer,
    ) -> Result<ModelAnswer, PlaygroundRefused> {
        playground::ask(self, question, hearer)
    }

    fn try_record(
        &self,
        record: &TryRecord,
        hearer: &dyn Hearer,
    ) -> Result<TriedRecord, PlaygroundRefused> {
        playground::try_record(self, record, hearer)
    }

    fn deploy(&self, slot: &str, deployment: DeployRequest) -> Result<DeployReport, DeployRefused> {
        match deployment.component.as_deref().unwrap_or_default() {
            b"busy" => return Err(DeployRefused::UnderWay { slot: slot.into() }),
            b"bad" => return Err(DeployRefused::Refused("it imports wasi:http".into())),
            b"early" => return Err(DeployRefused::Starting),
            b"late" => return Err(DeployRefused::Ending),
            b"panic" => panic!("on purpose"),
            b"slow" => {
                self.inside.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(300));
            }
            _ => {}
        }
        if slot == "nobody" {
            return Err(DeployRefused::UnknownSlot {
                slot: slot.into(),
                slots: vec!["redact".into(), "shape".into()],
            });
        }
        let seen = (slot.to_owned(), deployment);
        self.seen.lock().unwrap().push(seen);
        Ok(DeployReport {
            slot: slot.into(),
            old: version("1.0.0"),
            new: version("2.0.0"),
            tasks: 4,
            switched_ms: 12.5,
            max_wait_ms: 0.25,
        })
    }
}

/// What the fake host does about models.
impl Fake {
    fn known(name: &str) -> Result<(), ModelRefused> {
        match name {
            "support" => Ok(()),
            "busy" => Err(ModelRefused::UnderWay { name: name.into() }),
            "early" => Err(ModelRefused::Starting),
            "late" => Err(ModelRefused::Ending),
            _ => Err(ModelRefused::Unknown {
                name: name.into(),
                models: vec!["support".into()],
            }),
        }
    }
}

struct Running {
    server: AdminServer,
    host: Arc<Fake>,
    state: tempfile::TempDir,
}

fn running() -> Running {
    let state = tempfile::tempdir().unwrap();
    let host = Arc::new(Fake::default());
    let any = ([127, 0, 0, 1], 0).into();
    let scrapes = state.path().join("scrapes");
    let server = AdminServer::start(any, state.path(), Some(&scrapes), host.clone()).unwrap();
    Running {
        server,
        host,
        state,
    }
}

/// Sends bytes as they are; the status and the error or the whole body.
fn raw(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let error = serde_json::from_str::<serde_json::Value>(body)
        .ok()
        .and_then(|body| Some(body.get("error")?.as_str()?.to_owned()));
    (status, error.unwrap_or_else(|| body.to_owned()))
}

#[test]
fn nobody_is_answered_who_does_not_know_the_token() {
    let Running { server, .. } = running();
    let (address, token) = (server.address(), server.token());
    let ask = |path: &str, more: &str| {
        raw(
            address,
            &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{more}\r\n"),
        )
    };
    for more in [
        String::new(),
        format!("Authorization: Bearer {}\r\n", "0".repeat(64)),
        format!("Authorization: Bearer {}\r\n", &token[..63]),
        format!("Authorization: {token}\r\n"),
        format!("Authorization: Bearer {token}\r\nAuthorization: Bearer x\r\n"),
    ] {
        let (status, error) = ask("/v1/status", &more);
        assert_eq!(status, 401, "{more} {error}");
        assert!(error.contains("admin.json"), "{error}");
        assert_eq!(ask("/no/such/thing", &more).0, 401);
    }
    let right = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(ask("/v1/status", &right).0, 200);
}

#[test]
fn a_request_that_means_another_server_is_refused() {
    let Running { server, .. } = running();
    let (address, token) = (server.address(), server.token());
    let ask = |hosts: &str| {
        raw(
            address,
            &format!("GET /v1/status HTTP/1.1\r\n{hosts}Authorization: Bearer {token}\r\n\r\n"),
        )
    };
    let port = address.port();
    for hosts in [
        String::new(),
        "Host: evil.example\r\n".into(),
        format!("Host: evil.example:{port}\r\n"),
        "Host: 127.0.0.1\r\n".into(),
        format!("Host: {address}\r\nHost: evil.example\r\n"),
    ] {
        let (status, error) = ask(&hosts);
        assert!(status == 403 || status == 400, "{hosts} {status} {error}");
    }
    assert_eq!(ask(&format!("Host: LocalHost:{port}\r\n")).0, 200);
}

#[test]
fn what_is_not_there_is_said_in_json() {
    let Running { server, .. } = running();
    let (address, token) = (server.address(), server.token());
    let ask = |line: &str, more: &str| {
        raw(
            address,
            &format!(
                "{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
            ),
        )
    };
    let (status, error) = ask("GET /v2/status", "");
    assert_eq!(status, 404);
    assert!(error.starts_with("there is no GET /v2/status"), "{error}");
    let (status, error) = ask("GET /v1/slots/redact", "");
    assert_eq!(
        (status, &*error),
        (405, "/v1/slots/redact does not take GET")
    );
    assert_eq!(
        ask("GET /metrics", ""),
        (404, "this host has no metrics".into())
    );
    let (status, error) = ask("POST /v1/slots/redact?lable=x", "Content-Length: 0\r\n");
    assert_eq!(status, 400);
    assert!(error.contains("\"lable\" is not known"), "{error}");
    let (status, error) = ask("POST /v1/slots/redact", "Content-Length: 0\r\n");
    assert_eq!(status, 422);
    assert!(error.contains("empty"), "{error}");
    let (status, error) = ask("POST /v1/slots/redact", "Content-Length: 67108865\r\n");
    assert_eq!((status, &*error), (413, "the component exceeds 64 MiB"));
}

#[test]
fn a_token_for_metrics_is_good_for_nothing_else_and_may_change() {
    let running = running();
    let address = running.server.address();
    let ask = |path: &str, token: &str| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        raw(address, &request).0
    };
    // This host has none, which whoever is let in hears.
    let (let_in, own) = (404, "scrapes-0123456789");
    assert_eq!(ask("/metrics", running.server.token()), let_in);
    assert_eq!(ask("/metrics", own), 401, "there is no file");
    let file = running.state.path().join("scrapes");
    std::fs::write(&file, format!("{own}\n")).unwrap();
    assert_eq!(ask("/metrics", own), let_in);
    assert_eq!(ask("/metrics", "scrapes-0123456780"), 401);
    for path in ["/v1/status", "/v1/models", "/metrics/", "//metrics"] {
        assert_eq!(ask(path, own), 401, "{path}");
    }
    std::fs::write(&file, "another-0123456789").unwrap();
    assert_eq!(ask("/metrics", own), 401);
    assert_eq!(ask("/metrics", "another-0123456789"), let_in);
    // Too short to be one.
    std::fs::write(&file, "short").unwrap();
    assert_eq!(ask("/metrics", "short"), 401);
    assert_eq!(ask("/metrics", running.server.token()), let_in);
}

#[test]
fn a_client_finds_the_host_asks_and_deploys() {
    let running = running();
    let client = Client::find(running.state.path()).unwrap();
    assert_eq!(client.address(), running.server.address());
    assert_eq!(client.status().unwrap(), report());
    let component = vec![7; 3 << 20];
    let deployments = [
        DeployRequest {
            component: Some(component.clone()),
            config: None,
            label: "v2 & more".into(),
        },
        DeployRequest {
            component: Some(component),
            config: Some(r#"{"a":[1.5,"{"]}"#.into()),
            label: String::new(),
        },
        DeployRequest {
            config: Some("{}".into()),
            ..DeployRequest::default()
        },
    ];
    for deployment in &deployments {
        let deployed = client.deploy("a b/ü", deployment).unwrap();
        assert_eq!(deployed.new, version("2.0.0"));
        let (slot, seen) = running.host.seen.lock().unwrap().pop().unwrap();
        assert_eq!((&*slot, &seen), ("a b/ü", deployment));
    }
}

#[test]
fn a_configuration_that_is_none_is_refused_before_the_host_is_asked() {
    let running = running();
    let client = Client::find(running.state.path()).unwrap();
    let refused = |config: &str| {
        let deployment = DeployRequest {
            config: Some(config.into()),
            ..DeployRequest::default()
        };
        client
            .deploy("redact", &deployment)
            .unwrap_err()
            .to_string()
    };
    for config in ["[1]", "{", "\"text\""] {
        let error = refused(config);
        assert!(
            error.starts_with("the configuration is not a JSON object: "),
            "{error}"
        );
    }
    let error = refused(&"x".repeat(MAX_CONFIG + 1));
    assert_eq!(
        error,
        "the configuration has 262145 bytes; a host takes at most 262144"
    );
    assert!(running.host.seen.lock().unwrap().is_empty());
}

fn component_of(bytes: &[u8]) -> DeployRequest {
    DeployRequest {
        component: Some(bytes.to_vec()),
        ..DeployRequest::default()
    }
}

#[test]
fn the_wire_form_is_the_one_that_is_promised() {
    let json = serde_json::to_value(report()).unwrap();
    assert_eq!(json["records"]["in"], 3);
    assert_eq!(json["records"]["in_flight"], 1);
    assert_eq!(json["state"], "running");
    assert_eq!(json["latency_ms"]["p99"], 0.0);
    assert_eq!(json["slots"][0]["counters"]["retried"], 0);
}

#[test]
fn a_refused_deployment_says_why() {
    let running = running();
    let client = Client::find(running.state.path()).unwrap();
    let refused = |slot: &str, component: &[u8]| match client.deploy(slot, &component_of(component))
    {
        Err(ClientError::Refused { status, error }) => (status, error),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused("nobody", b"x"),
        (
            404,
            "there is no slot \"nobody\"; slots: redact, shape".into()
        )
    );
    let (status, error) = refused("redact", b"busy");
    assert_eq!(status, 409);
    assert!(error.contains("under way"), "{error}");
    assert_eq!(
        refused("redact", b"bad"),
        (422, "it imports wasi:http".into())
    );
    assert_eq!(
        refused("redact", b"early"),
        (
            503,
            "the pipeline is starting; try again when it runs".into()
        )
    );
    assert_eq!(
        refused("redact", b"late"),
        (503, "the pipeline is ending".into())
    );
    assert_eq!(refused("redact", b"panic").0, 500);
    assert_eq!(client.status().unwrap(), report());

    let stranger = Client::at(running.server.address(), "wrong");
    match stranger.deploy("redact", &component_of(&vec![0; 8 << 20])) {
        Err(ClientError::Refused { status: 401, .. }) => {}
        other => panic!("{other:?}"),
    }
    match client.deploy("redact", &component_of(&vec![0; MAX_COMPONENT + 1])) {
        Err(ClientError::TooLarge { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn models_are_listed_loaded_replaced_and_unloaded() {
    let running = running();
    let client = Client::find(running.state.path()).unwrap();
    assert_eq!(client.models().unwrap(), [model("/models/small")]);
    let loaded = client.load_model("support", None).unwrap();
    assert_eq!(loaded, model("/models/small"));
    let new = Path::new("/models/new one");
    let loaded = client.load_model("support", Some(new)).unwrap();
    assert_eq!(loaded.path, new);
    assert!(!client.unload_model("support").unwrap().loaded);
    let refused =
        |name: &str, path: Option<&str>| match client.load_model(name, path.map(Path::new)) {
            Err(ClientError::Refused { status, error }) => (status, error),
            other => panic!("{other:?}"),
        };
    assert_eq!(
        refused("support", Some("/models/torn")),
        (422, "its header is cut".into())
    );
    assert_eq!(
        refused("suport", None),
        (
            404,
            "no stage asks a model \"suport\"; models: support".into()
        )
    );
    assert_eq!(refused("busy", None).0, 409);
    assert_eq!(refused("early", None).0, 503);
    assert_eq!(refused("late", None).0, 503);
    let (status, error) = refused("support", Some("models/new"));
    assert_eq!(
        (status, &*error),
        (400, "\"models/new\" is not an absolute path")
    );
    assert_eq!(refused("support", Some(&"x".repeat(20_000))).0, 413);
}

#[test]
fn one_deployment_at_a_time_and_stopping_waits_for_it() {
    let running = running();
    let client = Client::find(running.state.path()).unwrap();
    let deploying = {
        let client = client.clone();
        std::thread::spawn(move || client.deploy("redact", &component_of(b"slow")))
    };
    while !running.host.inside.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    match client.deploy("redact", &component_of(b"other")) {
        Err(ClientError::Refused { status: 409, .. }) => {}
        other => panic!("{other:?}"),
    }
    running.server.stop();
    assert_eq!(deploying.join().unwrap().unwrap().tasks, 4);
    assert!(!AdminFile::path(running.state.path()).exists());
}

/// Opens connections that say nothing. Where the system gives fewer, some are left for others.
fn open(address: SocketAddr, connections: usize) -> Vec<TcpStream> {
    let opened = (0..connections).map_while(|_| TcpStream::connect(address).ok());
    let mut opened: Vec<TcpStream> = opened.collect();
    if opened.len() < connections {
        opened.truncate(opened.len().saturating_sub(300));
    }
    opened
}

#[test]
fn idle_connections_hold_up_nobody_and_are_ended() {
    let running = running();
    let address = running.server.address();
    let client = Client::find(running.state.path()).unwrap();
    let mut idle = Vec::new();
    for connections in [1_000, 4_000] {
        idle.extend(open(address, connections));
        assert!(idle.len() > SILENT, "{} connections", idle.len());
        assert_eq!(client.status().unwrap(), report());
    }
    // The oldest was closed for those after it.
    idle[0]
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let ended = idle[0].read(&mut [0]);
    assert!(!matches!(&ended, Ok(1..)), "{ended:?}");
    let timed_out = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        )
    };
    assert!(
        !ended.is_err_and(|error| timed_out(&error)),
        "it is still open"
    );
    // And stopping waits for none of them.
    running.server.stop();
    assert!(client.status().is_err());
}

#[test]
fn requests_that_come_byte_by_byte_hold_up_nobody_and_are_ended() {
    let running = running();
    let address = running.server.address();
    let client = Client::find(running.state.path()).unwrap();
    let mut slow = open(address, 1_000);
    let request = format!("GET /v1/status HTTP/1.1\r\nHost: {address}\r\nx: ");
    for byte in request.as_bytes().chunks(1).take(40) {
        for stream in &mut slow {
            // Those closed already cannot be written to.
            let _ = stream.write_all(byte);
        }
        assert_eq!(client.status().unwrap(), report());
    }
    let mut last = slow.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut answer = String::new();
    // Nobody waits longer for a head than its deadline.
    let _ = last.read_to_string(&mut answer);
    assert!(!answer.contains(" 200 "), "{answer}");
    assert_eq!(client.status().unwrap(), report());
}

#[test]
fn whoever_asks_whether_the_host_is_well_waits_for_no_request_that_is_under_way() {
    let running = running();
    let address = running.server.address();
    let client = Client::find(running.state.path()).unwrap();
    let token = &running.server.file.token;
    let mut under_way = open(address, REQUESTS);
    assert_eq!(under_way.len(), REQUESTS);
    for stream in &mut under_way {
        // Its body does not come.
        let head = format!(
            "POST /v1/dead-letters/send HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
    }
    // Until none of them has room left for another.
    let full = || match client.status() {
        Ok(_) => false,
        Err(error) => error.to_string().contains("the most there may be"),
    };
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !full() {
        let now = std::time::Instant::now();
        assert!(now < end, "{REQUESTS} requests are under way");
    }
    assert!(client.health().unwrap().live);
    let probe = format!("GET /healthz/live HTTP/1.1\r\nHost: {address}\r\n\r\n");
    assert_eq!(raw(address, &probe).0, 200);
}

#[test]
fn a_host_that_is_not_there_is_explained() {
    let state = tempfile::tempdir().unwrap();
    let said = |state: &Path| match Client::find(state).and_then(|client| client.status()) {
        Err(error) => error.to_string(),
        Ok(report) => panic!("{report:?}"),
    };
    let path = AdminFile::path(state.path());
    assert_eq!(
        said(state.path()),
        format!(
            "no running host found: {} is missing; is the pipeline running, or still starting?",
            path.display()
        )
    );
    // A port that was free a moment ago, and the number of a process that is there: not the host, which had it before.
    let address = StdListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let file = AdminFile {
        address,
        token: "0".repeat(64),
        pid: std::process::id(),
    };
    file.write(state.path()).unwrap();
    assert_eq!(
        said(state.path()),
        format!(
            "no running host found: {} was left by a process that has ended; is the pipeline running?",
            path.display()
        )
    );
    // Somebody has the directory: a host that is busy, or one that is only starting.
    let disk = Arc::new(tidegate_state::Disk);
    let held = tidegate_state::StateDirectory::open(state.path(), disk).unwrap();
    let unreachable = said(state.path());
    assert!(
        unreachable.starts_with(&format!("the host at {address} does not answer: ")),
        "{unreachable}"
    );
    drop(held);
    std::fs::write(&path, "{").unwrap();
    assert!(said(state.path()).starts_with("cannot read "));
}

#[test]
fn a_host_is_found_by_its_pipeline_file_even_if_that_has_mistakes() {
    let running = running();
    let pipeline = running.state.path().join("pipeline.toml");
    std::fs::write(&pipeline, "[pipeline]\nstate = \".\"\nworkers = 0\n").unwrap();
    assert_eq!(Client::find(&pipeline).unwrap().status().unwrap(), report());
    std::fs::write(&pipeline, "[pipeline\n").unwrap();
    assert!(matches!(
        Client::find(&pipeline),
        Err(ClientError::Pipeline(_))
    ));
}

#[test]
fn other_addresses_than_loopback_are_refused() {
    let state = tempfile::tempdir().unwrap();
    let host: Arc<dyn Host> = Arc::new(Fake::default());
    let any = ([0, 0, 0, 0], 0).into();
    assert!(matches!(
        AdminServer::start(any, state.path(), None, host.clone()),
        Err(AdminError::NotLoopback { .. })
    ));
    let taken = StdListener::bind("127.0.0.1:0").unwrap();
    let error =
        AdminServer::start(taken.local_addr().unwrap(), state.path(), None, host).unwrap_err();
    assert!(matches!(error, AdminError::Listen { .. }), "{error}");
    assert!(!AdminFile::path(state.path()).exists());
}
