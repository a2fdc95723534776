//! `tidegate dead-letters`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};
use tidegate_contract::FileLayer;
use tidegate_control::client::{Client, ClientError};
use tidegate_control::{
    LetterPage, LetterQuery, LetterReport, LettersRefused, MAX_LETTERS, MAX_SENT, SendLetters,
    SendResult, SendState, SentLetters,
};
use tidegate_state::{Disk, FileCommitLog, StateDirectory};
use tidegate_telemetry::plain;

use super::host::{HostArguments, client};
use super::{is_read, print, print_json, read_pipeline};
use crate::exit::Failure;
use crate::letters::Letters;
use crate::wire;
use crate::wire::again::Again;

/// Most bytes of a reason on a line.
const REASON: usize = 160;
/// Most bytes of why a letter was not sent.
const WHY: usize = 1024;

/// What is done with dead letters.
#[derive(Subcommand)]
pub(crate) enum LettersCommand {
    /// List dead letters, the newest first.
    #[command(after_help = "Examples:\n  \
        tidegate dead-letters list --pipeline pipeline.toml\n  \
        tidegate dead-letters list --pipeline pipeline.toml --stage redact --text \"deadline\" --limit 500")]
    List {
        #[command(flatten)]
        host: HostArguments,
        #[command(flatten)]
        filter: Filter,
        /// Most letters that are listed.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print JSON, one letter a line.
        #[arg(long)]
        json: bool,
    },
    /// Show one dead letter as a whole, as JSON.
    #[command(after_help = "Example:\n  \
        tidegate dead-letters show --pipeline pipeline.toml tickets/0/1234@5120")]
    Show {
        #[command(flatten)]
        host: HostArguments,
        /// Its id, as list has it.
        id: String,
    },
    /// Send dead letters again, through the pipeline from their source's beginning. Each goes once.
    #[command(after_help = "Examples:\n  \
        tidegate dead-letters send --pipeline pipeline.toml tickets/0/1234@5120\n  \
        tidegate dead-letters send --pipeline pipeline.toml --all --stage redact\n\n\
        A letter that was sent before is not sent twice. A record goes with the private attributes that it had when it died; a \
        letter that does not have them, or whose seal another key made, is refused without --without-private. Where the pipeline does not run, its next run reads what is sent now.")]
    Send {
        #[command(flatten)]
        host: HostArguments,
        /// Ids of letters, as list has them.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<String>,
        /// All letters of the filter that were not sent and can be.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        filter: Filter,
        /// Send also letters that would go without private attributes that their records had. What they held is lost then: an
        /// answer keeps the placeholders of what was redacted.
        #[arg(long)]
        without_private: bool,
        /// Print JSON, one letter a line.
        #[arg(long)]
        json: bool,
    },
}

/// Which letters.
#[derive(Args)]
pub(crate) struct Filter {
    /// Those of this stage or sink, or decode.
    #[arg(long)]
    stage: Option<String>,
    /// Those of this source.
    #[arg(long)]
    source: Option<String>,
    /// Those whose reason has this text.
    #[arg(long)]
    text: Option<String>,
}

impl Filter {
    fn query(&self, limit: usize) -> LetterQuery {
        LetterQuery {
            limit: limit.clamp(1, MAX_LETTERS),
            before: None,
            stage: self.stage.clone(),
            source: self.source.clone(),
            text: self.text.clone(),
        }
    }
}

/// Does what is said.
pub(crate) fn letters(command: &LettersCommand) -> Result<(), Failure> {
    match command {
        LettersCommand::List {
            host,
            filter,
            limit,
            json,
        } => list(&Place::find(host, Use::Look)?, filter, *limit, *json),
        LettersCommand::Show { host, id } => {
            let letter = Place::find(host, Use::Look)?.one(id)?;
            print_json(&serde_json::to_string_pretty(&letter)?)
        }
        LettersCommand::Send {
            host,
            ids,
            all,
            filter,
            without_private,
            json,
        } => {
            let mut sending = Sending {
                place: Place::find(host, Use::Send)?,
                without_private: *without_private,
                told: Told::new(*json),
            };
            if *all {
                sending.all(filter)?;
            } else {
                for ids in ids.chunks(MAX_SENT) {
                    sending.send(ids.to_vec())?;
                }
            }
            sending.told.end()
        }
    }
}

/// What is done with letters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Look,
    Send,
}

/// Where letters are: with a running host, or in files.
enum Place {
    Host(Client),
    Files(Box<Files>),
}

/// Letters of a host that does not run.
struct Files {
    letters: Letters,
    /// To send, the directory is held for as long as its log is open, in which nothing is committed here.
    _held: Option<FileCommitLog>,
}

impl Place {
    fn find(host: &HostArguments, what: Use) -> Result<Place, Failure> {
        let Some(pipeline) = &host.pipeline else {
            return Ok(Place::Host(client(host)?));
        };
        match Client::find(pipeline) {
            Ok(client) if client.is_there() => Ok(Place::Host(client)),
            Ok(_) | Err(ClientError::NotRunning { .. }) => {
                let files = Files::open(pipeline, what)?;
                Ok(Place::Files(Box::new(files)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn page(&self, query: &LetterQuery) -> Result<LetterPage, Failure> {
        let page = match self {
            Place::Host(client) => client.dead_letters(query)?,
            Place::Files(files) => files.letters.page(query).map_err(failed)?,
        };
        match page.unavailable {
            Some(why) => Err(Failure::Run(anyhow::anyhow!(why))),
            None => Ok(page),
        }
    }

    fn one(&self, id: &str) -> Result<LetterReport, Failure> {
        match self {
            Place::Host(client) => Ok(client.dead_letter(id)?),
            Place::Files(files) => files.letters.one(id).map_err(failed),
        }
    }

    fn send(&self, letters: &SendLetters) -> Result<SentLetters, Failure> {
        match self {
            Place::Host(client) => Ok(client.send_dead_letters(letters)?),
            Place::Files(files) => files.letters.send(letters).map_err(failed),
        }
    }
}

impl Files {
    /// To look, nothing is made or held: a host may be starting, and the key is somebody else's. To send, nobody else has
    /// the directory meanwhile.
    fn open(pipeline: &Path, what: Use) -> Result<Files, Failure> {
        let pipeline = read_pipeline(pipeline)?;
        let Some(recorded) = StateDirectory::recorded(&pipeline.state)? else {
            return Err(Failure::usage(format_args!(
                "the pipeline has not run yet: {} has no commit log",
                pipeline.state.display()
            )));
        };
        let (again, recovered, held, seal) = match what {
            Use::Look => (Again::read_only(&pipeline)?, recorded, None, None),
            Use::Send => {
                let layer: Arc<dyn FileLayer> = Arc::new(Disk);
                let (state, log, recovered) = StateDirectory::open(&pipeline.state, layer)?;
                let seal = wire::letters::seal(&state);
                let again = Again::all(&pipeline, &Arc::new(state), &recovered.tasks)?;
                (again, recovered, Some(log), Some(seal))
            }
        };
        let committed = wire::letters::committed(&pipeline, &recovered);
        Ok(Files {
            letters: wire::letters::open(&pipeline, committed, again, seal),
            _held: held,
        })
    }
}

fn failed(refused: LettersRefused) -> Failure {
    Failure::Run(refused.into())
}

fn list(place: &Place, filter: &Filter, limit: usize, json: bool) -> Result<(), Failure> {
    let mut query = filter.query(limit);
    let (mut left, mut any) = (limit.max(1), false);
    loop {
        query.limit = left.min(MAX_LETTERS);
        let page = place.page(&query)?;
        left = left.saturating_sub(page.letters.len());
        any |= !page.letters.is_empty();
        let mut text = String::new();
        for letter in &page.letters {
            text += &match json {
                true => format!("{}\n", serde_json::to_string(letter)?),
                false => line(letter),
            };
        }
        match json {
            true => print_json(&text)?,
            false => print(&text)?,
        }
        match page.next {
            // The other end of the pipe has seen enough.
            _ if !is_read() => return Ok(()),
            Some(next) if left > 0 => query.before = Some(next),
            Some(_) | None if any || json => return Ok(()),
            _ => return print(&format!("no such dead letters in {}\n", page.place)),
        }
    }
}

/// A letter in two lines. What it says may be anybody's: nothing of it steers the terminal.
fn line(letter: &LetterReport) -> String {
    let at = letter.at.as_deref().unwrap_or("at an unknown time");
    let at = plain(at, REASON);
    let marked = match (&letter.sent, &letter.unsendable) {
        (Some(sent), _) => format!(
            "  sent again as {} at {}",
            plain(&sent.record, REASON),
            plain(&sent.at, REASON)
        ),
        (None, Some(why)) => format!("  cannot be sent again: {}", plain(why, REASON)),
        (None, None) if letter.private > 0 && !letter.private_kept => {
            "  has lost its private attributes".to_owned()
        }
        (None, None) => String::new(),
    };
    let (id, stage) = (plain(&letter.id, REASON), plain(&letter.stage, REASON));
    let mut text = format!("{id}  {at}  {stage}{marked}\n");
    let _ = writeln!(text, "  {}", plain(&letter.reason, REASON));
    text
}

/// Letters that are being sent.
struct Sending {
    place: Place,
    without_private: bool,
    told: Told,
}

impl Sending {
    /// Sends page after page. Letters that die again meanwhile are newer than the first page, and are not met.
    fn all(&mut self, filter: &Filter) -> Result<(), Failure> {
        let mut query = filter.query(MAX_LETTERS);
        loop {
            let page = self.place.page(&query)?;
            let letters = page.letters.into_iter();
            let ids: Vec<String> = letters
                .filter(|letter| letter.sent.is_none() && letter.unsendable.is_none())
                .map(|letter| letter.id)
                .collect();
            if !ids.is_empty() {
                self.send(ids)?;
            }
            match page.next {
                Some(next) => query.before = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Sends these. Those that a request has no time for are asked for again, as long as one comes to some.
    fn send(&mut self, mut ids: Vec<String>) -> Result<(), Failure> {
        loop {
            let asked = ids.len();
            let letters = SendLetters {
                ids,
                without_private: self.without_private,
            };
            let results = self.place.send(&letters)?.results.into_iter();
            let (left, done): (Vec<_>, Vec<_>) =
                results.partition(|result| result.state == SendState::Unreached);
            let stands = left.len() == asked;
            self.told.tell(done)?;
            if left.is_empty() || stands {
                return self.told.tell(left);
            }
            ids = left.into_iter().map(|result| result.id).collect();
        }
    }
}

/// What became of letters.
struct Told {
    json: bool,
    sent: u64,
    already: u64,
    refused: u64,
    unknown: u64,
    unreached: u64,
}

impl Told {
    fn new(json: bool) -> Told {
        Told {
            json,
            sent: 0,
            already: 0,
            refused: 0,
            unknown: 0,
            unreached: 0,
        }
    }

    fn tell(&mut self, results: Vec<SendResult>) -> Result<(), Failure> {
        let mut text = String::new();
        for result in results {
            let word = match result.state {
                SendState::Sent => {
                    self.sent += 1;
                    "sent"
                }
                SendState::Already => {
                    self.already += 1;
                    "already sent"
                }
                SendState::Refused => {
                    self.refused += 1;
                    "refused"
                }
                SendState::Unknown => {
                    self.unknown += 1;
                    "sent or not"
                }
                SendState::Unreached => {
                    self.unreached += 1;
                    "not reached"
                }
            };
            if self.json {
                text += &format!("{}\n", serde_json::to_string(&result)?);
                continue;
            }
            let why = result.why.as_deref().unwrap_or_default();
            let colon = if why.is_empty() { "" } else { ": " };
            let way = match result.without_private {
                true => " (--without-private sends it without them)",
                false => "",
            };
            let (id, why) = (plain(&result.id, REASON), plain(why, WHY));
            let _ = writeln!(text, "{word}  {id}{colon}{why}{way}");
        }
        match self.json {
            true => print_json(&text),
            false => print(&text),
        }
    }

    fn end(self) -> Result<(), Failure> {
        let Told {
            json,
            sent,
            already,
            refused,
            unknown,
            unreached,
        } = self;
        if !json {
            let mut text = format!("{sent} sent, {already} already sent, {refused} refused");
            if unknown > 0 {
                let _ = write!(text, ", {unknown} sent or not: send them once more to know");
            }
            if unreached > 0 {
                let _ = write!(text, ", {unreached} not reached");
            }
            print(&format!("{text}\n"))?;
        }
        match refused + unreached {
            0 if unknown > 0 => Err(Failure::Run(anyhow::anyhow!(
                "of {unknown} letters it is not known whether they were sent again"
            ))),
            0 => Ok(()),
            not => Err(Failure::Run(anyhow::anyhow!(
                "{not} letters were not sent again"
            ))),
        }
    }
}
