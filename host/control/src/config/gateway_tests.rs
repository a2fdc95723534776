//! What a pipeline file says of the gateway is what is meant; the mistakes are in `tests/config/gateway-*.toml`.

use std::path::Path;
use std::time::Duration;

use tidegate_contract::{CommitPoint, SourceClass};

use super::*;

fn parsed(content: &str) -> Result<Pipeline, Mistakes> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    parse(
        Path::new("pipeline.toml"),
        &directory.join("pipeline.toml"),
        content.to_owned(),
    )
}

fn full() -> Pipeline {
    parsed(include_str!("../../tests/config/gateway.toml")).unwrap()
}

fn route<'p>(pipeline: &'p Pipeline, name: &str) -> &'p Route {
    let source = pipeline.sources.iter().find(|one| one.name == name);
    match &source.unwrap().kind {
        SourceKind::Gateway(route) => route,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_that_names_the_page_is_an_end_of_the_gateway_and_no_other_key_has_it() {
    let with = |key: &str| {
        parsed(&format!(
            "[pipeline]\nname = \"p\"\n[source.in]\ntype = \"stdin\"\n[sink.out]\ntype = \"stdout\"\n\
             [gateway]\n[gateway.key.night]\nvariable = \"NIGHT\"\n{key}"
        ))
    };
    let shown = with("endpoints = [\"page\"]").unwrap();
    assert!(shown.gateway.unwrap().shows_page());
    let silent = with("").unwrap_err().to_string();
    assert!(
        silent.contains("no key with endpoints = [\"page\"]"),
        "{silent}"
    );
    assert!(!full().gateway.unwrap().shows_page());
}

#[test]
fn a_gateway_is_what_is_typed() {
    let pipeline = full();
    let gateway = pipeline.gateway.as_ref().unwrap();
    assert_eq!(gateway.address.to_string(), "0.0.0.0:8443");
    let tls = gateway.tls.as_ref().unwrap();
    assert!(tls.certificate.ends_with("tests/config/cert.pem"));
    assert!(tls.private_key.ends_with("tests/config/key.pem"));
    assert_eq!(
        gateway.origins,
        ["https://app.example", "http://localhost:3000"]
    );
    let seconds = Duration::from_secs;
    let limits = GatewayLimits {
        connections: 500,
        connections_per_address: 20,
        body: 4 << 20,
        header_deadline: seconds(5),
        body_deadline: seconds(20),
        write_deadline: seconds(15),
        idle: seconds(30),
        wrong_keys: 5,
    };
    assert_eq!(gateway.limits, limits);
    let cache = Kept {
        ttl: seconds(600),
        bytes: 32 << 20,
    };
    assert_eq!(gateway.cache, Some(cache));
    assert_eq!(gateway.idempotency.ttl, seconds(3600));
    assert_eq!(gateway.idempotency.bytes, 64 << 20);
    assert!(gateway.share_equal_requests);
}

#[test]
fn keys_and_tokens_may_what_is_typed() {
    let pipeline = full();
    let gateway = pipeline.gateway.unwrap();
    let [app, batch] = gateway.keys.as_slice() else {
        panic!("{:?}", gateway.keys);
    };
    assert!(matches!(app.secret, KeySecret::Digest([0x2b, 0xb8, ..])));
    let scope = Scope {
        endpoints: Some(vec![Endpoint::Chat, Endpoint::Outputs]),
        models: Some(vec!["support".into()]),
    };
    assert_eq!((app.name.as_str(), &app.scope), ("app", &scope));
    let quota = Quota {
        requests: Some(60),
        tokens: Some(100_000),
        concurrent: Some(4),
    };
    assert_eq!(app.quota, quota);
    assert_eq!(batch.secret, KeySecret::Variable("BATCH_KEY".into()));
    assert_eq!(
        (&batch.scope, batch.quota),
        (&Scope::default(), Quota::default())
    );
    let tokens = gateway.tokens.unwrap();
    assert_eq!(tokens.algorithm, TokenAlgorithm::Es256);
    assert!(matches!(&tokens.keys, TokenKeys::File(path) if path.ends_with("jwks.json")));
    assert_eq!(tokens.leeway, Duration::from_secs(30));
    assert_eq!(tokens.audience.as_deref(), Some("front"));
}

#[test]
fn a_route_has_what_its_stages_make_unless_it_says_otherwise() {
    let pipeline = full();
    let chat = route(&pipeline, "chat");
    assert_eq!(chat.models, ["support", "gpt-4o-mini"]);
    let three = [Endpoint::Chat, Endpoint::Responses, Endpoint::Completions];
    // Not `rerank`: the stage that classifies is not the one that answers.
    assert_eq!(chat.endpoints, three);
    assert_eq!(chat.headers, ["x-session", "x-tenant"]);
    assert_eq!(chat.key_header.as_deref(), Some("x-session"));
    assert_eq!((chat.priority, chat.max_waiting), (1, 100));
    let vectors = route(&pipeline, "vectors");
    assert_eq!(vectors.models, ["mini"]);
    assert_eq!(vectors.endpoints, [Endpoint::Embeddings]);
    assert_eq!(vectors.deadline, Duration::from_secs(600));
    let answer = pipeline.stage("answer").unwrap();
    let StageKind::Model(asks) = &pipeline.stages[answer].kind else {
        panic!("no model stage");
    };
    assert!(asks.messages && asks.prompt.parts.is_empty());
    assert_eq!(asks.tokens, [pipeline.stage("restore").unwrap()]);
}

#[test]
fn what_is_done_under_load_is_what_is_typed_and_its_stage_has_the_models_for_it() {
    let pipeline = full();
    let small = pipeline.models.iter().position(|one| one.name == "small");
    let step = LoadStep {
        waiting: None,
        oldest: None,
        model: None,
        max_tokens: None,
        refuse: false,
    };
    let steps = [
        LoadStep {
            waiting: Some(20),
            model: small,
            ..step
        },
        LoadStep {
            waiting: Some(50),
            oldest: Some(Duration::from_secs(5)),
            max_tokens: Some(128),
            ..step
        },
        LoadStep {
            oldest: Some(Duration::from_secs(20)),
            refuse: true,
            ..step
        },
    ];
    assert_eq!(route(&pipeline, "chat").under_load, steps);
    assert!(route(&pipeline, "vectors").under_load.is_empty());
    let asks = |name: &str| {
        let stage = pipeline.stage(name).unwrap();
        match &pipeline.stages[stage].kind {
            StageKind::Model(asks) => asks,
            other => panic!("{other:?}"),
        }
    };
    let answer = asks("answer");
    assert_eq!(answer.alternatives, Vec::from_iter(small));
    assert!(answer.asks(answer.model) && answer.asks(small.unwrap()));
    // All that wait, and the sequences of both models.
    assert_eq!(
        answer.max_in_flight,
        100 + pipeline.models[answer.model].sequences + 4
    );
    // A client's key is one for all that it asks: none of it waits for another, at no stage on the way.
    for on_the_way in [asks("mood"), answer, asks("vector")] {
        assert_eq!(on_the_way.order, Order::None);
        assert_eq!(on_the_way.max_in_flight_per_key, on_the_way.max_in_flight);
    }
    assert_eq!(
        (asks("sort").order, asks("sort").max_in_flight_per_key),
        (Order::Key, 4)
    );
    assert!(asks("sort").alternatives.is_empty());
    assert_eq!(asks("sort").max_in_flight, 64);
}

#[test]
fn a_remote_model_is_what_is_typed_and_has_defaults() {
    let pipeline = full();
    let model = |name: &str| pipeline.models.iter().find(|one| one.name == name).unwrap();
    let big = model("big").remote.as_ref().unwrap();
    let protocol = RemoteProtocol::OpenAi {
        vllm: true,
        completion_tokens: false,
    };
    assert_eq!(big.protocol, protocol);
    assert_eq!(
        (big.url.as_str(), big.model.as_str()),
        ("https://models.example/v1", "large-instruct")
    );
    assert_eq!(model("big").context, Some(32_768));
    assert_eq!(
        (big.attempts, big.in_flight, big.max_tokens),
        (2, 32, Some(1024))
    );
    assert_eq!(big.hedge, RemoteHedge::After(Duration::from_millis(800)));
    let breaker = RemoteBreaker {
        least: 3,
        share: 0.9,
        open: Duration::from_secs(30),
        ..RemoteBreaker::default()
    };
    assert_eq!(big.breaker, breaker);
    let timeouts = RemoteTimeouts {
        connect: Duration::from_secs(2),
        between: Duration::from_secs(20),
        ..RemoteTimeouts::default()
    };
    assert_eq!(big.timeouts, timeouts);
    assert!(big.certificates.as_ref().unwrap().ends_with("cert.pem"));
    let mood = model("mood").remote.as_ref().unwrap();
    assert_eq!((mood.model.as_str(), mood.attempts), ("mood", 3));
    let RemoteProtocol::Kserve { labels, input, .. } = &mood.protocol else {
        panic!("{:?}", mood.protocol);
    };
    assert_eq!(
        (labels.join(" "), input.as_str()),
        ("glad sad".into(), "text")
    );
    assert!(model("support").remote.is_none());
}

#[test]
fn a_stage_that_says_no_length_asks_for_no_more_than_each_model_makes() {
    let pipeline = |stage: &str| {
        parsed(&format!(
            "[pipeline]\nname = \"p\"\n[gateway]\n[source.a]\ntype = \"gateway\"\n\
             [[source.a.under-load]]\nwaiting = 5\nmodel = \"short\"\n\
             [model.large]\ntype = \"openai\"\nurl = \"https://m.example/v1\"\n\
             [model.short]\ntype = \"openai\"\nurl = \"https://m.example/v1\"\nmax-tokens = 128\n\
             [[stage]]\nname = \"say\"\nmodel = \"large\"\nmessages = true\n{stage}[sink.b]\ntype = \"gateway\"\n",
        ))
        .unwrap()
    };
    let length = |pipeline: &Pipeline| {
        let StageKind::Model(asks) = &pipeline.stages[0].kind else {
            panic!("no model stage");
        };
        assert_eq!(asks.alternatives.len(), 1);
        let Ask::Generate(generate) = &asks.ask else {
            panic!("{:?}", asks.ask);
        };
        let models = pipeline.models.iter().filter_map(Model::told);
        let most = asks.max_tokens(models);
        assert_eq!(most, generate.parameters.max_tokens as usize);
        // A model that is opened later may hold less.
        let short = asks.max_tokens([Holds::positions(64)]);
        (most, short)
    };
    let holds = pipeline("").models[1].told().unwrap();
    assert_eq!((holds.context, holds.answer), (DEFAULT_CONTEXT, 128));
    assert_eq!(length(&pipeline("")), (128, 32));
    // What the file says is what is asked for: whether it fits is another question.
    assert_eq!(length(&pipeline("max-tokens = 300\n")), (300, 300));
}

#[test]
fn the_field_of_an_answer_is_that_of_the_stage_before() {
    let pipeline = parsed(
        "[pipeline]\nname = \"p\"\n[gateway]\n[source.a]\ntype = \"gateway\"\n[model.m]\npath = \"model\"\n\
         [[stage]]\nname = \"say\"\nmodel = \"m\"\nmessages = true\nfield = \"said\"\n\
         [[stage]]\nname = \"after\"\noperator = \"redact.wasm\"\n[sink.b]\ntype = \"gateway\"\n",
    )
    .unwrap();
    let field = "said".to_owned();
    assert_eq!(pipeline.sinks[0].kind, SinkKind::Gateway { field });
    assert_eq!(pipeline.sources[0].kind.class(), SourceClass::Caller);
    assert_eq!(pipeline.commit_point(), CommitPoint::Log);
    let gateway = pipeline.gateway.unwrap();
    assert_eq!(gateway.address.to_string(), "127.0.0.1:8080");
    assert!(gateway.keys.is_empty() && gateway.cache.is_none());
}

#[test]
fn a_url_of_keys_is_not_fetched_in_the_open() {
    let with = |url: &str| {
        parsed(&format!(
            "[pipeline]\nname = \"p\"\n[gateway]\n[gateway.tokens]\nalgorithm = \"RS256\"\n\
             keys-url = \"{url}\"\nkeys-refresh = \"1m\"\n[source.a]\ntype = \"ingest\"\n[sink.b]\ntype = \"output\"\n"
        ))
    };
    for url in [
        "https://login.example/keys",
        "http://127.0.0.1:9000/keys",
        "http://localhost/keys",
        "http://[::1]:80/keys",
    ] {
        assert!(with(url).is_ok(), "{url}");
    }
    for url in [
        "http://login.example/keys",
        "http://127.0.0.1.example/keys",
        "http://localhost@login.example/keys",
        "https:///keys",
        "ftp://login.example/keys",
        "https://login.example/a b",
    ] {
        assert!(with(url).is_err(), "{url}");
    }
}

#[test]
fn feeds_are_what_is_typed_and_stages_send_to_those_they_name() {
    let pipeline = parsed(include_str!("../../tests/config/feeds.toml")).unwrap();
    let names: Vec<&str> = pipeline.feeds.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["live", "topic"]);
    let output = FeedKind::Output {
        max_records: 1000,
        max_bytes: 1 << 20,
    };
    assert_eq!(pipeline.feeds[0].kind, output);
    let FeedKind::Kafka {
        topic,
        queue,
        patience,
    } = &pipeline.feeds[1].kind
    else {
        panic!("{:?}", pipeline.feeds[1]);
    };
    assert_eq!(topic.brokers, ["one:9092", "two:9092"]);
    assert_eq!(topic.topic, "tickets");
    assert_eq!(topic.properties["compression.type"], "zstd");
    assert_eq!((*queue, *patience), (500, Duration::from_secs(2)));
    assert_eq!(pipeline.senders(0), ["answer"]);
    assert_eq!(pipeline.senders(1), ["answer", "sort"]);
    // Its client is checked as those of sinks are, and it has no part in what a cut is.
    let ends = pipeline.kafka_ends();
    assert!(ends.iter().any(|(name, _)| name == "feed topic"));
    assert_eq!(pipeline.commit_point(), CommitPoint::Log);
}
