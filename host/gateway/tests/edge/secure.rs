//! TLS, with certificates that change.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidegate_gateway::front::{Front, TlsFiles};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Client, LIMIT, get};
use crate::served::{SHORT, Served, options};

/// Writes a new certificate and its key, and returns the certificate.
fn renew(dir: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    // As tools do it: the new file takes the place of the old one.
    for (name, text) in [
        ("cert.pem", made.cert.pem()),
        ("key.pem", made.signing_key.serialize_pem()),
    ] {
        std::fs::write(dir.join("new"), text).unwrap();
        std::fs::rename(dir.join("new"), dir.join(name)).unwrap();
    }
    made.cert.der().clone()
}

/// A front whose handshakes have so long.
fn start(dir: &Path, head_time: Duration) -> Front {
    let mut options = options();
    options.tls = Some(TlsFiles {
        certificate: dir.join("cert.pem"),
        key: dir.join("key.pem"),
    });
    options.bounds.watch = Duration::from_millis(20);
    options.bounds.head_time = head_time;
    Front::bind(options, Arc::new(Served::default())).unwrap()
}

async fn connect(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
) -> Result<Client<TlsStream<TcpStream>>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connected = timeout(
        LIMIT,
        TlsConnector::from(Arc::new(config)).connect(name, stream),
    )
    .await
    .unwrap();
    connected
        .map(Client::over)
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_without_a_drop_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let first = renew(dir.path());
    let front = start(dir.path(), LIMIT);
    let mut old = connect(front.address(), &first).await.unwrap();
    assert_eq!(
        old.stream.get_ref().1.alpn_protocol(),
        Some(&b"http/1.1"[..])
    );
    old.say(get("/echo", "")).await;
    assert_eq!(old.answer().await.status, 200);

    let second = renew(dir.path());
    let taken = async {
        while connect(front.address(), &second).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, taken)
        .await
        .expect("the new certificate is not taken");
    assert!(
        connect(front.address(), &first).await.is_err(),
        "the old certificate is still shown"
    );

    // A certificate that does not fit its key, one that is none, and none at all.
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for broken in [Some(other.cert.pem()), Some("none".to_owned()), None] {
        match broken {
            Some(text) => std::fs::write(dir.path().join("cert.pem"), text).unwrap(),
            None => std::fs::remove_file(dir.path().join("cert.pem")).unwrap(),
        }
        tokio::time::sleep(SHORT).await;
        let mut client = connect(front.address(), &second)
            .await
            .expect("a broken file is taken");
        client.say(get("/echo", "")).await;
        assert_eq!(client.answer().await.status, 200);
    }
    old.say(get("/echo", "")).await;
    assert_eq!(
        old.answer().await.status,
        200,
        "the first connection was dropped"
    );
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    renew(dir.path());
    let front = start(dir.path(), SHORT * 4);
    let mut silent = Client::to(front.address()).await;
    assert!(silent.ends().await);
    let mut plain = Client::to(front.address()).await;
    plain.say(get("/echo", "")).await;
    while plain.more().await {}
    assert!(!plain.rest.starts_with(b"HTTP"), "{:?}", plain.rest);
}

#[tokio::test]
async fn files_that_are_of_no_use_are_named_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    renew(dir.path());
    std::fs::write(dir.path().join("key.pem"), "none").unwrap();
    let mut options = options();
    options.tls = Some(TlsFiles {
        certificate: dir.path().join("cert.pem"),
        key: dir.path().join("key.pem"),
    });
    let error = Front::bind(options, Arc::new(Served::default()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("key.pem"), "{error}");
}
