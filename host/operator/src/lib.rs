//! tidegate-operator
