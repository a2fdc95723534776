//! tidegate-text
