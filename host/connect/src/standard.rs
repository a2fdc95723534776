//! Standard input and output.
