//! The page: files that are compiled into the program. They hold no secret, so whoever reaches this address gets them;
//! what they show is asked for with the token.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::routes::failed;

/// What the page may do: run and show its own files, and ask this address. Nothing that a record says can be a script,
/// a style, a frame or a form.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! files {
    ($($kind:ident $name:literal),* $(,)?) => {
        [$(($name, $kind, include_bytes!(concat!("../../page/", $name)))),*]
    };
}

/// Name, kind and bytes of each.
const FILES: &[(&str, &str, &[u8])] = &files![
    HTML "index.html",
    STYLE "style.css",
    IMAGE "icon.svg",
    SCRIPT "main.js",
    SCRIPT "preact.js",
    SCRIPT "store.js",
    SCRIPT "format.js",
    SCRIPT "parts.js",
    SCRIPT "draw.js",
    SCRIPT "stream.js",
    SCRIPT "slots.js",
    SCRIPT "letters.js",
    SCRIPT "engine.js",
    SCRIPT "logs.js",
    SCRIPT "playground.js",
];

/// Where a path begins that is one of these.
const PLACE: &str = "/page/";

pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(async || file("index.html")))
        .route(
            "/page/{name}",
            get(async |Path(name): Path<String>| file(&name)),
        )
}

/// Whether a path is one of the page's files.
pub(super) fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with(PLACE)
}

fn file(name: &str) -> Response {
    let Some((_, kind, bytes)) = FILES.iter().find(|file| file.0 == name) else {
        return failed(StatusCode::NOT_FOUND, "the page has no such file");
    };
    let headers: [(HeaderName, &str); 8] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // The next start may be of another version.
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    let mut response = (*bytes).into_response();
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        let bytes: usize = FILES.iter().map(|file| file.2.len()).sum();
        assert!(bytes < 150_000, "{bytes} bytes");
        for (name, kind, bytes) in FILES {
            let text = String::from_utf8_lossy(bytes);
            // Namespaces are names, and are not fetched.
            let text = text.replace("http://www.w3.org/", "");
            assert!(
                !text.contains("http://") && !text.contains("https://"),
                "{name}"
            );
            if *kind == HTML {
                assert!(
                    !text.contains("<style") && !text.contains("style="),
                    "{name}"
                );
                let scripts = text.matches("<script").count();
                assert_eq!(
                    scripts,
                    text.matches("<script type=\"module\" src=").count()
                );
            }
            if *kind == SCRIPT && *name != "preact.js" {
                for way in [
                    "innerHTML",
                    "outerHTML",
                    "insertAdjacent",
                    "document.write",
                    "eval(",
                ] {
                    assert!(!text.contains(way), "{name} has {way}");
                }
            }
        }
    }
}
