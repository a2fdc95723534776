//! tidegate-record
