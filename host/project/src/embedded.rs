//! What the program carries within itself: the SDKs, the templates, the contract and the schemas for editors.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The version of the program, and with it that of the SDKs.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files below a directory (`template/rust`) with what their paths are from there.
pub(crate) fn below(directory: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    FILES.iter().filter_map(move |(name, bytes)| {
        let path = name.strip_prefix(directory)?.strip_prefix('/')?;
        Some((path, *bytes))
    })
}
