//! tidegate-control
