//! The audit: nothing in it can be altered, taken away, doubled, moved or put in without being found.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use tidegate_contract::{
    AuditContent, AuditLog, Audited, EntryCipher, FileLayer, SinkError, SinkPosition,
};
use tidegate_state::audit::{
    Against, AuditFile, AuditFlaw, AuditLimits, NotOpened, Verified, closed, opened,
    verify as verify_chain,
};
use tidegate_state::{Crash, Disk, MemoryDisk, StateKey};

pub(crate) const LIMITS: AuditLimits = AuditLimits {
    file: 1 << 20,
    content: 4 << 10,
    decided_elsewhere: false,
};
/// What anybody needs to check a log, as the reference has it.
const PYTHON: &str = include_str!("../../../../docs/src/reference/audit.md");
const SECRET: &str = "my name is Ada Lovelace";

pub(crate) fn key() -> StateKey {
    StateKey::from_hex(&"5a".repeat(32)).unwrap()
}

/// Text that is a JSON object.
pub(crate) struct Json(pub(crate) String);

impl AuditContent for Json {
    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(self.0.as_bytes())
    }
}

/// As somebody does who has the key and has noted this head.
pub(crate) fn verify(path: &Path, head: Option<&str>) -> Result<Verified, AuditFlaw> {
    let key = key();
    verify_chain(
        path,
        &Against {
            head,
            keys: &[&key],
            ..Against::default()
        },
    )
}

pub(crate) fn recover(
    layer: &Arc<dyn FileLayer>,
    path: &Path,
    known: &[SinkPosition],
) -> Result<AuditFile, SinkError> {
    let limits = AuditLimits {
        file: 1500,
        ..LIMITS
    };
    AuditFile::recover(path, layer.clone(), Arc::new(key()), limits, known)
}

pub(crate) fn open_in(
    layer: &Arc<dyn FileLayer>,
    path: &Path,
    limits: AuditLimits,
    known: &[SinkPosition],
) -> AuditFile {
    let cipher = Arc::new(key());
    AuditFile::recover(path, layer.clone(), cipher, limits, known).unwrap()
}

pub(crate) fn write(log: &mut AuditFile, number: u64) {
    let content = format!("{{\"prompt\":\"{SECRET} {number}\"}}");
    log.write(&Audited {
        record: &format!("in/0/{number}/0"),
        stage: "answer",
        attempt: 0,
        facts: "{\"caller\":null,\"hostile\":\"\\\",\\\"hash\\\":\\\"\\n{\"}",
        content: Some(&Json(content)),
        told: false,
    })
    .unwrap();
}

/// A log of so many lines in a directory, a few at a time.
pub(crate) fn written(lines: u64, limits: AuditLimits) -> (tempfile::TempDir, PathBuf, String) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let mut log = open_in(&layer, &path, limits, &[]);
    let mut other = log.other();
    for number in 0..lines {
        write(
            if number % 2 == 0 {
                &mut log
            } else {
                &mut other
            },
            number,
        );
        if number % 3 == 0 {
            log.flush().unwrap();
            other.flush().unwrap();
        }
    }
    log.flush().unwrap();
    other.flush().unwrap();
    log.logged();
    other.logged();
    let head = log.head();
    assert_eq!(&head, &other.head());
    (place, path, head.hash)
}

pub(crate) fn lines(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

fn flaw(path: &Path, lines: &[Vec<u8>]) -> String {
    std::fs::write(path, lines.concat()).unwrap();
    verify(path, None).unwrap_err().to_string()
}

#[test]
fn a_log_of_several_workers_is_one_chain_and_nothing_private_is_in_it_in_clear() {
    let (_place, path, head) = written(20, LIMITS);
    let verified = verify(&path, Some(&head)).unwrap();
    assert_eq!((verified.entries, verified.head.hash), (20, head));
    let mut records = BTreeSet::new();
    for line in lines(&path) {
        assert!(
            !line
                .windows(SECRET.len())
                .any(|found| found == SECRET.as_bytes())
        );
        let line: Value = serde_json::from_slice(&line).unwrap();
        if line.get("mark").is_some() {
            assert_eq!(opened(&line, &[]), Ok(None));
            continue;
        }
        let other = StateKey::random().unwrap();
        let content = opened(&line, &[&other, &key()]).unwrap().unwrap();
        assert!(content["prompt"].as_str().unwrap().starts_with(SECRET));
        let key = key().fingerprint();
        assert_eq!(opened(&line, &[&other]), Err(NotOpened::Key { key }));
        records.insert(line["record"].as_str().unwrap().to_owned());
    }
    assert_eq!(records.len(), 20);
}

#[test]
fn every_altered_byte_is_found_in_its_line() {
    let (_place, path, _) = written(3, LIMITS);
    let whole = lines(&path);
    for line in [0, 1] {
        for at in 0..whole[line].len() - 1 {
            for change in [0x01_u8, 0x20, 0x80] {
                let mut lines = whole.clone();
                lines[line][at] ^= change;
                let said = flaw(&path, &lines);
                let named = format!("line {}: altered", line + 1);
                assert!(said.contains(&named), "byte {at}: {said}");
            }
        }
    }
}

#[test]
fn lines_that_are_missing_doubled_moved_or_put_in_are_named() {
    let (_place, path, head) = written(9, LIMITS);
    let whole = lines(&path);
    let said = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines = whole.clone();
        change(&mut lines);
        flaw(&path, &lines)
    };
    let missing = said(&|lines| drop(lines.remove(4)));
    assert!(
        missing.contains("line 5: missing: line 5 of the chain"),
        "{missing}"
    );
    let missing = said(&|lines| drop(lines.drain(2..5)));
    assert!(
        missing.contains("line 3: missing: lines 3 to 5"),
        "{missing}"
    );
    let first = said(&|lines| drop(lines.remove(0)));
    assert!(first.contains("line 1: missing"), "{first}");
    let doubled = said(&|lines| lines.insert(4, lines[3].clone()));
    assert!(doubled.contains("line 5: doubled or moved"), "{doubled}");
    let swapped = said(&|lines| lines.swap(4, 5));
    assert!(swapped.contains("line 5: missing"), "{swapped}");
    let (_other, foreign, _) = written(9, LIMITS);
    let foreign = self::lines(&foreign);
    // A whole line of another chain, with a right hash of its own.
    let replaced = said(&|lines| lines[4] = foreign[4].clone());
    assert!(
        replaced.contains("line 5: altered: line 5 of the chain follows another"),
        "{replaced}"
    );
    // Whole lines missing at the end are only known to who has noted the head.
    let end = whole.len() - 2;
    std::fs::write(&path, whole[..end].concat()).unwrap();
    let verified = verify(&path, None).unwrap();
    assert_eq!(verified.head.lines + verified.open.lines, end as u64);
    assert!(matches!(
        verify(&path, Some(&head)),
        Err(AuditFlaw::Head { .. })
    ));
    // A head from before is found too.
    let early: Value = serde_json::from_slice(&whole[3]).unwrap();
    assert!(verify(&path, early["hash"].as_str()).is_ok());
}

#[test]
fn the_chain_goes_on_over_files_and_over_lives() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let limits = AuditLimits {
        file: 1500,
        ..LIMITS
    };
    let mut known = Vec::new();
    for life in 0..6 {
        let mut log = open_in(&layer, &path, limits, &known);
        for number in 0..4 {
            write(&mut log, life * 4 + number);
            known.extend(log.flush().unwrap());
        }
    }
    let verified = verify(&path, None).unwrap();
    assert_eq!(verified.entries, 24);
    let files: Vec<PathBuf> = verified.files.into_iter().map(|(path, _)| path).collect();
    assert!(files.len() > 3, "{files:?}");
    // One that stands in the place of another is found by its first line.
    std::fs::rename(&files[2], &files[1]).unwrap();
    for (later, place) in files[3..].iter().zip(&files[2..]) {
        std::fs::rename(later, place).unwrap();
    }
    let said = verify(&path, None).unwrap_err().to_string();
    assert!(said.contains("audit.jsonl.2, line 1: missing"), "{said}");
}

#[test]
fn a_file_that_is_gone_is_found_by_verify_and_by_the_next_run() {
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let limits = AuditLimits {
        file: 1500,
        ..LIMITS
    };
    let chain = || {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        let mut known = Vec::new();
        {
            let mut log = open_in(&layer, &path, limits, &known);
            for number in 0..16 {
                write(&mut log, number);
                known.extend(log.flush().unwrap());
            }
        }
        let files = verify(&path, None).unwrap().files;
        let files: Vec<PathBuf> = files.into_iter().map(|(path, _)| path).collect();
        (place, path, known, files)
    };
    let (.., files) = chain();
    let last = files.len() - 1;
    assert!(last >= 3, "{files:?}");
    for gone in 0..=last {
        let (_place, path, known, files) = chain();
        // Beside them lies what is none of them.
        std::fs::write(path.with_file_name("audit.jsonl.old"), "").unwrap();
        std::fs::write(path.with_file_name("audit.jsonl.02"), "").unwrap();
        std::fs::remove_file(&files[gone]).unwrap();
        let verified = verify(&path, None);
        let cipher = Arc::new(key());
        let run = AuditFile::recover(&path, layer.clone(), cipher, limits, &known);
        match gone {
            // Where those before it were archived: the chain then begins after a head that is known.
            0 => {
                assert!(verified.is_err());
                run.unwrap();
            }
            // The end is gone: the commit log knows it, and whoever has noted the head.
            gone if gone == last => {
                verified.unwrap();
                let said = run.unwrap_err().to_string();
                assert!(
                    said.contains("missing") || said.contains("taken away"),
                    "{said}"
                );
            }
            gone => {
                let missing = format!("audit.jsonl.{} is missing", gone + 1);
                let said = verified.unwrap_err().to_string();
                assert!(said.contains(&missing), "{said}");
                let missing = format!("audit.jsonl.{}: it is missing", gone + 1);
                let said = run.unwrap_err().to_string();
                assert!(said.contains(&missing), "{said}");
            }
        }
    }
}

/// Puts something at a path.
#[cfg(unix)]
type Making<'a> = &'a dyn Fn(&Path);

/// A chain of several files, and what the commit log has of it.
#[cfg(unix)]
fn chain_of_files() -> (tempfile::TempDir, PathBuf, Vec<SinkPosition>, Vec<PathBuf>) {
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let mut known: Vec<SinkPosition> = Vec::new();
    let mut log = recover(&layer, &path, &known).unwrap();
    for number in 0..24 {
        write(&mut log, number);
        let position = log.flush().unwrap().unwrap();
        // As the commit log does: the last that it was told of each file.
        known.retain(|known| known.identity != position.identity);
        known.push(position);
    }
    let files = verify(&path, None).unwrap().files;
    let files: Vec<PathBuf> = files.into_iter().map(|(path, _)| path).collect();
    assert!(files.len() >= 6, "{files:?}");
    (place, path, known, files)
}

#[cfg(unix)]
fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[cfg(unix)]
#[test]
fn a_run_does_not_begin_where_a_file_of_the_chain_is_none_any_more_or_was_cut_short() {
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let fifo = |path: &Path| make_fifo(path);
    let directory = |path: &Path| std::fs::create_dir(path).unwrap();
    let device = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let empty = |path: &Path| std::fs::write(path, "").unwrap();
    let short = |path: &Path| std::fs::write(path, "{\"number\":1").unwrap();
    let kinds: [(Making<'_>, &str); 5] = [
        (&fifo, "is a pipe"),
        (&directory, "is a directory"),
        (&device, "is a device"),
        (&empty, "has 0 bytes"),
        (&short, "has 11 bytes"),
    ];
    let (_place, path, known, files) = chain_of_files();
    for (make, named) in kinds {
        for file in &files {
            let bytes = std::fs::read(file).unwrap();
            std::fs::remove_file(file).unwrap();
            make(file);
            let said = recover(&layer, &path, &known).unwrap_err().to_string();
            let name = format!("{}: it {named}", file.display());
            assert!(said.contains(&name), "{name}, {said}");
            let gone = std::fs::remove_file(file).or_else(|_| std::fs::remove_dir(file));
            gone.unwrap();
            std::fs::write(file, bytes).unwrap();
        }
    }
    drop(recover(&layer, &path, &known).unwrap());
    // Also where the commit log says nothing of that file any more.
    std::fs::write(&files[1], "").unwrap();
    let said = recover(&layer, &path, &known[known.len() - 1..]);
    let said = said.unwrap_err().to_string();
    assert!(said.contains("audit.jsonl.2: it has 0 bytes"), "{said}");
}

#[cfg(unix)]
#[test]
fn the_last_two_files_are_needed_and_those_before_them_can_be_archived() {
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let (_place, path, known, files) = chain_of_files();
    let (archived, last_two) = files.split_at(files.len() - 2);
    for file in archived {
        std::fs::remove_file(file).unwrap();
    }
    recover(&layer, &path, &known).unwrap();
    std::fs::remove_file(&last_two[0]).unwrap();
    let said = recover(&layer, &path, &known).unwrap_err().to_string();
    let missing = format!("{}: it is missing", last_two[0].display());
    assert!(said.contains(&missing), "{said}");
    assert!(said.contains("not the last two"), "{said}");
    assert!(!last_two[0].exists());
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_named_as_what_it_is_and_nobody_waits_for_it() {
    let (_place, path, _) = written(4, LIMITS);
    let next = path.with_file_name("audit.jsonl.2");
    let fifo = || make_fifo(&next);
    let socket = || drop(std::os::unix::net::UnixListener::bind(&next).unwrap());
    let device = || std::os::unix::fs::symlink("/dev/null", &next).unwrap();
    let directory = || std::fs::create_dir(&next).unwrap();
    let kinds: [(&dyn Fn(), &str); 4] = [
        (&fifo, "audit.jsonl.2 is a pipe"),
        (&socket, "audit.jsonl.2 is a socket"),
        (&device, "audit.jsonl.2 is a device"),
        (&directory, "audit.jsonl.2 is a directory"),
    ];
    for (make, named) in kinds {
        make();
        let said = verify(&path, None).unwrap_err().to_string();
        assert!(said.contains(named), "{said}");
        let said = closed(&path, &[]).unwrap_err().to_string();
        assert!(said.contains(named), "{said}");
        let gone = std::fs::remove_file(&next).or_else(|_| std::fs::remove_dir(&next));
        gone.unwrap();
    }
    verify(&path, None).unwrap();
}

#[cfg(unix)]
#[test]
fn what_is_no_file_at_the_next_name_is_named_when_the_run_begins_or_comes_to_it() {
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let (_place, path, known, files) = chain_of_files();
    let next = path.with_file_name(format!("audit.jsonl.{}", files.len() + 1));
    make_fifo(&next);
    let named = format!("{}: it is a pipe", next.display());
    let said = recover(&layer, &path, &known).unwrap_err().to_string();
    assert!(said.contains(&named), "{said}");
    std::fs::remove_file(&next).unwrap();
    let mut log = recover(&layer, &path, &known).unwrap();
    make_fifo(&next);
    let said = (0..8).find_map(|number| {
        write(&mut log, number);
        log.flush().err()
    });
    let said = said.unwrap().to_string();
    assert!(said.contains(&named), "{said}");
}

#[test]
fn a_file_of_somebody_elses_with_the_name_of_the_next_one_is_left_as_it_is() {
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let mut known = Vec::new();
    {
        let mut log = open_in(&layer, &path, LIMITS, &known);
        write(&mut log, 0);
        known.extend(log.flush().unwrap());
    }
    let next = place.path().join("audit.jsonl.2");
    std::fs::write(&next, "precious\n").unwrap();
    let cipher = Arc::new(key());
    let refused = AuditFile::recover(&path, layer, cipher, LIMITS, &known);
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("audit.jsonl.2") && said.contains("take it away"),
        "{said}"
    );
    assert_eq!(std::fs::read(&next).unwrap(), b"precious\n");
}

#[test]
fn what_no_cut_has_is_taken_away_and_the_chain_goes_on_from_the_last_one() {
    let limits = AuditLimits {
        file: 900,
        ..LIMITS
    };
    let path = Path::new("/out/audit.jsonl");
    for crash in 1..24 {
        for kept in [0, 40, usize::MAX] {
            for crash in [
                Crash::BeforeSync(crash),
                Crash::AfterSync(crash),
                Crash::TornAppend(crash),
            ] {
                let disk = MemoryDisk::new();
                disk.crash_at(crash);
                let mut known: Vec<SinkPosition> = Vec::new();
                let mut committed = 0;
                let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
                let cipher = Arc::new(key());
                if let Ok(mut log) = AuditFile::recover(path, layer, cipher, limits, &known) {
                    known.extend(log.position());
                    for number in 0..10 {
                        write(&mut log, number);
                        match log.flush() {
                            Ok(position) => {
                                known.extend(position);
                                committed += 1;
                            }
                            Err(_) => break,
                        }
                    }
                }
                if !disk.has_crashed() {
                    continue;
                }
                let after = disk.restart(kept);
                let layer: Arc<dyn FileLayer> = Arc::new(after.clone());
                let mut log = open_in(&layer, path, limits, &known);
                assert_eq!(log.head().lines, 2 * committed, "{crash:?}, {kept}");
                for number in committed..12 {
                    write(&mut log, number);
                    log.flush().unwrap();
                }
                let copy = tempfile::tempdir().unwrap();
                let files = (2..20).map(|number| format!("{}.{number}", path.display()));
                for file in std::iter::once(path.to_owned()).chain(files.map(PathBuf::from)) {
                    let bytes = layer.read(&file).unwrap().unwrap_or_default();
                    if !bytes.is_empty() {
                        std::fs::write(copy.path().join(file.file_name().unwrap()), bytes).unwrap();
                    }
                }
                let verified = verify(&copy.path().join("audit.jsonl"), None).unwrap();
                assert_eq!(verified.entries, 12, "{crash:?}, {kept}");
            }
        }
    }
}

#[test]
fn a_full_disk_and_a_file_that_somebody_writes_end_it() {
    let disk = MemoryDisk::new();
    let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
    let mut log = open_in(&layer, Path::new("/audit.jsonl"), LIMITS, &[]);
    write(&mut log, 1);
    log.flush().unwrap();
    disk.limit(Some(10));
    write(&mut log, 2);
    assert!(log.flush().is_err());
    disk.limit(None);
    assert!(log.flush().is_err(), "what is on the disk is not known");
    let (_place, path, _) = written(3, LIMITS);
    let real: Arc<dyn FileLayer> = Arc::new(Disk);
    let refused = AuditFile::recover(&path, real, Arc::new(key()), LIMITS, &[]);
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("something else wrote to it"), "{said}");
}

#[test]
fn a_content_beyond_the_limit_is_kept_as_its_length_and_a_sealed_hash() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let mut log = open_in(&layer, &path, LIMITS, &[]);
    let content = format!("{{\"prompt\":\"{}\"}}", "x".repeat(LIMITS.content));
    let audited = Audited {
        record: "in/0/0/0",
        stage: "answer",
        attempt: 0,
        facts: "{}",
        content: Some(&Json(content.clone())),
        told: false,
    };
    log.write(&audited).unwrap();
    log.flush().unwrap();
    let line: Value = serde_json::from_slice(&lines(&path)[0]).unwrap();
    let told = line["content"]["too_long"].as_u64().unwrap();
    assert!(told as usize >= content.len() && told as usize <= content.len() * 9 / 8);
    assert_eq!(line["content"]["limit"], LIMITS.content);
    assert!(line["content"]["sealed_sha256"].is_string());
    assert!(std::fs::metadata(&path).unwrap().len() < 1500);
}

#[test]
fn ten_lines_of_python_see_the_same() {
    let script = PYTHON.split("```python\n").nth(1).unwrap();
    let script = script.split("```").next().unwrap();
    let (_place, path, head) = written(
        12,
        AuditLimits {
            file: 1500,
            ..LIMITS
        },
    );
    let verified = verify(&path, None).unwrap();
    let run = |files: &[PathBuf]| {
        let output = Command::new("python3")
            .args(["-c", script])
            .args(files)
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    };
    let files: Vec<PathBuf> = verified.files.into_iter().map(|(path, _)| path).collect();
    let number = verified.head.lines;
    assert_eq!(run(&files), (true, format!("{number} {head}")));
    let mut altered = lines(&files[1]);
    altered[0][60] ^= 1;
    std::fs::write(&files[1], altered.concat()).unwrap();
    assert!(!run(&files).0);
}
