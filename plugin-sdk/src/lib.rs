//! tidegate-sdk
