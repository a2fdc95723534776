//! What was found wrong with a pipeline file, gathered while reading and resolving go on.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use super::mistake::Mistake;
use super::text::{SourceText, Span};

/// A value as it was typed, with its place and the key it stands under.
#[derive(Clone, Debug)]
pub(crate) struct Typed<T> {
    pub(crate) value: T,
    pub(crate) place: Span,
    pub(crate) key: String,
}

impl<T> Typed<T> {
    pub(crate) fn map<U>(self, meaning: impl FnOnce(T) -> U) -> Typed<U> {
        Typed {
            value: meaning(self.value),
            place: self.place,
            key: self.key,
        }
    }
}

/// What was found wrong so far.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) text: Arc<SourceText>,
    mistakes: RefCell<Vec<Finding>>,
    warnings: RefCell<Vec<Finding>>,
}

#[derive(Debug)]
struct Finding {
    start: usize,
    /// Something is not there, rather than wrong: of no weight in a file that is broken anyway.
    absence: bool,
    mistake: Mistake,
}

impl Findings {
    pub(crate) fn new(text: Arc<SourceText>) -> Self {
        Self {
            text,
            mistakes: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    pub(crate) fn mistake(&self, place: &Span, key: &str, what: impl Into<String>) {
        let finding = self.finding(place, key, what.into(), false);
        self.mistakes.borrow_mut().push(finding);
    }

    /// Something that must be there is not.
    pub(crate) fn absence(&self, place: &Span, key: &str, what: String) {
        let finding = self.finding(place, key, what, true);
        self.mistakes.borrow_mut().push(finding);
    }

    pub(crate) fn warning(&self, place: &Span, key: &str, what: impl Into<String>) {
        let finding = self.finding(place, key, what.into(), false);
        self.warnings.borrow_mut().push(finding);
    }

    /// A mistake about a value that was read.
    pub(crate) fn about<T>(&self, typed: &Typed<T>, what: impl Into<String>) {
        self.mistake(&typed.place, &typed.key, what);
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.mistakes.borrow().is_empty()
    }

    /// A file that cannot be read at all has one mistake, without a position.
    pub(crate) fn whole_file(file: PathBuf, what: String) -> Mistake {
        Mistake {
            file,
            position: None,
            key: String::new(),
            what,
        }
    }

    fn finding(&self, place: &Span, key: &str, what: String, absence: bool) -> Finding {
        Finding {
            start: place.0.start,
            absence,
            mistake: Mistake {
                file: self.text.shown.clone(),
                position: Some(self.text.position(place)),
                key: key.to_owned(),
                what,
            },
        }
    }

    /// Leaves out what is probably no mistake by itself but follows from a file that is not TOML: what lies on a
    /// broken line, and what is missing.
    pub(crate) fn discount(&mut self, broken: &[Span]) {
        let lines: Vec<usize> = broken
            .iter()
            .map(|place| self.text.position(place).line)
            .collect();
        let stays = |finding: &Finding| {
            let line = finding.mistake.position.as_ref().map(|at| at.line);
            !finding.absence && !line.is_some_and(|line| lines.contains(&line))
        };
        self.mistakes.get_mut().retain(stays);
        self.warnings.get_mut().clear();
    }

    /// Mistakes and warnings, each in the order of the file.
    pub(crate) fn into_parts(self) -> (Vec<Mistake>, Vec<Mistake>) {
        let ordered = |found: RefCell<Vec<Finding>>| {
            let mut found = found.into_inner();
            found.sort_by_key(|finding| finding.start);
            let mut found: Vec<Mistake> =
                found.into_iter().map(|finding| finding.mistake).collect();
            found.dedup();
            found
        };
        (ordered(self.mistakes), ordered(self.warnings))
    }
}
