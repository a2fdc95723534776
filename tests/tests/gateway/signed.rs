//! Signed tokens at the door of a whole program: who signs, from where the keys come, and what changes while it runs.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use tidegate_tests::{Workspace, until};

use crate::client::{PATIENCE, Served};

/// Keys made for these tests, and for nothing else.
const RSA: [&str; 2] = [
    include_str!("signers/rsa-one.b64"),
    include_str!("signers/rsa-two.b64"),
];
const SECRET: &str = "a secret of thirty-two bytes or more";

/// One who signs, under a name.
enum Signer {
    Secret(hmac::Key),
    Rsa(&'static str, Box<RsaKeyPair>),
    Curve(&'static str, Box<EcdsaKeyPair>),
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn secret(secret: &str) -> Signer {
        Signer::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    fn rsa(name: &'static str, key: usize) -> Signer {
        let lines: String = RSA[key].lines().collect();
        let document = STANDARD.decode(lines).unwrap();
        Signer::Rsa(name, Box::new(RsaKeyPair::from_pkcs8(&document).unwrap()))
    }

    fn curve(name: &'static str) -> Signer {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Signer::Curve(name, Box::new(pair))
    }

    /// As a JWKS shows it.
    fn seen(&self) -> Value {
        match self {
            Signer::Secret(_) => panic!("a secret is shown to nobody"),
            Signer::Rsa(name, pair) => {
                let parts = PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "kid": name, "alg": "RS256", "use": "sig", "n": encoded(&parts.n), "e": encoded(&parts.e)})
            }
            Signer::Curve(name, pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": name, "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
            }
        }
    }

    /// A token with these claims, an hour to live unless they say otherwise.
    fn token(&self, claims: &Value) -> String {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        let mut all = json!({"sub": "ann", "iss": "https://door.example", "aud": "front", "exp": now.as_secs() + 3600});
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
        }
        let head = match self {
            Signer::Secret(_) => json!({"alg": "HS256", "typ": "JWT"}),
            Signer::Rsa(name, _) => json!({"alg": "RS256", "kid": name}),
            Signer::Curve(name, _) => json!({"alg": "ES256", "kid": name}),
        };
        let text = format!("{}.{}", encoded(head.to_string()), encoded(all.to_string()));
        let random = SystemRandom::new();
        let signature = match self {
            Signer::Secret(key) => hmac::sign(key, text.as_bytes()).as_ref().to_vec(),
            Signer::Rsa(_, pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
                    .unwrap();
                signature
            }
            Signer::Curve(_, pair) => pair
                .sign(&random, text.as_bytes())
                .unwrap()
                .as_ref()
                .to_vec(),
        };
        format!("{text}.{}", encoded(signature))
    }
}

fn set(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.seen()).collect();
    json!({"keys": keys}).to_string()
}

/// A program that believes tokens, and has no model: what counts is the door.
fn pipeline(tokens: &str) -> String {
    format!(
        r#"
[pipeline]
name = "door"
[gateway]
address = "127.0.0.1:0"
wrong-keys-per-minute = 0
[gateway.tokens]
issuer = "https://door.example"
audience = "front"
{tokens}
[source.events]
type = "ingest"
[sink.feed]
type = "output"
"#
    )
}

fn asked(served: &Served, token: &str) -> u16 {
    let key = format!("Bearer {token}");
    served
        .send("GET", "/v1/models", &[("authorization", &key)], "")
        .status
}

fn handed_over(served: &Served, token: &str) -> u16 {
    let key = format!("Bearer {token}");
    let headers = [
        ("authorization", &*key),
        ("content-type", "application/json"),
    ];
    served
        .send("POST", "/v1/ingest/events", &headers, "{}")
        .status
}

/// What holds of every algorithm.
fn checks(served: &Served, signer: &Signer) {
    assert_eq!(asked(served, &signer.token(&json!({}))), 200);
    assert_eq!(handed_over(served, &signer.token(&json!({}))), 200);
    for claims in [
        json!({"exp": 1_000_000}),
        json!({"exp": "9999999999"}),
        json!({"nbf": 9_999_999_999_u64}),
        json!({"aud": "others"}),
        json!({"aud": null}),
        json!({"iss": "https://other.example"}),
    ] {
        assert_eq!(asked(served, &signer.token(&claims)), 401, "{claims}");
    }
    // What a token says of its scope leaves that alone.
    let reader = signer.token(&json!({"scope": "openid tidegate:outputs"}));
    assert_eq!(handed_over(served, &reader), 403);
    let writer = signer.token(&json!({"scope": "tidegate:ingest"}));
    assert_eq!(handed_over(served, &writer), 200);
    // Another signature, none, and a token that names no algorithm.
    let token = signer.token(&json!({}));
    let (text, _) = token.rsplit_once('.').unwrap();
    let none = encoded(json!({"alg": "none"}).to_string());
    let claims = text.split('.').nth(1).unwrap();
    for forged in [
        format!("{text}."),
        format!("{text}.{}", encoded([0; 64])),
        format!("{none}.{claims}."),
        Signer::secret("another secret, as long as the first").token(&json!({})),
    ] {
        assert_eq!(asked(served, &forged), 401, "{forged}");
    }
}

#[test]
fn tokens_with_a_shared_secret_open() {
    let workspace = Workspace::new(&pipeline(
        "algorithm = \"HS256\"\nsecret-variable = \"DOOR_SECRET\"",
    ));
    let served = Served::said(
        workspace,
        &["run", "pipeline.toml"],
        &[("DOOR_SECRET", SECRET)],
    );
    checks(&served, &Signer::secret(SECRET));
}

#[test]
fn keys_in_a_file_change_while_it_runs() {
    let (first, second) = (Signer::rsa("one", 0), Signer::rsa("two", 1));
    let workspace = Workspace::new(&pipeline(
        "algorithm = \"RS256\"\nkeys-file = \"keys.json\"",
    ));
    workspace.write("keys.json", set(&[&first]));
    let served = Served::said(workspace, &["run", "pipeline.toml"], &[]);
    checks(&served, &first);
    assert_eq!(asked(&served, &second.token(&json!({}))), 401);
    // The public key is no secret: who signs with it is no one.
    let public = STANDARD.decode(RSA[0].lines().collect::<String>()).unwrap();
    let confused = Signer::Secret(hmac::Key::new(hmac::HMAC_SHA256, &public));
    assert_eq!(asked(&served, &confused.token(&json!({}))), 401);

    // Both for a while, then the new one alone; a file that is none changes nothing.
    served.workspace.write("keys.json", set(&[&first, &second]));
    until("the second key is known", PATIENCE, || {
        asked(&served, &second.token(&json!({}))) == 200
    });
    assert_eq!(asked(&served, &first.token(&json!({}))), 200);
    served.workspace.write("keys.json", "none");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(asked(&served, &second.token(&json!({}))), 200);
    served.workspace.write("keys.json", set(&[&second]));
    until("the first key is forgotten", PATIENCE, || {
        asked(&served, &first.token(&json!({}))) == 401
    });
    assert_eq!(asked(&served, &second.token(&json!({}))), 200);
}

/// An issuer's keys, at a URL.
fn publish(keys: &Arc<Mutex<String>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let keys = keys.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&mut stream).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            drop(lines);
            let body = keys.lock().unwrap().clone();
            // Who asked may have gone.
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

#[test]
fn keys_at_a_url_change_while_it_runs() {
    let (first, second) = (Signer::curve("one"), Signer::curve("two"));
    let keys = Arc::new(Mutex::new(set(&[&first])));
    let address = publish(&keys);
    let tokens = format!(
        "algorithm = \"ES256\"\nkeys-url = \"http://{address}/keys\"\nkeys-refresh = \"10s\""
    );
    let served = Served::said(
        Workspace::new(&pipeline(&tokens)),
        &["run", "pipeline.toml"],
        &[],
    );
    checks(&served, &first);
    assert_eq!(asked(&served, &second.token(&json!({}))), 401);
    *keys.lock().unwrap() = set(&[&second]);
    until("the second key is known", PATIENCE, || {
        asked(&served, &second.token(&json!({}))) == 200
    });
    assert_eq!(asked(&served, &first.token(&json!({}))), 401);
}
