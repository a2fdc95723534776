//! TLS, and files that are fetched.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tidegate_connect::remote::{
    OpenAi, RemoteError, RemoteKind, RemoteModel, RemoteOptions, Roots, fetch, fetch_with,
};
use tidegate_contract::ModelError;

use crate::support::{LIMIT, Server, ask, hello};

/// A server on https that answers everything alike; its certificate, as PEM.
fn https(answer: &'static str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let config = config.clone();
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                let connection = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::StreamOwned::new(connection, stream);
                let mut bytes = [0; 8192];
                // The head and the body of a small request; a client that trusts nobody sends none.
                if stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                    let length = answer.len();
                    let head =
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                    let _ = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{answer}");
                    let _ = stream.flush();
                }
            });
        }
    });
    (url, made.cert.pem())
}

#[test]
fn a_server_is_trusted_by_a_file_of_certificates_and_not_without() {
    let answer = r#"{"choices":[{"index":0,"message":{"content":"safe"},"finish_reason":"stop"}]}"#;
    let (url, pem) = https(answer);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, pem).unwrap();
    let options = |roots| RemoteOptions {
        roots,
        attempts: 1,
        ..RemoteOptions::new("here", RemoteKind::OpenAi(OpenAi::new(&url, "there")), 4096)
    };
    let trusting = RemoteModel::open(options(Roots::File(path.clone()))).unwrap();
    assert_eq!(
        crate::support::text(ask(&trusting, hello()).result()),
        "safe"
    );
    let other = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(&path, other.cert.pem()).unwrap();
    let doubting = RemoteModel::open(options(Roots::File(path.clone()))).unwrap();
    let Err(ModelError::Remote { why, told, .. }) = ask(&doubting, hello()).result() else {
        panic!("it is trusted");
    };
    assert!(why.contains("certificate"), "{why}");
    assert_eq!(told, "it is not reached");
    std::fs::write(&path, "no certificate").unwrap();
    // It is known before it is opened.
    let options = options(Roots::File(path));
    let checked = RemoteModel::check(&options);
    assert!(matches!(checked, Err(RemoteError::Roots { .. })));
    let opened = RemoteModel::open(options);
    assert!(matches!(opened, Err(RemoteError::Roots { .. })));
}

#[test]
fn a_file_is_fetched_over_https_and_http_within_its_bounds() {
    let (url, pem) = https(r#"{"keys":[]}"#);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, pem).unwrap();
    let fetched = fetch_with(&format!("{url}/jwks?a=b"), &Roots::File(path), 100, LIMIT);
    assert_eq!(fetched.unwrap(), br#"{"keys":[]}"#);

    let server = Server::start(|asked| match asked.number {
        0 => asked.answer(200, "", "0123456789"),
        1 => asked.answer(200, "", "0123456789a"),
        2 => asked.answer(302, "location: http://127.0.0.1:1/\r\n", ""),
        _ => drop(asked.wait_for_the_end()),
    });
    let url = format!("{}/keys", server.url);
    assert_eq!(fetch(&url, 10, LIMIT).unwrap(), b"0123456789");
    assert!(server.head(0).starts_with("GET /keys HTTP/1.1"));
    let long = fetch(&url, 10, LIMIT).unwrap_err();
    assert!(long.contains("longer than 10 bytes"), "{long}");
    let elsewhere = fetch(&url, 10, LIMIT).unwrap_err();
    assert!(elsewhere.contains("302"), "{elsewhere}");
    let slow = fetch(&url, 10, Duration::from_millis(50)).unwrap_err();
    assert!(slow.contains("50ms"), "{slow}");
    assert!(fetch("file:///etc/passwd", 10, LIMIT).is_err());
}

#[test]
fn a_file_can_be_fetched_from_a_runtimes_own_thread() {
    let server = Server::start(|asked| asked.answer(200, "", "here"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let fetched = runtime.block_on(async { fetch(&server.url, 10, LIMIT) });
    assert_eq!(fetched.unwrap(), b"here");
}
