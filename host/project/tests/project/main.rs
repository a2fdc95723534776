//! What a project promises to the person whose it is.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod manifests;
