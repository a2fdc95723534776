//! Pages of other origins.

use tidegate_gateway::front::Cors;

use crate::client::{Client, get};
use crate::served::{options, start};

const PREFLIGHT: &str = "access-control-request-method: POST\r\naccess-control-request-headers: authorization, x-stainless-os\r\n";

fn asks(origin: &str) -> String {
    format!("OPTIONS /echo HTTP/1.1\r\nhost: localhost\r\norigin: {origin}\r\n{PREFLIGHT}\r\n")
}

#[tokio::test]
async fn a_configured_origin_may_ask_and_no_other() {
    let mut with = options();
    with.cors = Some(Cors {
        origins: vec!["https://a.example".into()],
        credentials: true,
    });
    let (front, served) = start(with);
    let mut client = Client::to(front.address()).await;
    client.say(asks("https://a.example")).await;
    let (status, head) = client.head().await;
    assert_eq!(status, 204, "{head}");
    for header in [
        "access-control-allow-origin: https://a.example",
        "access-control-allow-credentials: true",
        "access-control-allow-headers: authorization, x-stainless-os",
        "access-control-allow-methods: GET, POST, OPTIONS",
        "vary: origin",
    ] {
        assert!(head.contains(header), "{header} is not in {head}");
    }
    client
        .say(get("/echo", "origin: https://a.example\r\n"))
        .await;
    let answer = client.answer().await;
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://a.example")
    );
    assert!(
        answer
            .header("access-control-expose-headers")
            .unwrap()
            .contains("x-request-id")
    );

    for other in [
        "https://b.example",
        "null",
        "https://a.example.evil",
        "http://a.example",
        "https://A.example",
    ] {
        client.say(asks(other)).await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, &*answer.error_code()),
            (403, "origin_not_allowed"),
            "{other}"
        );
        assert_eq!(answer.header("access-control-allow-origin"), None);
        client
            .say(get("/echo", &format!("origin: {other}\r\n")))
            .await;
        assert_eq!(
            client.answer().await.header("access-control-allow-origin"),
            None
        );
    }
    assert!(
        served
            .seen
            .lock()
            .unwrap()
            .iter()
            .all(|path| path == "/echo")
    );
}

#[tokio::test]
async fn without_being_configured_nothing_is_said_of_origins() {
    let (front, served) = start(options());
    let mut client = Client::to(front.address()).await;
    client.say(asks("https://a.example")).await;
    let answer = client.answer().await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(answer.header("vary"), None);
    // Without keys a page of another site is not this machine, whoever has it open.
    assert_eq!(
        (answer.status, &*answer.error_code()),
        (403, "origin_not_allowed")
    );
    assert_eq!(served.seen.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_star_lets_every_page_ask_without_credentials() {
    let mut with = options();
    with.cors = Some(Cors {
        origins: vec!["*".into()],
        credentials: false,
    });
    let (front, _served) = start(with);
    let mut client = Client::to(front.address()).await;
    client
        .say(get("/echo", "origin: https://any.example\r\n"))
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
}
