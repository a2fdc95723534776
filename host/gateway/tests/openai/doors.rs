//! What a path needs of a key, and takes of a body, before anything of its request is read.

use std::path::Path;
use std::sync::Arc;

use hyper::Method;
use tidegate_codec::DecoderOptions;
use tidegate_gateway::access::Scope;
use tidegate_gateway::endpoints::{Counted, Everything, Health};
use tidegate_gateway::front::{Endpoints, Limits};
use tidegate_gateway::ingest::{Ingest, IngestOptions};
use tidegate_gateway::outputs::Outputs;
use tidegate_state::{FileIngestLog, IngestLimits, MemoryDisk};
use tidegate_telemetry::trace::Tracer;

use crate::flow::Gateway;

/// Longest body of a chat, and of what is posted.
const CHAT: u64 = 1 << 20;
const POSTED: u64 = 100;

/// A source that clients post to.
fn events() -> IngestOptions {
    let (disk, directory) = (MemoryDisk::new(), Path::new("/state/ingest/events"));
    let log = FileIngestLog::open(Arc::new(disk), directory, IngestLimits::default());
    IngestOptions {
        source: "events".to_owned(),
        log: Arc::new(log.unwrap()),
        decoder: DecoderOptions::default(),
        key_header: None,
        headers: Vec::new(),
        max_records: 1,
        max_body: POSTED as usize,
    }
}

#[tokio::test]
async fn every_endpoint_has_its_scope_and_those_that_last_are_counted_at_once() {
    let gateway = Gateway::new(|play| panic!("asked: {}", play.value));
    let all = Everything {
        health: Health::default(),
        openai: gateway.openai.clone(),
        ingest: Ingest::new([events()]),
        outputs: Outputs::new([], []),
        counted: Counted::default(),
        tracer: Tracer::default(),
    };
    // The body of a GET, and of a POST: none where nothing of it is read.
    let (nothing, refused) = (None, Some(0));
    for (path, scope, lasts, get, post) in [
        (
            "/v1/chat/completions",
            Some(Scope::Chat),
            true,
            nothing,
            Some(CHAT),
        ),
        (
            "/v1/responses",
            Some(Scope::Responses),
            true,
            nothing,
            Some(CHAT),
        ),
        (
            "/v1/completions",
            Some(Scope::Completions),
            true,
            nothing,
            Some(CHAT),
        ),
        (
            "/v1/embeddings",
            Some(Scope::Embeddings),
            true,
            nothing,
            Some(CHAT),
        ),
        ("/v1/rerank", Some(Scope::Rerank), true, nothing, Some(CHAT)),
        (
            "/v1/outputs/feed",
            Some(Scope::Outputs),
            true,
            refused,
            nothing,
        ),
        ("/v1/models", Some(Scope::Models), false, refused, nothing),
        (
            "/v1/models/small",
            Some(Scope::Models),
            false,
            refused,
            nothing,
        ),
        (
            "/v1/ingest/events",
            Some(Scope::Ingest),
            false,
            nothing,
            Some(POSTED),
        ),
        (
            "/v1/ingest/others",
            Some(Scope::Ingest),
            false,
            refused,
            nothing,
        ),
        ("/health", None, false, refused, refused),
        ("/elsewhere", None, false, refused, nothing),
    ] {
        for (method, body) in [(Method::GET, get), (Method::POST, post)] {
            let expected = Limits {
                body,
                open: path == "/health",
                scope,
                lasts,
                // Nothing here has an idempotency key.
                repeats: false,
            };
            assert_eq!(all.limits(&method, path), expected, "{method} {path}");
        }
    }
}
