//! tidegate-state
