//! JSON Web Tokens, as RFC 8725 wants them read.
//!
//! Each issuer has one algorithm, and each key is of one; what a token's header says can only agree with them. Nothing a
//! header brings along (`jwk`, `jku`, `x5u`, `crit`) is followed: a token that has any is refused.

mod claims;
mod issuer;
mod json;
mod key;
#[cfg(test)]
mod tests;
mod token;

pub(super) use issuer::Trusted;
pub(super) use token::Bad;

/// Fetches the keys of issuers.
pub trait FetchKeys: Send + Sync {
    /// The bytes at a URL, within some seconds and at most a megabyte. Called where blocking is no harm.
    fn fetch(&self, url: &str) -> Result<Vec<u8>, String>;
}
