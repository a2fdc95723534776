//! What a path needs of a key, before anything of its request is read.

use hyper::Method;
use tidegate_gateway::access::Scope;
use tidegate_gateway::endpoints::{Counted, Everything};
use tidegate_gateway::front::{Endpoints, Limits};
use tidegate_gateway::ingest::Ingest;
use tidegate_gateway::outputs::Outputs;

use crate::flow::Gateway;

#[tokio::test]
async fn every_endpoint_has_its_scope_and_those_that_last_are_counted_at_once() {
    let gateway = Gateway::new(|play| panic!("asked: {}", play.value));
    let all = Everything {
        openai: gateway.openai.clone(),
        ingest: Ingest::new([]),
        outputs: Outputs::new([], []),
        max_body: 100,
        counted: Counted::default(),
    };
    for (path, scope, lasts) in [
        ("/v1/chat/completions", Some(Scope::Chat), true),
        ("/v1/responses", Some(Scope::Responses), true),
        ("/v1/completions", Some(Scope::Completions), true),
        ("/v1/embeddings", Some(Scope::Embeddings), true),
        ("/v1/rerank", Some(Scope::Rerank), true),
        ("/v1/outputs/feed", Some(Scope::Outputs), true),
        ("/v1/models", Some(Scope::Models), false),
        ("/v1/models/small", Some(Scope::Models), false),
        ("/v1/ingest/events", Some(Scope::Ingest), false),
        ("/health", None, false),
        ("/elsewhere", None, false),
    ] {
        for method in [Method::GET, Method::POST] {
            let open = path == "/health";
            let body = if method == Method::POST && !open {
                100
            } else {
                0
            };
            let expected = Limits {
                body,
                open,
                scope,
                lasts,
                // Nothing here has an idempotency key.
                repeats: false,
            };
            assert_eq!(all.limits(&method, path), expected, "{method} {path}");
        }
    }
}
