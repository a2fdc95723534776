//! Standard error of this program, which lines of a log and one line of progress share.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_control::ProgressReport;
use tidegate_telemetry::{Meters, ProgressLine, Works};

use crate::printing::{progress_line, tells_json};

/// How often it is looked whether the line is due.
const LOOK: Duration = Duration::from_millis(50);
/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 120;

/// What takes long in this process.
static WORKS: LazyLock<Works> = LazyLock::new(Works::default);
/// The line of progress that stands on the terminal, if it is shown.
static LINE: Mutex<Option<ProgressLine>> = Mutex::new(None);

/// What takes long in this process, wherever it is begun.
pub(crate) fn works() -> &'static Works {
    &WORKS
}

/// The same for the status.
pub(crate) fn under_way() -> Vec<ProgressReport> {
    let works = works().under_way().into_iter();
    let report = works.map(|work| ProgressReport {
        kind: work.kind.name().to_owned(),
        done: work.done,
        of: work.of,
        unit: work.kind.unit().to_owned(),
        seconds: work.elapsed.as_secs_f64(),
        subject: work.subject,
    });
    report.collect()
}

fn line() -> MutexGuard<'static, Option<ProgressLine>> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard error for everything but the line of progress, which is taken away before.
pub(crate) struct Errors;

impl Write for Errors {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut line = line();
        let mut errors = io::stderr().lock();
        let clear = line.as_mut().map_or("", ProgressLine::clear);
        errors.write_all(clear.as_bytes())?;
        errors.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The line of progress is shown as long as this lives, by a thread of its own.
pub(crate) struct Progress {
    run: Arc<Mutex<Option<Arc<Meters>>>>,
    thread: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Shows what takes long. Where no thread can be had, nothing is shown: that is no reason to end.
    pub(crate) fn show() -> Progress {
        let run = Arc::<Mutex<Option<Arc<Meters>>>>::default();
        let (stop, stopped) = mpsc::channel();
        let of_run = Arc::clone(&run);
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || {
                *line() = Some(ProgressLine::new(columns()));
                while stopped.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let run = of_run.lock().unwrap_or_else(PoisonError::into_inner);
                    let run = run.as_ref().map(|meters| meters.snapshot());
                    let mut line = line();
                    let works = works().under_way();
                    let due = line
                        .as_mut()
                        .and_then(|line| line.update(Instant::now(), run.as_ref(), &works));
                    if let Some(due) = due {
                        write(&due);
                    }
                }
                let last = line().take();
                write(last.map_or("", |mut last| last.clear()));
            });
        Progress {
            run,
            thread: thread.ok().map(|thread| (stop, thread)),
        }
    }

    /// Nothing is shown.
    pub(crate) fn hidden() -> Progress {
        Progress {
            run: Arc::default(),
            thread: None,
        }
    }

    /// A run goes on: how, is shown from now on.
    pub(crate) fn runs(&self, meters: &Arc<Meters>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(meters));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            // It only fails where the thread panicked, and then there is nothing to take away.
            let _ = thread.join();
        }
    }
}

/// Progress that cannot be shown is no reason to end.
fn write(text: &str) {
    let text = progress_line(text);
    let mut errors = io::stderr().lock();
    let _ = errors
        .write_all(text.as_bytes())
        .and_then(|()| errors.flush());
}

/// Columns of the terminal that standard error is; none if it is none.
fn columns() -> Option<usize> {
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    (!tells_json() && io::stderr().is_terminal()).then(|| told().unwrap_or(COLUMNS))
}
