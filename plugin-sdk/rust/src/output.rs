//! The outputs of an operator, beside the main one.

use std::rc::Rc;

pub use tidegate_sdk_macros::Output;

/// The named outputs of an operator: an enum that derives it, so that a typo does not compile; [`NoOutput`] where there
/// is only the main one; [`OutputName`] where the configuration says what they are called.
///
/// ```
/// # use tidegate_sdk::prelude::*;
/// #[derive(Output)]
/// enum Side {
///     Left,
/// }
///
/// let outcome = Outcome::route(Side::Left);
/// # let _ = outcome;
/// ```
///
/// ```compile_fail,E0599
/// # use tidegate_sdk::prelude::*;
/// #[derive(Output)]
/// enum Side {
///     Left,
/// }
///
/// let outcome = Outcome::route(Side::Lfet);
/// # let _ = outcome;
/// ```
pub trait Output: Sized {
    /// Every output that is known when the operator is compiled.
    fn all() -> Vec<Self>;

    /// Its name.
    fn name(&self) -> &str;
}

/// The outputs of an operator that has only the main one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOutput {}

impl Output for NoOutput {
    fn all() -> Vec<NoOutput> {
        Vec::new()
    }

    fn name(&self) -> &str {
        match *self {}
    }
}

/// An output that the configuration names. An operator that uses it says in
/// [`Operator::outputs`](crate::Operator::outputs) which there are. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputName(Rc<str>);

impl OutputName {
    /// Bytes of the longest name.
    pub const LONGEST: usize = 128;

    /// Takes a name; an error says what was expected.
    pub fn new(name: &str) -> Result<OutputName, String> {
        match name.is_empty() || name.len() > Self::LONGEST || name.contains(char::is_control) {
            true => Err(format!(
                "a name of 1 to {} bytes without control characters",
                Self::LONGEST
            )),
            false => Ok(OutputName(name.into())),
        }
    }
}

impl Output for OutputName {
    fn all() -> Vec<OutputName> {
        Vec::new()
    }

    fn name(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for OutputName {
    fn eq(&self, name: &str) -> bool {
        *self.0 == *name
    }
}
