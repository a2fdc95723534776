//! The files of an audit log. They grow at each cut, and are cut back to the last one on recovery.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_contract::{
    self as contract, AppendFile, AuditDoor, AuditLog, Audited, CutWitness, EntryCipher, FileLayer,
    SinkError, SinkPosition, TaskId,
};

use super::chain::AuditHead;
use super::door::Door;
use super::files::{no_file_of_it, numbered};
use super::line::members;
use super::mark::Mark;

/// What the log's place is called in cuts: no sink can be called so.
pub(super) const NAME: &str = "audit log";

/// How much is kept where.
#[derive(Clone, Copy, Debug)]
pub struct AuditLimits {
    /// A file that has so many bytes is followed by another.
    pub file: u64,
    /// Most bytes of what was asked and answered in one line; of more only a hash is kept.
    pub content: usize,
    /// Whether cuts are decided elsewhere than in the commit log, so that the chain has to say what became of them.
    pub decided_elsewhere: bool,
}

/// The audit log, as one worker has it. Workers share the files and the chain.
pub struct AuditFile {
    first: PathBuf,
    layer: Arc<dyn FileLayer>,
    cipher: Arc<dyn EntryCipher>,
    limits: AuditLimits,
    /// The rest of each line, in order: its place in the chain is known when it is written.
    pending: Vec<String>,
    /// Lines of which somebody was told already.
    told: Vec<String>,
    bytes: usize,
    /// The mark of the last flush, if its cut is not decided.
    undecided: Option<u64>,
    /// By what it is known later what became of the cut that is flushed next.
    witness: Option<CutWitness>,
    /// Where the chain ended after the last flush.
    flushed: AuditHead,
    /// Whether what comes in at the door goes out with the cuts of this worker.
    keeps_door: bool,
    door: Arc<Door>,
    open: Arc<Mutex<Open>>,
}

/// What all workers share.
pub(super) struct Open {
    /// Nobody else has it while it is open here.
    file: Box<dyn AppendFile>,
    /// Its number, counted from 1.
    number: u64,
    /// Length at the last flush that held.
    length: u64,
    head: AuditHead,
    /// The head that the commit log has.
    logged: AuditHead,
    /// A write failed: what of it is on the disk is not known.
    failed: bool,
    /// Cuts of former runs of which the chain does not say what became of them, by the numbers of their marks.
    undecided: Vec<(u64, CutWitness)>,
}

impl Open {
    pub(super) fn new(
        file: Box<dyn AppendFile>,
        number: u64,
        length: u64,
        head: AuditHead,
        undecided: Vec<(u64, CutWitness)>,
    ) -> Open {
        Open {
            file,
            number,
            length,
            logged: head.clone(),
            head,
            failed: false,
            undecided,
        }
    }

    /// Whether what is on the disk is known; else the number of the file.
    fn is_well(&self) -> Result<(), u64> {
        match self.failed {
            true => Err(self.number),
            false => Ok(()),
        }
    }
}

/// What is chained at once: lines, and the mark that closes them.
type Part<'a> = (Vec<String>, Mark<'a>);

impl AuditFile {
    pub(super) fn new(
        first: &Path,
        layer: Arc<dyn FileLayer>,
        cipher: Arc<dyn EntryCipher>,
        limits: AuditLimits,
        open: Open,
    ) -> AuditFile {
        AuditFile {
            first: first.to_owned(),
            layer,
            limits,
            pending: Vec::new(),
            told: Vec::new(),
            bytes: 0,
            undecided: None,
            witness: None,
            flushed: open.head.clone(),
            keeps_door: true,
            door: Arc::new(Door::new(Arc::clone(&cipher), limits.content)),
            cipher,
            open: Arc::new(Mutex::new(open)),
        }
    }

    /// The same log for another worker, or for one who looks on.
    pub fn other(&self) -> AuditFile {
        AuditFile {
            first: self.first.clone(),
            layer: Arc::clone(&self.layer),
            cipher: Arc::clone(&self.cipher),
            limits: self.limits,
            pending: Vec::new(),
            told: Vec::new(),
            bytes: 0,
            undecided: None,
            witness: None,
            flushed: self.head(),
            keeps_door: false,
            door: Arc::clone(&self.door),
            open: Arc::clone(&self.open),
        }
    }

    /// The same log for the worker whose cuts take out what comes in at the door.
    pub fn doorkeeper(&self) -> AuditFile {
        AuditFile {
            keeps_door: true,
            ..self.other()
        }
    }

    /// Where lines come in beside those of workers.
    pub fn door(&self) -> Arc<dyn AuditDoor> {
        Arc::clone(&self.door) as Arc<dyn AuditDoor>
    }

    /// Its first file.
    pub fn path(&self) -> &Path {
        &self.first
    }

    /// The last line that the commit log has: no crash takes it away.
    pub fn head(&self) -> AuditHead {
        self.lock().logged.clone()
    }

    /// A run of this pipeline, whose file has this digest, begins after a cut of the commit log; and after another one it
    /// ran without its audit. Returns where the file now ends.
    pub fn begin(
        &mut self,
        pipeline: &str,
        digest: &str,
        cut: u64,
        gap: Option<u64>,
    ) -> Result<SinkPosition, SinkError> {
        let gap = gap.map(|from| (Vec::new(), Mark::Gap { from, to: cut }));
        let begin = Mark::Begin {
            pipeline,
            digest,
            cut,
        };
        let parts = gap.into_iter().chain([(Vec::new(), begin)]);
        self.chain(parts.collect())
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, open: &Open) -> SinkPosition {
        SinkPosition {
            sink: NAME.to_owned(),
            identity: numbered(&self.first, open.number).display().to_string(),
            length: open.length,
            head: match open.head.lines {
                0 => String::new(),
                _ => open.head.hash.clone(),
            },
            ended: false,
        }
    }

    /// Goes on to the next file where this one is full. It must be new.
    fn turn(&self, open: &mut Open) -> io::Result<()> {
        if open.length < self.limits.file {
            return Ok(());
        }
        let path = numbered(&self.first, open.number + 1);
        if let Some(what) = self.layer.no_file(&path)? {
            let why = no_file_of_it(what);
            return Err(io::Error::other(format!("{}: {why}", path.display())));
        }
        let file = self.layer.open_append(&path)?;
        let found = file.length()?;
        if found > 0 {
            return Err(io::Error::other(format!(
                "{} is there already and has {found} bytes",
                path.display()
            )));
        }
        open.number += 1;
        (open.file, open.length) = (file, 0);
        Ok(())
    }

    fn append(&self, open: &mut Open, parts: &[Part<'_>]) -> io::Result<()> {
        let found = open.file.length()?;
        if found != open.length {
            return Err(io::Error::other(format!(
                "it has {found} bytes, and this run left {}: something else wrote to it",
                open.length
            )));
        }
        self.turn(open)?;
        let (mut head, mut bytes) = (open.head.clone(), Vec::new());
        for (lines, mark) in parts {
            for members in lines {
                head.chain(members, &mut bytes);
            }
            if !mark.chain(&mut head, now(), self.cipher.as_ref(), &mut bytes) {
                return Err(io::Error::other(
                    "the system gives no random numbers to sign a mark with",
                ));
            }
        }
        open.file.append(&bytes)?;
        open.file.sync()?;
        open.length += bytes.len() as u64;
        open.head = head;
        Ok(())
    }

    /// Chains these and makes them durable. The last of them ends with the head that is flushed then.
    fn chain(&mut self, parts: Vec<Part<'_>>) -> Result<SinkPosition, SinkError> {
        let shared = Arc::clone(&self.open);
        let mut open = shared.lock().unwrap_or_else(PoisonError::into_inner);
        open.is_well().map_err(|number| self.failed(number))?;
        // A panic counts as a failure too.
        open.failed = true;
        let appended = self.append(&mut open, &parts);
        appended.map_err(|error| self.error(open.number, error.to_string()))?;
        open.failed = false;
        self.flushed = open.head.clone();
        Ok(self.place(&open))
    }

    fn failed(&self, number: u64) -> SinkError {
        self.error(number, "an earlier write failed".into())
    }

    fn error(&self, number: u64, why: String) -> SinkError {
        SinkError::Write {
            place: numbered(&self.first, number).display().to_string(),
            why,
        }
    }

    /// Lines that no cut takes back, and the mark behind them, if there are any.
    fn take_told(&mut self, at_door: Vec<String>) -> Option<Part<'static>> {
        let mut lines = at_door;
        lines.append(&mut self.told);
        (!lines.is_empty()).then_some((lines, Mark::Cut))
    }
}

/// What became of the cut whose lines end with the mark of this number.
fn end_of(of: u64, held: bool) -> Mark<'static> {
    match held {
        true => Mark::Held(of),
        false => Mark::TakenBack(of),
    }
}

/// Milliseconds since the Unix epoch.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

impl AuditLog for AuditFile {
    fn write(&mut self, audited: &Audited<'_>) -> Result<(), SinkError> {
        let cipher = self.cipher.as_ref();
        let made = members(audited, now(), cipher, self.limits.content);
        let members = made.ok_or_else(|| {
            let why = "the system gives no random numbers to seal a line with";
            self.error(1, why.into())
        })?;
        self.bytes += members.len();
        match audited.told {
            true => self.told.push(members),
            false => self.pending.push(members),
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        let at_door = match self.keeps_door {
            true => self.door.bytes(),
            false => 0,
        };
        self.bytes + at_door
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        self.lock()
            .is_well()
            .map_err(|number| self.failed(number))?;
        let at_door = match self.keeps_door {
            true => self.door.take_out(),
            false => Vec::new(),
        };
        let mut parts: Vec<Part<'_>> = self.take_told(at_door).into_iter().collect();
        let pending = std::mem::take(&mut self.pending);
        let undecided = !pending.is_empty() && self.limits.decided_elsewhere;
        let witness = self.witness.take();
        match (&mut parts[..], pending.is_empty()) {
            (_, true) => {}
            // One cut has them all.
            ([(lines, _)], false) if !undecided => lines.extend(pending),
            (_, false) => parts.push((
                pending,
                match undecided {
                    true => Mark::Open(witness),
                    false => Mark::Cut,
                },
            )),
        }
        self.bytes = 0;
        if parts.is_empty() {
            return Ok(None);
        }
        let place = self.chain(parts)?;
        self.undecided = undecided.then_some(self.flushed.lines);
        Ok(Some(place))
    }

    fn witnessed(&mut self, witness: Option<CutWitness>) {
        self.witness = witness;
    }

    fn begun(
        &mut self,
        task: &TaskId,
        mark: Option<&contract::Mark>,
    ) -> Result<Option<SinkPosition>, SinkError> {
        let mut parts: Vec<Part<'_>> = Vec::new();
        // Of those that it does not tell, nothing will ever tell.
        self.lock().undecided.retain(|(of, witness)| {
            if witness.task != *task {
                return true;
            }
            parts.extend(
                witness
                    .says(mark)
                    .map(|held| (Vec::new(), end_of(*of, held))),
            );
            false
        });
        match parts.is_empty() {
            true => Ok(None),
            false => self.chain(parts).map(Some),
        }
    }

    fn settled(&mut self, held: bool) -> Result<Option<SinkPosition>, SinkError> {
        let Some(of) = self.undecided.take() else {
            return Ok(None);
        };
        self.chain(vec![(Vec::new(), end_of(of, held))]).map(Some)
    }

    fn logged(&mut self) {
        let mut open = self.lock();
        if open.logged.lines < self.flushed.lines {
            open.logged = self.flushed.clone();
        }
    }

    fn discard(&mut self) {
        self.pending.clear();
        self.bytes = self.told.iter().map(String::len).sum();
    }

    fn position(&self) -> Option<SinkPosition> {
        Some(self.place(&self.lock()))
    }

    fn end(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        let at_door = self.door.shut().ok_or_else(|| {
            let why = "the system gives no random numbers to seal a line with";
            self.error(1, why.into())
        })?;
        let told = self.take_told(at_door);
        let parts = told.into_iter().chain([(Vec::new(), Mark::End)]);
        self.chain(parts.collect()).map(Some)
    }

    fn sibling(&self) -> Box<dyn AuditLog> {
        Box::new(self.other())
    }
}

impl fmt::Debug for AuditFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditFile")
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}
