//! The terminal: taken for as long as it is drawn on, and given back however that ends.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::frame::{Frame, Line, Look};
use super::keys::{Key, Keys};
use crate::commands::signals::Signals;
use crate::exit::Failure;

/// How long a key is waited for before the frame is drawn again.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Columns and rows of a terminal that does not say how many it has.
const SIZE: (usize, usize) = (80, 24);
/// Another screen than the one with the shell on it, no cursor, and lines that end at the edge.
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const GIVE_BACK: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
const CLEAR: &str = "\x1b[0m\x1b[2J";

/// How the terminal was, while its keys are ours.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
/// Its screen is ours, too.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// What somebody in front of it did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    End,
    Keys(Vec<Key>),
}

/// The terminal while it is drawn on.
pub(super) struct Screen {
    colours: bool,
    /// What is on it, and its size then.
    drawn: (Frame, (usize, usize)),
    keys: Keys,
    /// A signal has come.
    ended: Arc<AtomicBool>,
}

/// Whether there is a terminal to draw on, and somebody who presses keys.
pub(super) fn is_there() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb
}

/// Columns and rows of standard output, if it is a terminal.
pub(super) fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Gives the terminal back. What cannot be undone is left as it is: there is nobody to tell.
fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        if TAKEN.swap(false, Ordering::AcqRel) {
            let mut out = io::stdout().lock();
            let _ = out
                .write_all(GIVE_BACK.as_bytes())
                .and_then(|()| out.flush());
        }
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &before);
    }
}

impl Screen {
    /// Takes the keys: nothing that is pressed is shown. The screen is taken with the first frame.
    pub(super) fn open(colours: bool) -> Result<Screen, Failure> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let ended = Arc::new(AtomicBool::new(false));
        hear(&ended)?;
        let before = tcgetattr(io::stdin()).map_err(io::Error::from)?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        // From here on it is given back when this is dropped.
        let screen = Screen {
            colours,
            drawn: (Frame::default(), (0, 0)),
            keys: Keys::default(),
            ended,
        };
        // What was pressed before is for it as well.
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(io::Error::from)?;
        Ok(screen)
    }

    fn take(&mut self) -> io::Result<()> {
        match TAKEN.swap(true, Ordering::AcqRel) {
            true => Ok(()),
            false => self.write(TAKE),
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Draws a frame of the size that the terminal has now: the lines that are others than before.
    pub(super) fn draw(&mut self, frame: impl FnOnce(usize, usize) -> Frame) -> io::Result<()> {
        self.take()?;
        let (columns, rows) = size().unwrap_or(SIZE);
        let frame = frame(columns, rows);
        let mut text = String::new();
        if self.drawn.1 != (columns, rows) {
            text += CLEAR;
            self.drawn.0 = Frame::default();
        }
        let none = Line::default();
        for row in 0..rows {
            let line = frame.lines.get(row).unwrap_or(&none);
            if line != self.drawn.0.lines.get(row).unwrap_or(&none) {
                self.line(&mut text, row, line);
            }
        }
        self.drawn = (frame, (columns, rows));
        match text.is_empty() {
            true => Ok(()),
            false => self.write(&text),
        }
    }

    fn line(&self, text: &mut String, row: usize, line: &Line) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\x1b[{};1H\x1b[0m\x1b[2K", row + 1);
        for piece in line.pieces().iter().filter(|piece| !piece.text.is_empty()) {
            let style = style(piece.look, self.colours);
            let _ = write!(
                text,
                "\x1b[{};{}H\x1b[0{style}m{}",
                row + 1,
                piece.column + 1,
                piece.text
            );
        }
    }

    /// The next frame is drawn as a whole.
    pub(super) fn again(&mut self) {
        self.drawn = (Frame::default(), (0, 0));
    }

    /// Waits a little for keys.
    pub(super) fn wait(&mut self) -> io::Result<Told> {
        let stdin = io::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut ready, Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if self.ended.load(Ordering::Acquire) {
            return Ok(Told::End);
        }
        let happened = ready[0].revents();
        if happened.is_empty() {
            return Ok(Told::Keys(Vec::new()));
        }
        let mut bytes = [0; 256];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(length) if length > 0 => Ok(Told::Keys(self.keys.take(&bytes[..length]))),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Told::Keys(Vec::new())),
            // The terminal has gone, and whoever sat there.
            Ok(_) | Err(_) => Ok(Told::End),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// How a piece looks, as the parameters of an escape sequence.
fn style(look: Look, colours: bool) -> &'static str {
    match (look, colours) {
        (Look::Plain, _) | (Look::Good, false) => "",
        (Look::Title, _) | (Look::Warn | Look::Bad, false) => ";1",
        (Look::Faint, _) => ";2",
        (Look::Chosen, _) => ";7",
        (Look::Good, true) => ";32",
        (Look::Warn, true) => ";1;33",
        (Look::Bad, true) => ";1;31",
    }
}

/// Notes a signal that ends the program, so that the terminal is given back first.
fn hear(ended: &Arc<AtomicBool>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let within = runtime.enter();
    let signals = Signals::listen();
    // A terminal that is closed, and Ctrl-\ of somebody elsewhere, would end it as it is.
    let others = (signal(SignalKind::hangup())?, signal(SignalKind::quit())?);
    drop(within);
    let ended = Arc::clone(ended);
    let (mut hangup, mut quit) = others;
    if let Some(mut signals) = signals {
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = signals.next() => {}
                        _ = hangup.recv() => {}
                        _ = quit.recv() => {}
                    }
                });
                ended.store(true, Ordering::Release);
            })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_nothing_is_coloured_and_what_matters_is_still_seen() {
        for look in [
            Look::Plain,
            Look::Title,
            Look::Faint,
            Look::Good,
            Look::Warn,
            Look::Bad,
            Look::Chosen,
        ] {
            assert!(!style(look, false).contains('3'), "{look:?}");
        }
        assert_ne!(style(Look::Bad, false), style(Look::Plain, false));
        assert_ne!(style(Look::Bad, true), style(Look::Warn, true));
    }

    /// Says that this process is one that is to panic: see the test below.
    const PANICS: &str = "TIDEGATE_TEST_PANICS";

    #[test]
    fn a_panic_gives_the_terminal_back() {
        if std::env::var_os(PANICS).is_some() {
            let mut screen = Screen::open(false).unwrap();
            screen.take().unwrap();
            screen.write("drawn").unwrap();
            panic!("on the way");
        }
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let open = || {
            let mut options = std::fs::File::options();
            options.read(true).write(true);
            options.open(name.to_str().unwrap()).unwrap()
        };
        // Held open: without anybody there it would begin anew.
        let other_end = open();
        let modes = || {
            let now = tcgetattr(&other_end).unwrap();
            (now.local_modes, now.input_modes, now.output_modes)
        };
        let before = modes();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["a_panic_gives_the_terminal_back", "--nocapture"])
            .env(PANICS, "1")
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        // It is read until what the panic says is there: the terminal is given back before.
        let mut said = String::new();
        let mut bytes = [0; 4096];
        while !said.contains("on the way") {
            let length = rustix::io::read(&terminal, &mut bytes).unwrap();
            assert!(length > 0, "{said}");
            said += &String::from_utf8_lossy(&bytes[..length]);
        }
        let places = [TAKE, "drawn", GIVE_BACK, "on the way"].map(|part| said.find(part));
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{said:?}"
        );
        assert_eq!(modes(), before);
        // Whatever else it says is nobody's, and must not hold it up.
        drop(terminal);
        assert!(!child.wait().unwrap().success());
    }
}
