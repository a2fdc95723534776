//! The dead letters of a pipeline: where they are read, and how they are sent again.

mod report;
mod request;
mod sending;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_codec::{StoredLetter, format_time};
use tidegate_contract::{LetterError, LetterStore, WrittenLetter};
use tidegate_control::{
    LetterPage, LetterQuery, LetterReport, LetterSent, LettersRefused, SendLetters, SentLetters,
};

use self::report::Room;
use self::request::Time;
pub(crate) use self::sending::Sender;

/// For a page: letters are looked at until then.
const PAGE: Duration = Duration::from_secs(5);
/// For one letter, and for each that is sent again.
const ONE: Duration = Duration::from_secs(20);
/// For all that one request sends again. Who asks waits longer.
const ALL: Duration = Duration::from_secs(120);
/// Most bytes of the letters of a page.
const PAGE_BYTES: usize = 4 << 20;

/// See the module.
pub(crate) struct Letters {
    /// Where they are, or why nobody can look there.
    store: Result<Arc<dyn LetterStore>, String>,
    sender: Sender,
}

impl Letters {
    pub(crate) fn new(store: Result<Arc<dyn LetterStore>, String>, sender: Sender) -> Letters {
        Letters { store, sender }
    }

    fn store(&self) -> Result<&Arc<dyn LetterStore>, LettersRefused> {
        let store = self.store.as_ref();
        store.map_err(|why| LettersRefused::Unavailable(why.clone()))
    }

    /// Letters from the newest to the oldest.
    pub(crate) fn page(&self, query: &LetterQuery) -> Result<LetterPage, LettersRefused> {
        let store = match &self.store {
            Ok(store) => store,
            Err(why) => {
                return Ok(LetterPage {
                    unavailable: Some(why.clone()),
                    ..LetterPage::default()
                });
            }
        };
        let until = Instant::now() + PAGE;
        self.sender.look(until)?;
        let wanted = report::Wanted::of(query);
        let (mut letters, mut bytes) = (Vec::new(), 0);
        let (mut reached, mut looked) = (None, 0);
        let mut look = |written: WrittenLetter| {
            let letter = report::parsed(&written);
            looked += 1;
            reached = letter
                .as_ref()
                .ok()
                .and_then(|letter| letter.at)
                .or(reached);
            if wanted.has(&letter) {
                let shown = self.shown(&written, letter, Room::Preview);
                bytes += report::size(&shown);
                letters.push(shown);
            }
            match letters.len() >= query.limit || bytes >= PAGE_BYTES {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let next = store.newest(query.before.as_deref(), until, &mut look);
        Ok(LetterPage {
            next: next.map_err(refused)?,
            letters,
            place: store.name(),
            reached: reached.map(format_time),
            looked,
            unavailable: None,
        })
    }

    /// A letter as a whole.
    pub(crate) fn one(&self, id: &str) -> Result<LetterReport, LettersRefused> {
        let until = Instant::now() + ONE;
        let unknown = || LettersRefused::Unknown { id: id.to_owned() };
        let (written, letter) = report::find(self.store()?.as_ref(), id, until)
            .map_err(refused)?
            .ok_or_else(unknown)?;
        self.sender.look(until)?;
        Ok(self.shown(&written, letter, Room::Whole))
    }

    /// Sends letters again.
    pub(crate) fn send(&self, letters: &SendLetters) -> Result<SentLetters, LettersRefused> {
        let store = self.store()?;
        let time = Time {
            each: ONE,
            all: ALL,
        };
        Ok(SentLetters {
            results: self.sender.send(store.as_ref(), letters, time),
        })
    }

    /// A letter with what it does not say itself: whether it was sent, and whether it can be.
    fn shown(
        &self,
        written: &WrittenLetter,
        letter: Result<StoredLetter, String>,
        room: Room,
    ) -> LetterReport {
        let read = letter.as_ref().ok();
        let of_another = read.and_then(|letter| self.sender.of_another(letter));
        let sent = read.and_then(|letter| self.sender.sent(letter));
        let mut shown = report::report(written, letter, room);
        shown.sent = sent.map(|(at, record)| LetterSent { at, record });
        shown.unsendable = of_another
            .or(shown.unsendable)
            .or_else(|| self.sender.refusal(&shown.source));
        shown
    }
}

fn refused(error: LetterError) -> LettersRefused {
    match error {
        LetterError::Cursor(cursor) => LettersRefused::Cursor { cursor },
        error => LettersRefused::Failed(error.to_string()),
    }
}
