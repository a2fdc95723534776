//! Keys and tokens at the door.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use tidegate_gateway::access::{
    Access, AccessOptions, Algorithm, Clock, FetchKeys, Issuer, Key, KeySource, Permissions,
    Secret, faults,
};
use tidegate_gateway::front::Front;

use crate::client::{Client, get, post};
use crate::served::{Served, options};

const KEY: &str = "sk-right";

/// A clock that the test moves.
#[derive(Default)]
pub(crate) struct Hands(Mutex<Duration>);

impl Hands {
    pub(crate) fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for Hands {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn unix(&self) -> f64 {
        self.now().as_secs_f64()
    }
}

pub(crate) fn key(name: &str, secret: &str, permissions: Permissions) -> Key {
    let digest = ring::digest::digest(&ring::digest::SHA256, secret.as_bytes());
    let hex: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Key {
        name: name.to_owned(),
        secret: Secret::Digest(format!("sha256:{hex}")),
        permissions,
    }
}

fn front(access: Access) -> (Front, Arc<Served>) {
    let mut options = options();
    options.access = Arc::new(access);
    let served = Arc::new(Served::default());
    (Front::bind(options, served.clone()).unwrap(), served)
}

fn with_keys(clock: Arc<Hands>) -> Access {
    let options = AccessOptions {
        keys: vec![
            key("right", KEY, Permissions::default()),
            key("other", "sk-other", Permissions::default()),
        ],
        failures: 5,
        ..AccessOptions::default()
    };
    Access::with_clock(options, None, clock).unwrap()
}

#[tokio::test]
async fn a_key_is_known_in_each_header_that_clients_use() {
    let (front, _served) = front(with_keys(Arc::default()));
    let mut client = Client::to(front.address()).await;
    for header in [
        "Authorization: Bearer sk-right",
        "authorization: bearer sk-right",
        "api-key: sk-right",
        "X-API-Key: sk-right",
    ] {
        client.say(get("/echo", &format!("{header}\r\n"))).await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, &answer.json()["who"]),
            (200, &json!("right")),
            "{header}"
        );
    }
    client.say(get("/echo", "api-key: sk-other\r\n")).await;
    assert_eq!(client.answer().await.json()["who"], "other");
}

#[tokio::test]
async fn without_a_key_that_is_known_nobody_is_let_in() {
    let (front, served) = front(with_keys(Arc::default()));
    for header in [
        "",
        "authorization: Bearer\r\n",
        "authorization: Bearer \r\n",
        "authorization: Basic sk-right\r\n",
        "authorization: sk-right\r\n",
        "authorization: Bearer sk-righ\r\n",
        "authorization: Bearer sk-rightx\r\n",
        "authorization: Bearer sk-right\r\napi-key: sk-other\r\n",
        "authorization: Bearer sk-right\r\nauthorization: Bearer sk-other\r\n",
        "authorization: Bearer sk-\u{fc}\r\n",
    ] {
        let mut client = Client::to(front.address()).await;
        client.say(post("/echo", header, "abc")).await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, &*answer.error_code()),
            (401, "invalid_api_key"),
            "{header}"
        );
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(*served.seen.lock().unwrap(), Vec::<String>::new());
    // A path that is open needs none.
    let mut client = Client::to(front.address()).await;
    client.say(get("/open", "")).await;
    assert_eq!(client.answer().await.json()["who"], "");
}

#[tokio::test]
async fn who_guesses_is_sent_away_for_a_minute() {
    let clock = Arc::new(Hands::default());
    let (front, _served) = front(with_keys(clock.clone()));
    let mut client = Client::to(front.address()).await;
    for guess in 0..5 {
        client
            .say(get("/echo", &format!("api-key: {guess}\r\n")))
            .await;
        assert_eq!(client.answer().await.status, 401);
    }
    // A key that is known opens all the same: behind a proxy everybody has one address.
    client
        .say(get("/echo", &format!("api-key: {KEY}\r\n")))
        .await;
    assert_eq!(client.answer().await.status, 200);
    for key in ["6", "7"] {
        client
            .say(get("/echo", &format!("api-key: {key}\r\n")))
            .await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, &*answer.error_code()),
            (429, "too_many_failures")
        );
        assert!(
            (1..=60).contains(
                &answer
                    .header("retry-after")
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            )
        );
    }
    clock.pass(Duration::from_secs(61));
    client
        .say(get("/echo", &format!("api-key: {KEY}\r\n")))
        .await;
    assert_eq!(client.answer().await.status, 200);
}

/// Keys of an issuer that changes them.
struct Rotating {
    set: Mutex<String>,
    asked: AtomicUsize,
}

impl FetchKeys for Rotating {
    fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        assert_eq!(url, "https://door.example/keys");
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.set.lock().unwrap().clone().into_bytes())
    }
}

/// A key with its name: how it signs, and how others see it.
fn signer(kid: &str) -> (impl Fn() -> String + use<>, serde_json::Value) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .unwrap();
    let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let point = pair.public_key().as_ref().to_vec();
    let seen = json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": encoded(&point[1..33]), "y": encoded(&point[33..])});
    let head = json!({"alg": "ES256", "kid": kid}).to_string();
    let token = move || {
        let claims = json!({"sub": "ann", "exp": 10_000}).to_string();
        let text = format!(
            "{}.{}",
            encoded(head.as_bytes()),
            encoded(claims.as_bytes())
        );
        let signature = pair.sign(&random, text.as_bytes()).unwrap();
        format!("{text}.{}", encoded(signature.as_ref()))
    };
    (token, seen)
}

#[tokio::test]
async fn keys_that_an_issuer_rotates_are_fetched_when_a_token_names_them() {
    let ((first, first_seen), (second, second_seen)) = (signer("one"), signer("two"));
    let fetch = Arc::new(Rotating {
        set: Mutex::new(json!({"keys": [first_seen]}).to_string()),
        asked: AtomicUsize::new(0),
    });
    let clock = Arc::new(Hands::default());
    let issuer = Issuer {
        name: "door".to_owned(),
        algorithm: Algorithm::Es256,
        keys: KeySource::Url {
            url: "https://door.example/keys".to_owned(),
            every: Duration::from_secs(3600),
        },
        issuer: None,
        audience: None,
        leeway: Issuer::LEEWAY,
        permissions: Permissions::default(),
    };
    let options = AccessOptions {
        issuers: vec![issuer],
        failures: 0,
        ..AccessOptions::default()
    };
    let access = Access::with_clock(options, Some(fetch.clone()), clock.clone()).unwrap();
    let (front, _served) = front(access);
    let mut client = Client::to(front.address()).await;
    client
        .say(get(
            "/echo",
            &format!("authorization: Bearer {}\r\n", first()),
        ))
        .await;
    assert_eq!(client.answer().await.json()["who"], "door:ann");

    // Unknown names within a minute of the last fetch ask nobody.
    for _ in 0..3 {
        client
            .say(get(
                "/echo",
                &format!("authorization: Bearer {}\r\n", second()),
            ))
            .await;
        assert_eq!(client.answer().await.status, 401);
    }
    assert_eq!(fetch.asked.load(Ordering::SeqCst), 1);

    *fetch.set.lock().unwrap() = json!({"keys": [second_seen]}).to_string();
    clock.pass(Duration::from_secs(61));
    client
        .say(get(
            "/echo",
            &format!("authorization: Bearer {}\r\n", second()),
        ))
        .await;
    assert_eq!(client.answer().await.json()["who"], "door:ann");
    assert_eq!(fetch.asked.load(Ordering::SeqCst), 2);
    client
        .say(get(
            "/echo",
            &format!("authorization: Bearer {}\r\n", first()),
        ))
        .await;
    assert_eq!(
        client.answer().await.status,
        401,
        "a key that was taken away is still believed"
    );
}

#[test]
fn everything_that_is_wrong_with_keys_is_found_at_once_and_nothing_is_fetched() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("jwks.json");
    std::fs::write(&keys, "{}").unwrap();
    let issuer = |name: &str, keys| Issuer {
        name: name.to_owned(),
        algorithm: Algorithm::Es256,
        keys,
        issuer: None,
        audience: None,
        leeway: Issuer::LEEWAY,
        permissions: Permissions::default(),
    };
    let missing = Key {
        secret: Secret::Environment("TIDEGATE_TEST_NO_SUCH_KEY".into()),
        ..key("missing", "", Permissions::default())
    };
    let digest = Key {
        secret: Secret::Digest("sha256:none".into()),
        ..key("digest", "", Permissions::default())
    };
    let options = AccessOptions {
        keys: vec![missing, digest, key("app", KEY, Permissions::default())],
        issuers: vec![
            issuer("file", KeySource::File(keys)),
            issuer(
                "away",
                KeySource::Url {
                    url: "http://127.0.0.1:9/keys".into(),
                    every: Duration::from_secs(60),
                },
            ),
        ],
        ..AccessOptions::default()
    };
    let found = faults(&options);
    let names: Vec<&str> = found.iter().map(|fault| fault.name()).collect();
    assert_eq!(names, ["missing", "digest", "file"], "{found:?}");
}
