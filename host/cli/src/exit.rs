//! Failures and their exit codes.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

pub(crate) use crate::printing::tell;
use crate::printing::{LogLines, fail, tell_json};

/// Why the program ends without having done what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It failed while it ran: exit code 1.
    Run(anyhow::Error),
    /// What was asked, or the configuration, is wrong: exit code 2. The text is printed as it is.
    Usage(String),
}

impl Failure {
    /// Tells a person and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Failure::Run(error) => {
                fail(&format!("tidegate: {}", with_causes(&error)));
                ExitCode::from(1)
            }
            Failure::Usage(text) => {
                fail(text.trim_end());
                ExitCode::from(2)
            }
        }
    }

    /// A failure of usage with the program's name before it.
    pub(crate) fn usage(text: impl std::fmt::Display) -> Failure {
        Failure::Usage(format!("tidegate: {text}"))
    }
}

/// An error with its causes, each said once: many of the rooms' errors end with the text of their cause already.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !last.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        last = cause;
    }
    text
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Run(error.into())
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Sends log lines to standard error, and all else that is told there in their form.
pub(crate) fn log_to_stderr(filter: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::usage(format_args!("--log {filter:?} is not a filter: {error}"))
    })?;
    let coloured = std::io::stderr().is_terminal();
    let writer = match format {
        LogFormat::Text => LogLines::Text { coloured },
        LogFormat::Json => {
            tell_json();
            LogLines::Json
        }
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer)
        .log_internal_errors(false);
    match format {
        LogFormat::Text => lines.with_ansi(coloured).with_target(false).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::with_causes;

    #[derive(Debug)]
    struct Read(std::io::Error);

    impl std::fmt::Display for Read {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "cannot read model.gguf: {}", self.0)
        }
    }

    impl std::error::Error for Read {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_is_said_once_whether_its_error_says_it_or_not() {
        let source = std::io::Error::other("the disk is gone");
        let error = Err::<(), _>(Read(source)).context("model `support`");
        let error = error.expect_err("it is one");
        assert_eq!(
            with_causes(&error),
            "model `support`: cannot read model.gguf: the disk is gone"
        );
    }
}
