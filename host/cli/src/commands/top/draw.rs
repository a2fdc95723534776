//! What stands where in a frame: the head, the view that is chosen, and the keys.

use std::time::Duration;

use tidegate_control::RunState;
use tidegate_telemetry::plain;

use super::figures::Figures;
use super::frame::{Frame, Line, Look, width, wrapped_around_path};
use super::keys::Key;
use super::views::{View, span};

/// Most bytes of a name that are shown.
const NAME: usize = 64;
/// Most bytes of a reason that are shown.
const REASON: usize = 400;
/// Most lines of why a host is lost.
const LOST: usize = 2;

/// By what stages are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// As in the file.
    #[default]
    File,
    /// Those that are given most first.
    Input,
    /// Those that are nearest to taking no more first.
    Waiting,
    /// Those with most dead letters first.
    Dead,
}

/// How the figures are looked at.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) view: View,
    pub(super) paused: bool,
    pub(super) help: bool,
    pub(super) sort: Sort,
    /// Lines of the view that are above the screen.
    pub(super) from: usize,
    /// Lines of the view that a screen has.
    pub(super) page: usize,
    /// Why the host cannot be asked, while it cannot.
    pub(super) lost: Option<String>,
    /// For how long it has not answered, if that is longer than it takes.
    pub(super) silent: Option<Duration>,
}

impl Shown {
    pub(super) fn key(&mut self, key: Key) {
        match key {
            Key::Up => self.from = self.from.saturating_sub(1),
            Key::Down => self.from += 1,
            Key::PageUp => self.from = self.from.saturating_sub(self.page.max(1)),
            Key::PageDown => self.from += self.page.max(1),
            Key::Top => self.from = 0,
            // What is beyond the end comes back when it is drawn.
            Key::Bottom => self.from = usize::MAX / 2,
            Key::Next => self.turn_to(self.view.moved(1)),
            Key::Previous => self.turn_to(self.view.moved(View::ALL.len() - 1)),
            Key::View(number) => {
                if let Some(view) = View::ALL.get(number) {
                    self.turn_to(*view);
                }
            }
            Key::Pause => self.paused = !self.paused,
            Key::Help => (self.help, self.from) = (!self.help, 0),
            Key::Sort => {
                self.sort = match self.sort {
                    Sort::File => Sort::Input,
                    Sort::Input => Sort::Waiting,
                    Sort::Waiting => Sort::Dead,
                    Sort::Dead => Sort::File,
                }
            }
            Key::Quit | Key::Again => {}
        }
    }

    fn turn_to(&mut self, view: View) {
        (self.view, self.help, self.from) = (view, false, 0);
    }
}

/// All of a view, for a place where nobody can scroll.
pub(super) fn whole(figures: &Figures, shown: &Shown, columns: usize) -> Frame {
    let lines = head(figures, shown, columns).into_iter();
    Frame::of(
        lines.chain(shown.view.lines(figures, shown.sort, columns)),
        columns,
    )
}

/// A frame for a screen of this size.
pub(super) fn draw(figures: &Figures, shown: &mut Shown, columns: usize, rows: usize) -> Frame {
    let mut head = head(figures, shown, columns);
    // Two lines of what it is about are more than where else one could look.
    if rows >= 8 {
        head.push(tabs(shown, columns));
    }
    let keys = usize::from(rows > head.len() + 1);
    let room = rows.saturating_sub(head.len() + keys);
    let body = match shown.help {
        true => help(),
        false => shown.view.lines(figures, shown.sort, columns),
    };
    shown.page = room;
    shown.from = shown.from.min(body.len().saturating_sub(room));
    let more = body.len().saturating_sub(shown.from + room);
    let mut lines = head;
    lines.extend(body.into_iter().skip(shown.from).take(room));
    if keys > 0 {
        lines.resize(rows - 1, Line::default());
        lines.push(keys_line(shown, more));
    }
    lines.truncate(rows);
    Frame::of(lines, columns)
}

/// Whose figures these are, and how it is.
fn head(figures: &Figures, shown: &Shown, columns: usize) -> Vec<Line> {
    let silent = shown.silent.map(|silent| {
        let silent = span(silent.as_secs_f64());
        format!("no answer for {silent}")
    });
    let Some(report) = figures.report() else {
        let line = Line::of(Look::Title, "nothing is known yet");
        return vec![match silent {
            Some(silent) => line.then(Look::Warn, &format!(": {silent}")),
            None => line,
        }];
    };
    let (look, state) = match report.state {
        RunState::Starting => (Look::Warn, "starting"),
        RunState::Running => (Look::Good, "running"),
        RunState::Draining => (Look::Warn, "draining"),
    };
    let (look, state) = match (&shown.lost, &silent) {
        (Some(_), _) => (Look::Bad, "lost"),
        (None, Some(_)) => (Look::Warn, "silent"),
        (None, None) => (look, state),
    };
    let mut lines = vec![
        Line::of(Look::Title, &plain(&report.pipeline, NAME))
            .then(Look::Plain, "  ")
            .then(look, state)
            .then(Look::Plain, &format!(" {}", span(report.uptime_seconds))),
    ];
    if let Some(why) = &shown.lost {
        let why = format!("lost, trying again: {}", plain(why, REASON));
        lines.extend(wrapped_around_path(Look::Bad, &why, columns, LOST));
    } else if let Some(silent) = silent {
        lines.push(Line::of(
            Look::Warn,
            &format!("{silent}: what is shown is old"),
        ));
    }
    lines
}

/// The views, and which it is. Where there is no room for all, only which it is.
fn tabs(shown: &Shown, columns: usize) -> Line {
    let mut line = Line::default();
    for (number, view) in View::ALL.iter().enumerate() {
        let look = match *view == shown.view && !shown.help {
            true => Look::Chosen,
            false => Look::Faint,
        };
        let behind = if number == 0 { 0 } else { line.end() + 1 };
        line = line.at(behind, look, &format!(" {} {} ", number + 1, view.title()));
    }
    match line.end() <= columns {
        true => line,
        false => Line::of(Look::Chosen, &format!(" {} ", shown.view.title())),
    }
}

fn keys_line(shown: &Shown, more: usize) -> Line {
    let mut line = Line::default();
    if shown.paused {
        line = line.then(Look::Warn, "PAUSED").then(Look::Plain, "  ");
    }
    if more > 0 {
        line = line.then(Look::Plain, &format!("{more} more below  "));
    }
    let sorted = match shown.sort {
        Sort::File => "file",
        Sort::Input => "in/s",
        Sort::Waiting => "waiting",
        Sort::Dead => "dead",
    };
    let keys = format!("q quit  h help  Tab view  s sort: {sorted}  p pause");
    line.then(Look::Faint, &keys)
}

fn help() -> Vec<Line> {
    const KEYS: [(&str, &str); 9] = [
        ("q, Ctrl-C", "quit"),
        ("Tab, arrows", "next view, view before"),
        ("1 to 5", "a view by its number"),
        ("j, k, arrows", "down, up"),
        ("Space, pages", "a screen down, up"),
        ("g, G", "to the top, to the end"),
        ("s", "order of the stages"),
        ("p", "hold the figures, go on"),
        ("h, ?", "this help, and back"),
    ];
    let widest = KEYS.iter().map(|(keys, _)| width(keys)).max();
    let at = widest.unwrap_or_default() + 2;
    KEYS.iter()
        .map(|(keys, what)| Line::of(Look::Title, keys).at(at, Look::Plain, what))
        .collect()
}
