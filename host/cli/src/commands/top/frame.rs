//! A frame: lines of pieces, each with its column, for a screen of any size.
//!
//! Whatever is shown goes through [`Line::at`], so no text of others reaches a terminal that could do anything to it. Columns
//! are said, and not counted on: where a terminal takes a letter for wider than we do, what stands behind it stays in place.

use tidegate_telemetry::plain;
use unicode_width::UnicodeWidthStr as _;

/// Most bytes of one piece.
const PIECE: usize = 2048;

/// What a piece is, which decides how it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Look {
    #[default]
    Plain,
    Title,
    Faint,
    Good,
    Warn,
    Bad,
    /// It is chosen of several.
    Chosen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) column: usize,
    pub(super) look: Look,
    pub(super) text: String,
}

/// A line, from left to right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pieces: Vec<Piece>,
    end: usize,
}

impl Line {
    pub(super) fn of(look: Look, text: &str) -> Line {
        Line::default().then(look, text)
    }

    /// The same with this behind it.
    pub(super) fn then(self, look: Look, text: &str) -> Line {
        let end = self.end;
        self.at(end, look, text)
    }

    /// The same with this at a column, or behind what is there already.
    pub(super) fn at(mut self, column: usize, look: Look, text: &str) -> Line {
        let text = plain(text, PIECE).into_owned();
        let column = column.max(self.end);
        self.end = column + width(&text);
        self.pieces.push(Piece { column, look, text });
        self
    }

    /// The columns that it takes.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// What there is room for.
    fn fitted(mut self, columns: usize) -> Line {
        self.pieces.retain(|piece| piece.column < columns);
        for piece in &mut self.pieces {
            piece.text = fitted(&piece.text, columns - piece.column);
        }
        self.end = self.end.min(columns);
        self
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// What it says, without how it looks.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            let missing = piece.column.saturating_sub(width(&text));
            text.extend(std::iter::repeat_n(' ', missing));
            text += &piece.text;
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Lines that have room on a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) lines: Vec<Line>,
}

impl Frame {
    pub(super) fn of(lines: impl IntoIterator<Item = Line>, columns: usize) -> Frame {
        Frame {
            lines: lines.into_iter().map(|line| line.fitted(columns)).collect(),
        }
    }

    /// What is in it, without what it looks like.
    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|line| line.text() + "\n").collect()
    }
}

/// Columns of a text.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The text, or its beginning and a mark where it takes more than so many columns.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    let ends = text
        .char_indices()
        .map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| width(&text[..*end]) <= room).last();
    format!("{}…", &text[..end.unwrap_or_default()])
}

/// A text on at most so many lines, broken between words; of a longer one the last is too long for the screen.
pub(super) fn wrapped(look: Look, text: &str, columns: usize, most: usize) -> Vec<Line> {
    let text = plain(text, PIECE);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let is_last = lines.len() >= most;
        match lines.last_mut() {
            None => lines.push(word.to_owned()),
            Some(line) if is_last || width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
        }
    }
    lines.iter().map(|line| Line::of(look, line)).collect()
}

/// The same of a text in which a path gives way where there is no room for all: its end says which file, and what stands
/// around it why.
pub(super) fn wrapped_around_path(
    look: Look,
    text: &str,
    columns: usize,
    most: usize,
) -> Vec<Line> {
    let of = |text: &str| wrapped(look, text, columns, most);
    let fits = |lines: &Vec<Line>| lines.iter().all(|line| line.end() <= columns);
    let whole = of(text);
    let paths = text.split(' ').filter(|word| word.contains('/'));
    let Some(path) = paths
        .max_by_key(|word| width(word))
        .filter(|_| !fits(&whole))
    else {
        return whole;
    };
    let ends = path.char_indices().skip(1).map(|(at, _)| &path[at..]);
    let mut shorter = ends.map(|end| of(&text.replacen(path, &format!("…{end}"), 1)));
    let fitting = shorter.find(fits);
    fitting.unwrap_or_else(|| of(&text.replacen(path, "…", 1)))
}

/// Facts behind a title, on as many lines as they take.
pub(super) fn flow(title: &str, facts: Vec<(Look, String)>, columns: usize) -> Vec<Line> {
    let indent = TITLE.min(columns / 8);
    let mut lines = Vec::new();
    let mut line = Line::of(Look::Title, title);
    for (look, fact) in facts {
        let at = match line.end() {
            0 => indent,
            end => (end + 2).max(indent),
        };
        if line.end() > 0 && at + width(&fact) > columns {
            lines.push(std::mem::take(&mut line));
            line = line.at(indent, look, &fact);
        } else {
            line = line.at(at, look, &fact);
        }
    }
    lines.push(line);
    lines
}

/// Columns of a title, where there is room.
const TITLE: usize = 10;
/// Columns of the names of a table, at most.
const NAMES: usize = 24;

/// A row of a table: whose it is, and its cells.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) cells: Vec<(Look, String)>,
}

/// A table of the columns, of these titles and widths, that there is room for: those that matter most come first.
pub(super) fn table(
    first: &str,
    titles: &[(&str, usize)],
    rows: Vec<Row>,
    columns: usize,
) -> Vec<Line> {
    if rows.is_empty() {
        return Vec::new();
    }
    let longest = rows.iter().map(|row| width(&plain(&row.name, PIECE))).max();
    let most = NAMES.min((columns / 2).max(4));
    let names = longest.unwrap_or_default().max(width(first)).min(most);
    let mut end = names;
    let shown = titles.iter().take_while(|(_, wide)| {
        end += wide;
        end <= columns
    });
    let shown: Vec<usize> = shown.map(|(_, wide)| *wide).collect();
    let row = |name: &str, look: Look, cells: &mut dyn Iterator<Item = (Look, String)>| {
        let name = fitted(&plain(name, PIECE), names);
        let mut line = Line::of(look, &name);
        let mut end = names;
        for (wide, (look, cell)) in shown.iter().zip(cells) {
            end += wide;
            // One column stays between two.
            let cell = fitted(&cell, wide - 1);
            line = line.at(end - width(&cell), look, &cell);
        }
        line
    };
    let mut titles = titles
        .iter()
        .map(|(title, _)| (Look::Title, (*title).to_owned()));
    let mut lines = vec![row(first, Look::Title, &mut titles)];
    lines.extend(
        rows.into_iter()
            .map(|one| row(&one.name, one.look, &mut one.cells.into_iter())),
    );
    lines
}
