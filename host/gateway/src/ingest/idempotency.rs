//! What the ingest log keeps of an `Idempotency-Key`.

use ring::digest::{Context, SHA256};
use tidegate_contract::IdempotencyKey;

/// The key's digest, for whom and where it is valid, and the digest of what came with it.
pub(super) fn digests(key: &str, scope: &[&[u8]], body: &[&[u8]]) -> IdempotencyKey {
    IdempotencyKey {
        key: digest(scope.iter().copied().chain([key.as_bytes()])),
        body: digest(body.iter().copied()),
    }
}

/// Parts are told apart by their lengths.
fn digest<'a>(parts: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
