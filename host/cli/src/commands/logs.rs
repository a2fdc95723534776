//! `tidegate logs`.

use std::time::Duration;

use clap::Args;
use tidegate_control::LogReport;
use tidegate_control::client::{Client, ClientError};

use super::host::{HostArguments, client, is_starting};
use super::{is_read, print};
use crate::exit::{Failure, tell};

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
    let Arguments { slot, host, follow } = arguments;
    let mut client = client(host)?;
    let log = client.log(slot, 0)?;
    print(&text(&log, 0))?;
    let (mut after, mut is_lost) = (log.next, false);
    // Also where nothing is said any more: nobody would hear it.
    while *follow && is_read() {
        std::thread::sleep(LOOK);
        match client.log(slot, after) {
            Ok(log) => {
                if std::mem::take(&mut is_lost) {
                    tell(format_args!("the host is there again\n"));
                }
                print(&text(&log, after))?;
                after = log.next;
            }
            Err(error) if is_away(&client, &error) => {
                if !std::mem::replace(&mut is_lost, true) {
                    tell(format_args!(
                        "the host is lost, and looked for until Ctrl-C: {error}\n"
                    ));
                }
                // Its next start has another token, and counts its lines anew.
                match super::host::client(host) {
                    Ok(found) if found != client => (client, after) = (found, 0),
                    _ => {}
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether a host that does not say it now may say it later: it is away, has too much to do, or is only starting.
fn is_away(client: &Client, error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Stale { .. } => true,
        ClientError::Refused { status, .. } => match status {
            // The token of a start before; of an address that was given it is the one that was given.
            401 => client.state().is_some(),
            404 => is_starting(client),
            429 | 503 => true,
            _ => false,
        },
        _ => false,
    }
}

fn text(log: &LogReport, after: u64) -> String {
    let mut text = String::new();
    let gap = |from: u64, to: u64| match to.saturating_sub(from) {
        0 => String::new(),
        1 => "(1 line is not shown: it was gone, or said too fast)\n".to_owned(),
        lines => format!("({lines} lines are not shown: they were gone, or said too fast)\n"),
    };
    // What had gone before anybody looked is no surprise.
    let mut next = match (after, log.lines.first()) {
        (0, Some(first)) => first.number,
        _ => after,
    };
    for line in &log.lines {
        text += &gap(next, line.number);
        text += &format!("{} {:5} {}\n", clock(line.at), line.level, line.text);
        next = line.number + 1;
    }
    text + &gap(next, log.next)
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
        // Those that came too fast behind it are said at once, and not again.
        let fast = LogReport { next: 108, ..log };
        assert!(
            text(&fast, 0)
                .ends_with(" late\n(100 lines are not shown: they were gone, or said too fast)\n")
        );
        assert_eq!(
            text(
                &LogReport {
                    lines: Vec::new(),
                    ..fast
                },
                108
            ),
            ""
        );
    }
}
