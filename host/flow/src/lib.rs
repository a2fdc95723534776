//! tidegate-flow
