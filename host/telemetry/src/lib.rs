//! tidegate-telemetry
