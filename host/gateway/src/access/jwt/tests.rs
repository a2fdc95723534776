//! Tokens that are believed, and all those that are not.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::issuer::Trusted;
use super::key;
use super::token::{Bad, signed};
use crate::access::clock::Clock;
use crate::access::options::{Algorithm, Issuer, KeySource, Permissions, Quota, Scope};

/// A public key of 2048 bits, and a token that its private key, which is nowhere, has signed until 2100.
const RSA_PEM: &str = include_str!("vectors/rsa.pem");
const RSA_SET: &str = include_str!("vectors/rsa.json");
const RSA_TOKEN: &str = include_str!("vectors/rs256.jwt");

const SECRET: &[u8] = b"thirty-two bytes are long enough";
const NOW: u64 = 1_800_000_000;

/// A clock that stands still.
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64
    }
}

fn issuer(algorithm: Algorithm, keys: &str) -> (Issuer, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), keys).unwrap();
    let options = Issuer {
        name: "door".to_owned(),
        algorithm,
        keys: KeySource::File(file.path().to_owned()),
        issuer: None,
        audience: None,
        leeway: Issuer::LEEWAY,
        permissions: Permissions::default(),
    };
    (options, file)
}

fn trusted(options: Issuer) -> Arc<Trusted> {
    let clock = Arc::new(Still(AtomicU64::new(NOW)));
    Arc::new(Trusted::new(options, Quota::default(), None, clock).unwrap())
}

fn secrets() -> String {
    json!({"keys": [{"kty": "oct", "kid": "one", "k": encoded(SECRET)}]}).to_string()
}

fn by_secret() -> (Issuer, tempfile::NamedTempFile) {
    issuer(Algorithm::Hs256, &secrets())
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn hs256(header: &str, claims: &str, secret: &[u8]) -> String {
    let text = format!("{}.{}", encoded(header), encoded(claims));
    let tag = ring::hmac::sign(
        &ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret),
        text.as_bytes(),
    );
    format!("{text}.{}", encoded(tag))
}

const HEADER: &str = r#"{"alg":"HS256","kid":"one","typ":"JWT"}"#;

fn of_claims(claims: Value) -> String {
    hs256(HEADER, &claims.to_string(), SECRET)
}

#[test]
fn a_token_of_each_algorithm_is_believed() {
    let (options, _file) = by_secret();
    let who = trusted(options)
        .who(&of_claims(json!({"sub": "ann", "exp": NOW + 60})))
        .unwrap();
    assert_eq!(&*who.name, "door:ann");
    for keys in [RSA_PEM, RSA_SET] {
        let (options, _file) = issuer(Algorithm::Rs256, keys);
        assert_eq!(&*trusted(options).who(RSA_TOKEN).unwrap().name, "door:ann");
    }
    let (pair, set) = curve();
    let (options, _file) = issuer(Algorithm::Es256, &set);
    assert_eq!(
        &*trusted(options).who(&es256(&pair, false)).unwrap().name,
        "door:ann"
    );
}

/// A key of P-256, and its set.
fn curve() -> (EcdsaKeyPair, String) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .unwrap();
    let point = pair.public_key().as_ref();
    let set = json!({"keys": [{
        "kty": "EC", "crv": "P-256", "kid": "curve", "x": encoded(&point[1..33]), "y": encoded(&point[33..]),
    }]});
    (pair, set.to_string())
}

fn es256(pair: &EcdsaKeyPair, der: bool) -> String {
    let claims = json!({"sub": "ann", "exp": NOW + 60}).to_string();
    let text = format!(
        "{}.{}",
        encoded(r#"{"alg":"ES256","kid":"curve"}"#),
        encoded(claims)
    );
    let signature = pair.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
    let mut bytes = signature.as_ref().to_vec();
    if der {
        let number = |part: &[u8]| [&[0x02, 33, 0][..], part].concat();
        let (r, s) = (number(&bytes[..32]), number(&bytes[32..]));
        bytes = [&[0x30, (r.len() + s.len()) as u8][..], &r, &s].concat();
    }
    format!("{text}.{}", encoded(bytes))
}

#[test]
fn a_header_decides_nothing() {
    let claims = json!({"sub": "ann", "exp": NOW + 60}).to_string();
    let with = |header: &str| hs256(header, &claims, SECRET);
    let (options, _file) = by_secret();
    let trusted_secret = trusted(options);
    assert!(trusted_secret.who(&with(r#"{"alg":"HS256"}"#)).is_ok());
    let long = format!(r#"{{"alg":"HS256","x":"{}"}}"#, "y".repeat(8 << 10));
    let longer = format!(r#"{{"alg":"HS256","x":"{}"}}"#, "y".repeat(100 << 10));
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"nOnE"}"#,
        r#"{"alg":"NONE"}"#,
        r#"{"alg":""}"#,
        r#"{"alg":null}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS384"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"typ":"JWT"}"#,
        r#"{"alg":"HS256","crit":["exp"]}"#,
        r#"{"alg":"HS256","crit":[]}"#,
        r#"{"alg":"HS256","b64":false}"#,
        r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#,
        r#"{"alg":"HS256","jwk":{"kty":"oct","k":"eA"}}"#,
        r#"{"alg":"HS256","jku":"https://evil.example/keys"}"#,
        r#"{"alg":"HS256","x5u":"https://evil.example/keys"}"#,
        r#"{"alg":"HS256","x5c":[]}"#,
        r#"{"alg":"HS256","zip":"DEF"}"#,
        r#"{"alg":"HS256","enc":"A256GCM"}"#,
        r#"{"alg":"HS256","typ":"secevent+jwt"}"#,
        r#"{"alg":"HS256","typ":5}"#,
        r#"{"alg":"HS256","kid":5}"#,
        r#"{"alg":"HS256","kid":null}"#,
        r#"{"alg":"HS256","alg":"HS256"}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","x":{"y":1,"y":2}}"#,
        r#"["HS256"]"#,
        r#"{"alg":"HS256"} x"#,
        "",
        &long,
        &longer,
    ] {
        assert_eq!(
            trusted_secret.who(&with(header)).unwrap_err(),
            Bad::Unsigned,
            "{header:.60}"
        );
    }
    for kid in ["../../dev/null", "one' OR '1'='1", "", "two"] {
        let header = json!({"alg": "HS256", "kid": kid}).to_string();
        assert_eq!(
            trusted_secret.who(&with(&header)).unwrap_err(),
            Bad::UnknownKey,
            "{kid}"
        );
    }
}

#[test]
fn a_public_key_is_no_secret() {
    let claims = json!({"sub": "ann", "exp": NOW + 60}).to_string();
    let (options, _file) = issuer(Algorithm::Rs256, RSA_PEM);
    let trusted = trusted(options);
    let der = RSA_PEM
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect::<String>();
    let der = base64::engine::general_purpose::STANDARD
        .decode(der)
        .unwrap();
    for secret in [RSA_PEM.as_bytes(), RSA_PEM.trim_end().as_bytes(), &der] {
        for header in [r#"{"alg":"HS256"}"#, r#"{"alg":"RS256"}"#] {
            assert_eq!(
                trusted.who(&hs256(header, &claims, secret)).unwrap_err(),
                Bad::Unsigned
            );
        }
    }
    // Nor is one taken from a set where a secret is wanted.
    assert!(key::of_file(RSA_SET.as_bytes(), Algorithm::Hs256).is_err());
    assert!(key::of_file(RSA_PEM.as_bytes(), Algorithm::Hs256).is_err());
    assert!(key::of_file(RSA_PEM.as_bytes(), Algorithm::Es256).is_err());
    assert!(key::of_set(secrets().as_bytes(), Algorithm::Hs256, false).is_err());
}

#[test]
fn a_signature_that_is_none_is_refused() {
    let (pair, set) = curve();
    let (options, _file) = issuer(Algorithm::Es256, &set);
    let trusted_curve = trusted(options);
    let whole = es256(&pair, false);
    let text = whole.rsplit_once('.').unwrap().0;
    let bytes = URL_SAFE_NO_PAD
        .decode(whole.rsplit_once('.').unwrap().1)
        .unwrap();
    for signature in [
        vec![0; 64],
        vec![],
        vec![0xff; 64],
        bytes[..63].to_vec(),
        [&bytes[..], &[0]].concat(),
        [&[0; 32], &bytes[32..]].concat(),
        [&bytes[..32], &[0; 32]].concat(),
    ] {
        let token = format!("{text}.{}", encoded(signature));
        assert_eq!(trusted_curve.who(&token).unwrap_err(), Bad::Unsigned);
    }
    assert_eq!(
        trusted_curve.who(&es256(&pair, true)).unwrap_err(),
        Bad::Unsigned,
        "DER"
    );

    let (options, _file) = issuer(Algorithm::Rs256, RSA_PEM);
    let trusted_rsa = trusted(options);
    let changed = RSA_TOKEN.replacen("eyJzdWIi", "eyJzdWJi", 1);
    for token in [
        &changed,
        &RSA_TOKEN[..RSA_TOKEN.len() - 2],
        &format!("{RSA_TOKEN}="),
        &format!("{RSA_TOKEN}.x"),
        "..",
        "",
        "x",
    ] {
        assert_eq!(
            trusted_rsa.who(token).unwrap_err(),
            Bad::Unsigned,
            "{token:.40}"
        );
    }
}

#[test]
fn claims_are_times_and_texts_and_each_is_there_once() {
    let (mut options, _file) = by_secret();
    options.issuer = Some("https://door.example".to_owned());
    options.audience = Some("tidegate".to_owned());
    let trusted = trusted(options);
    let good = json!({"sub": "ann", "exp": NOW + 60, "iss": "https://door.example", "aud": ["other", "tidegate"]});
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        trusted.who(&of_claims(claims))
    };
    assert!(trusted.who(&of_claims(good.clone())).is_ok());
    // Clocks differ by 30 s at most.
    assert!(with("exp", json!(NOW - 29)).is_ok());
    assert!(with("exp", json!(NOW as f64 + 0.5)).is_ok());
    assert!(with("nbf", json!(NOW + 30)).is_ok());
    assert!(with("aud", json!("tidegate")).is_ok());
    for (name, value) in [
        ("exp", json!(NOW - 30)),
        ("exp", json!((NOW + 60).to_string())),
        ("exp", json!(1e308)),
        ("exp", json!(-1)),
        ("exp", json!(null)),
        ("exp", json!([NOW + 60])),
        ("exp", json!(true)),
        ("nbf", json!(NOW + 31)),
        ("nbf", json!("0")),
        ("iat", json!(NOW + 31)),
        ("iat", json!("x")),
        ("iss", json!("https://evil.example")),
        ("iss", json!(null)),
        ("iss", json!(["https://door.example"])),
        ("aud", json!("other")),
        ("aud", json!([])),
        ("aud", json!(["tidegate", 5])),
        ("aud", json!(null)),
        ("sub", json!(5)),
        ("sub", json!("y".repeat(257))),
        ("sub", json!("a\nb")),
        ("scope", json!(["tidegate:chat"])),
    ] {
        let shown = format!("{name}: {value:.40}");
        assert!(matches!(with(name, value), Err(Bad::Claims(_))), "{shown}");
    }
    for missing in ["exp", "iss", "aud"] {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(missing);
        assert!(
            matches!(trusted.who(&of_claims(claims)), Err(Bad::Claims(_))),
            "{missing}"
        );
    }
    for raw in [
        r#"{"exp":1,"exp":99999999999}"#,
        r#"{"exp":1e999}"#,
        "[]",
        "",
        r#"{"exp":99999999999}x"#,
    ] {
        assert!(
            matches!(
                trusted.who(&hs256(HEADER, raw, SECRET)),
                Err(Bad::Claims(_))
            ),
            "{raw}"
        );
    }
}

#[test]
fn an_audience_is_never_ours_where_we_have_no_name() {
    let (options, _file) = by_secret();
    let token = of_claims(json!({"exp": NOW + 60, "aud": "tidegate"}));
    assert!(matches!(trusted(options).who(&token), Err(Bad::Claims(_))));
}

#[test]
fn a_scope_claim_takes_away_and_never_adds() {
    let (mut options, _file) = by_secret();
    options.permissions.scopes = Some(vec![Scope::Chat, Scope::Models]);
    let trusted = trusted(options);
    let scoped = |scope: &str| {
        trusted
            .who(&of_claims(json!({"exp": NOW + 60, "scope": scope})))
            .unwrap()
    };
    let less = scoped("openid tidegate:chat tidegate:ingest");
    assert!(
        less.may_use(Scope::Chat) && !less.may_use(Scope::Models) && !less.may_use(Scope::Ingest)
    );
    let same = scoped("openid profile");
    assert!(
        same.may_use(Scope::Chat) && same.may_use(Scope::Models) && !same.may_use(Scope::Ingest)
    );
}

#[test]
fn a_claim_opens_the_page_only_where_the_issuer_names_it() {
    let (mut options, _file) = by_secret();
    let page = |options: &Issuer, claims: Value| {
        let who = trusted(options.clone()).who(&of_claims(claims)).unwrap();
        who.may_use(Scope::Page)
    };
    let claims = json!({"exp": NOW + 60, "scope": "tidegate:page"});
    assert!(!page(&options, claims.clone()));
    assert!(!page(&options, json!({"exp": NOW + 60})));
    options.permissions.scopes = Some(vec![Scope::Chat, Scope::Page]);
    assert!(page(&options, claims) && page(&options, json!({"exp": NOW + 60})));
    assert!(!page(
        &options,
        json!({"exp": NOW + 60, "scope": "tidegate:chat"})
    ));
}

#[test]
fn a_short_secret_is_refused() {
    let short = json!({"keys": [{"kty": "oct", "k": encoded(&SECRET[1..])}]}).to_string();
    assert!(
        key::of_file(short.as_bytes(), Algorithm::Hs256)
            .unwrap_err()
            .contains("none of its keys")
    );
}

/// Vectors of Wycheproof: each set of keys, by each of the three algorithms.
#[test]
fn wycheproofs_vectors_are_read_as_they_want() {
    let vectors = Path::new("shared/data/wycheproof/json_web_signature_test.json");
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find_map(|dir| std::fs::read(dir.join(vectors)).ok());
    let Some(bytes) = found else {
        println!(
            "no {} above this crate: only our own vectors were read",
            vectors.display()
        );
        return;
    };
    let vectors: Value = serde_json::from_slice(&bytes).unwrap();
    let (mut read, mut believed) = (0, 0);
    for group in vectors["testGroups"].as_array().unwrap() {
        let key = group.get("public").unwrap_or(&group["private"]);
        let set = json!({"keys": [key]}).to_string();
        let tests = group["tests"].as_array().unwrap();
        for test in tests {
            // 367 and 370 have lost the padding they are about: they are byte for byte the valid 357.
            let is_valid_too =
                |other: &Value| other["jws"] == test["jws"] && other["result"] == "valid";
            if test["result"] != "valid" && tests.iter().any(is_valid_too) {
                continue;
            }
            read += 1;
            let Some(token) = test["jws"].as_str() else {
                continue;
            };
            let ours = [Algorithm::Hs256, Algorithm::Rs256, Algorithm::Es256];
            let valid = ours.into_iter().any(|algorithm| {
                key::of_file(set.as_bytes(), algorithm)
                    .is_ok_and(|keys| signed(token, algorithm, &keys).is_ok())
            });
            believed += u32::from(valid);
            let (number, comment) = (&test["tcId"], &test["comment"]);
            let header = token
                .split('.')
                .next()
                .and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
            let header: Value = header
                .and_then(|header| serde_json::from_slice(&header).ok())
                .unwrap_or_default();
            let is_plain = token
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            let is_ours = is_plain
                && ours
                    .iter()
                    .any(|ours| header["alg"] == ours.name() && key["alg"] == ours.name());
            match test["result"].as_str() {
                Some("valid") if is_ours => assert!(valid, "{number} {comment}"),
                // Other algorithms, and (372, 373) characters that a lenient reader of base64 passes over.
                Some("valid") => {
                    assert!(!valid, "{number} {comment}: not of an algorithm of ours")
                }
                _ => assert!(!valid, "{number} {comment}"),
            }
        }
    }
    println!("{read} of Wycheproof's vectors, of which {believed} are believed");
    assert!(
        read > 300 && believed >= 18,
        "{read} read, {believed} believed"
    );
}
