//! `tidegate logs`.

use std::time::Duration;

use clap::Args;
use tidegate_control::LogReport;

use super::host::{HostArguments, client};
use super::print;
use crate::exit::Failure;

/// Between two looks at what is followed.
const LOOK: Duration = Duration::from_millis(500);

/// Print what the operator of a slot has said lately.
#[derive(Args)]
#[command(after_help = "Example:\n  tidegate logs redact --follow --pipeline pipeline.toml")]
pub(crate) struct Arguments {
    /// The slot: the name of the stage.
    slot: String,
    #[command(flatten)]
    host: HostArguments,
    /// Go on with what it says from now on, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
}

/// Prints what the operator of a slot has said lately, and what it says from now on.
pub(crate) fn logs(arguments: &Arguments) -> Result<(), Failure> {
    let client = client(&arguments.host)?;
    let mut after = 0;
    loop {
        let log = client.log(&arguments.slot, after)?;
        print(&text(&log, after))?;
        if !arguments.follow {
            return Ok(());
        }
        after = log.next;
        std::thread::sleep(LOOK);
    }
}

fn text(log: &LogReport, after: u64) -> String {
    let mut text = String::new();
    // What had gone before anybody looked is no surprise.
    if log.missed > 0 && after > 0 {
        text += &format!("({} lines came and went in between)\n", log.missed);
    }
    for line in &log.lines {
        text += &format!("{} {:5} {}\n", clock(line.at), line.level, line.text);
    }
    text
}

/// The time of day in UTC, of milliseconds since 1970.
fn clock(at: u64) -> String {
    let (seconds, milliseconds) = (at / 1000, at % 1000);
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!(
        "{hours:02}:{minutes:02}:{:02}.{milliseconds:03}Z",
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::LogLine;

    #[test]
    fn a_line_has_its_time_and_what_is_missed_is_said() {
        let log = LogReport {
            lines: vec![LogLine {
                number: 7,
                at: 1_000 * (86_400 + 3_723) + 45,
                level: "warn".into(),
                text: "late".into(),
            }],
            next: 8,
            missed: 3,
        };
        assert_eq!(text(&log, 0), "01:02:03.045Z warn  late\n");
        assert!(text(&log, 4).starts_with("(3 lines"));
    }
}
