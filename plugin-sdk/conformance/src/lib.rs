//! The conformance cases. What stands in them, and what their operator does, is in `README.md`; the tests run them over
//! the operator of every language.
