//! tidegate-codec
