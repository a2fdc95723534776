//! One file from a server: keys that tokens are checked with.

use std::time::Duration;

use hyper::Uri;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::address::Address;
use super::http::Http;
use super::options::Roots;

/// The bytes at an `http://` or `https://` address whom the system vouches for, so many at most, within this time.
/// Redirections are not followed. Blocks the thread that calls it.
pub fn fetch(url: &str, limit: usize, within: Duration) -> Result<Vec<u8>, String> {
    fetch_with(url, &Roots::System, limit, within)
}

/// [`fetch`] of a server whom others vouch for.
pub fn fetch_with(
    url: &str,
    roots: &Roots,
    limit: usize,
    within: Duration,
) -> Result<Vec<u8>, String> {
    let told = |why: String| format!("{url} cannot be fetched: {why}");
    let uri: Uri = url.parse().map_err(|_| told("no address".into()))?;
    // A query may be part of it; what else an address must be is checked without.
    let bare = url.split('?').next().unwrap_or_default();
    let address = Address::new(bare, "").map_err(|error| error.to_string())?;
    let http = Http::new(address.is_https(), roots, within, 0)
        .map_err(|error| error.to_string())?
        .with_headers(None, &[])
        .map_err(|error| error.to_string())?;
    let get = async {
        let response = http.get(&uri).await?;
        let status = response.status();
        let body = match status.is_success() {
            true => Some(http.whole(response.into_body(), limit).await?),
            false => None,
        };
        Ok::<_, super::trouble::Trouble>((status, body))
    };
    let work = || {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| error.to_string())?;
        let got = runtime.block_on(async { timeout(within, get).await });
        // The look-up of a name may still hold a thread.
        runtime.shutdown_background();
        match got {
            Ok(Ok((_, Some(body)))) => Ok(body),
            Ok(Ok((status, None))) => Err(format!("the server says {status}")),
            Ok(Err(trouble)) => Err(trouble.said(&[])),
            Err(_) => Err(format!("it takes longer than {within:?}")),
        }
    };
    // A thread of its own: the one that calls may be a runtime's, which cannot wait for another runtime.
    let fetched = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("fetch".into());
        match thread.spawn_scoped(scope, work) {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err("it panicked".into())),
            Err(error) => Err(error.to_string()),
        }
    });
    fetched.map_err(told)
}
