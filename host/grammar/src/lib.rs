//! Structured output.
