//! The listener for those who watch from elsewhere.

use super::*;
use crate::admin::WatchServer;

const TOKEN: &str = "scrapes-0123456789";

fn get(server: &WatchServer, path: &str, more: &str) -> (u16, String) {
    // Whoever scrapes from elsewhere calls this machine by whatever name it has there.
    let head = format!("GET {path} HTTP/1.1\r\nHost: tidegate-0.pods.example\r\n{more}\r\n");
    raw(server.address(), &head)
}

#[test]
fn those_who_watch_reach_metrics_and_health_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let host = Arc::new(Fake::default());
    let any = ([127, 0, 0, 1], 0).into();
    let open = WatchServer::start(any, None, host.clone()).unwrap();
    let closed = WatchServer::start(any, Some(&token), host).unwrap();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    for server in [&open, &closed] {
        for path in ["/healthz/live", "/healthz/ready"] {
            assert_eq!(get(server, path, "").0, 200, "{path}");
        }
        for path in [
            "/",
            "/page",
            "/v1/status",
            "/v1/health",
            "/v1/live",
            "/v1/dead-letters",
            "/v1/models",
            "/metrics/",
            "//metrics",
            "/healthz",
        ] {
            assert_eq!(get(server, path, &bearer).0, 404, "{path}");
        }
        let post = "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(raw(server.address(), post).0, 405);
    }
    // The host of these tests has no metrics: who is let in is told so.
    assert_eq!(get(&open, "/metrics", "").0, 404);
    assert_eq!(get(&closed, "/metrics", &bearer).0, 404);
    for wrong in [
        "".to_owned(),
        "Authorization: Bearer scrapes-0123456780\r\n".to_owned(),
        bearer.repeat(2),
    ] {
        assert_eq!(get(&closed, "/metrics", &wrong).0, 401);
    }
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let any = ([127, 0, 0, 1], 0).into();
    let server = WatchServer::start(any, None, Arc::new(Fake::default())).unwrap();
    let silent: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(server.address()).unwrap())
        .collect();
    assert_eq!(get(&server, "/healthz/live", "").0, 200);
    drop(silent);
    let address = server.address();
    drop(server);
    assert!(TcpStream::connect(address).is_err(), "it has stopped");
}
