//! The float64 reference.
