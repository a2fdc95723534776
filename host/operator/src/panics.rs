//! A panic of a library that works on what a user gave becomes an error: it must not end the host.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs it; a panic is given back as its message. What it worked on is not to be used afterwards.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        format!("a library gave up on it: {message}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_library_is_an_error_with_its_message() {
        let text: Result<(), String> = caught(|| panic!("invalid {}", "adapter"));
        assert_eq!(
            text.unwrap_err(),
            "a library gave up on it: invalid adapter"
        );
        assert_eq!(caught(|| 7), Ok(7));
    }
}
