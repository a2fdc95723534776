//! tidegate-contract
