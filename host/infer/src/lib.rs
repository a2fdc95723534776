//! tidegate-infer
