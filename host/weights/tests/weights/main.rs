//! Models on disk: what is read, what is refused, and with which words.

mod converted;
mod goldens;
