//! tidegate-sdk-macros
