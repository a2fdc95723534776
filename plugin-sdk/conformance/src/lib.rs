//! Every language's operator against one set of cases: see README.md and the tests.
