//! `tidegate top`: how a running pipeline does, at a glance, in a terminal.

#![cfg_attr(not(unix), allow(dead_code))]

mod draw;
mod figures;
mod frame;
mod keys;
#[cfg(unix)]
mod screen;
#[cfg(test)]
mod tests;
mod views;

use std::ffi::OsStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;
use tidegate_control::StatusReport;
use tidegate_telemetry::plain;

use self::draw::{Shown, whole};
use self::figures::Figures;
use super::host::{HostArguments, client};
use super::print;
use crate::exit::{Failure, with_causes};

/// Columns of a frame that is printed where nobody says how many there are.
const COLUMNS: usize = 100;
/// Most bytes of why a host cannot be asked.
const REASON_BYTES: usize = 400;

/// Watch a running pipeline in a terminal.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate top --pipeline pipeline.toml\n  \
    tidegate top --once --state /var/lib/tidegate\n\n\
    It shows rates, back-pressure, latencies, slots, models, sources, cuts and what takes long, as the host tells them.\n\
    h lists the keys, q ends it. NO_COLOR takes the colours away.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// Time between two looks, 100ms to 60s.
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print all of it once, with the rates of one interval, and end.
    #[arg(long)]
    once: bool,
}

/// A time between two looks.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = tidegate_control::config::duration(text)?;
    match interval.as_millis() {
        100..=60_000 => Ok(interval),
        _ => Err("it must be 100ms to 60s".to_owned()),
    }
}

/// Looks without an answer after which what is shown is old, the one that is under way counted.
const LOOKS: u32 = 3;
/// No host is silent before, however often it is asked.
const SILENT: Duration = Duration::from_secs(1);

/// What was heard of the host.
type Heard = Result<Box<StatusReport>, Failure>;

/// Shows the host until somebody ends it.
pub(crate) fn top(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.once {
        true => print_once(arguments),
        false => watch(arguments),
    }
}

/// All of it on standard output, with the rates of one interval.
fn print_once(arguments: &Arguments) -> Result<(), Failure> {
    let mut figures = Figures::default();
    figures.take(client(&arguments.host)?.status()?);
    std::thread::sleep(arguments.interval);
    figures.take(client(&arguments.host)?.status()?);
    let told = std::env::var("COLUMNS").ok();
    let told = told.and_then(|columns| columns.parse().ok());
    #[cfg(unix)]
    let told = told.or_else(|| screen::size().map(|(columns, _)| columns));
    let columns = told.unwrap_or(COLUMNS).clamp(1, 1000);
    print(&whole(&figures, &Shown::default(), columns).text())
}

/// Draws what is heard, and does what keys say.
#[cfg(unix)]
fn watch(arguments: &Arguments) -> Result<(), Failure> {
    use self::draw::draw;
    use self::keys::Key;
    use self::screen::{Screen, Told, is_there};
    if !is_there() {
        return Err(no_terminal());
    }
    // Which host is meant is a question that has an answer, or is wrong, at once.
    client(&arguments.host)?;
    let mut figures = Figures::default();
    let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
    let mut screen = Screen::open(has_colours(no_color.as_deref(), term.as_deref()))?;
    let asker = Asker::start(arguments.host.clone(), arguments.interval)?;
    let mut shown = Shown::default();
    let mut heard_at = Instant::now();
    let patience = SILENT.max(arguments.interval * LOOKS);
    loop {
        loop {
            match asker.heard.try_recv() {
                Ok(Ok(report)) => {
                    (shown.lost, heard_at) = (None, Instant::now());
                    if !shown.paused || figures.report().is_none() {
                        figures.take(*report);
                    }
                }
                // One that has never answered is not lost: it is not there.
                Ok(Err(failure)) if figures.report().is_none() => return Err(failure),
                Ok(Err(failure)) => shown.lost = Some(reason(failure)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(anyhow!("whoever asks the host has ended").into());
                }
            }
        }
        shown.silent = Some(heard_at.elapsed()).filter(|silent| *silent >= patience);
        // A host that is there answers before anything has to be said of it.
        if figures.report().is_some() || shown.silent.is_some() {
            screen.draw(|columns, rows| draw(&figures, &mut shown, columns, rows))?;
        }
        match screen.wait()? {
            Told::End => return Ok(()),
            Told::Keys(keys) => {
                for key in keys {
                    match key {
                        Key::Quit => return Ok(()),
                        Key::Again => screen.again(),
                        key => shown.key(key),
                    }
                }
            }
        }
    }
}

/// Keys are read from terminals of Unix.
#[cfg(not(unix))]
fn watch(_: &Arguments) -> Result<(), Failure> {
    Err(no_terminal())
}

/// Why a host cannot be asked, on one line.
fn reason(failure: Failure) -> String {
    match failure {
        Failure::Run(error) => plain(&with_causes(&error), REASON_BYTES).into(),
        Failure::Usage(text) => plain(&text, REASON_BYTES).into(),
    }
}

fn no_terminal() -> Failure {
    Failure::usage("top needs a terminal that it can draw on; --once prints all of it anywhere")
}

/// Whether a terminal has colours and whoever looks at it wants them.
fn has_colours(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    let is_wanted = no_color.is_none_or(OsStr::is_empty);
    let term = term.unwrap_or_default().to_string_lossy();
    let has_none = ["dumb", "vt52", "vt100", "vt102", "vt220"].contains(&&*term)
        || term.ends_with("-m")
        || term.ends_with("-mono");
    is_wanted && !has_none
}

/// Asks the host again and again, beside the screen: a host that does not answer must not hold the keys.
struct Asker {
    heard: Receiver<Heard>,
    /// Dropped to end it.
    _stop: SyncSender<()>,
}

impl Asker {
    fn start(host: HostArguments, interval: Duration) -> Result<Asker, Failure> {
        let (tell, heard) = mpsc::sync_channel(1);
        let (stop, stopped) = mpsc::sync_channel::<()>(0);
        std::thread::Builder::new()
            .name("top".to_owned())
            .spawn(move || {
                loop {
                    // It is looked for anew: a host that was started again has another address.
                    let asked = client(&host).and_then(|client| Ok(client.status()?));
                    if tell.send(asked.map(Box::new)).is_err()
                        || stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout)
                    {
                        return;
                    }
                }
            })?;
        Ok(Asker { heard, _stop: stop })
    }
}
