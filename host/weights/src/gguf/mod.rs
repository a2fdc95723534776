//! Models in the GGUF format, versions 2 and 3.

mod vocabulary;

pub use vocabulary::GgufVocabulary;
