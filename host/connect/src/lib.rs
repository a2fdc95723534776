//! tidegate-connect
