//! The marks of an audit: only who has the key can close lines, and the chain says what became of cuts, runs and gaps.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tidegate_contract::{
    AuditLog, Audited, CutWitness, DoorShut, EntryCipher, FileLayer, Mark, Recovered, Shown,
    SinkPosition, TaskId,
};
use tidegate_state::audit::{
    Against, AuditHead, AuditLimits, Committed, NotOpened, OpenEnd, closed, gap, left, opened,
    told, verify as verify_chain,
};
use tidegate_state::{Disk, StateKey};

use super::audit::{Json, LIMITS, key, lines, open_in, recover, verify, write, written};

fn place() -> (tempfile::TempDir, PathBuf, Arc<dyn FileLayer>) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    (place, path, Arc::new(Disk))
}

fn parsed(path: &Path) -> Vec<Value> {
    let lines = lines(path);
    let parse = |line: &Vec<u8>| serde_json::from_slice(line).unwrap();
    lines.iter().map(parse).collect()
}

/// The lines with another text in one of them, and everything behind it chained anew: as somebody can without the key.
fn rewritten(lines: &[Vec<u8>], from: &str, to: &str) -> Vec<u8> {
    let (mut out, mut before, mut changed) = (Vec::new(), "0".repeat(64), false);
    for line in lines {
        let line = std::str::from_utf8(line).unwrap();
        let (body, _) = line.rsplit_once(",\"hash\":").unwrap();
        let old: Value = serde_json::from_str(line).unwrap();
        let mut body = body.replacen(old["before"].as_str().unwrap(), &before, 1);
        if !changed && body.contains(from) {
            (body, changed) = (body.replacen(from, to, 1), true);
        }
        let hash = Sha256::digest(body.as_bytes());
        before = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        out.extend(format!("{body},\"hash\":\"{before}\"}}\n").into_bytes());
    }
    assert!(changed);
    out
}

#[test]
fn who_rewrites_a_suffix_without_the_key_is_found_by_who_has_it_and_by_the_next_run() {
    let (_place, path, layer) = place();
    let mut known = Vec::new();
    {
        let mut log = open_in(&layer, &path, LIMITS, &[]);
        for number in 0..6 {
            write(&mut log, number);
            known.extend(log.flush().unwrap());
        }
    }
    let forged = rewritten(&lines(&path), "\"caller\":null", "\"caller\":\"eve\"");
    std::fs::write(&path, &forged).unwrap();
    // The hashes are right: they have no key.
    verify_chain(&path, &Against::default()).unwrap();
    let said = verify(&path, None).unwrap_err().to_string();
    assert!(said.contains("line 2: forged"), "{said}");
    // It has just as many bytes as before only if the change has: the head tells it all the same.
    let whole = rewritten(&lines(&path), "\"caller\":\"eve\"", "\"caller\":null");
    std::fs::write(&path, whole).unwrap();
    verify(&path, None).unwrap();
    drop(recover(&layer, &path, &known).unwrap());
    let equal = rewritten(&lines(&path), "\"caller\":null", "\"caller\":1234");
    assert_eq!(equal.len() as u64, known.last().unwrap().length);
    std::fs::write(&path, &equal).unwrap();
    let said = recover(&layer, &path, &known).unwrap_err().to_string();
    assert!(said.contains("another than the last cut has"), "{said}");
    assert_eq!(
        std::fs::read(&path).unwrap(),
        equal,
        "nothing is taken away"
    );
}

#[test]
fn who_rewrites_a_suffix_and_leaves_its_marks_out_is_found_by_what_the_commit_log_has() {
    let (_place, path, layer) = place();
    let mut sinks = Vec::new();
    let mut log = open_in(&layer, &path, LIMITS, &[]);
    for number in 0..6 {
        write(&mut log, number);
        sinks.extend(log.flush().unwrap());
    }
    let recovered = Recovered {
        sinks: sinks.clone(),
        ..Recovered::default()
    };
    let committed = [Committed::of(&recovered, &path).unwrap()];
    assert!(committed[0].is_in_place());
    let against = |path: &Path, committed: &[Committed]| {
        let key = key();
        let against = Against {
            keys: &[&key],
            committed,
            ..Against::default()
        };
        verify_chain(path, &against).map_err(|flaw| flaw.to_string())
    };
    let all = lines(&path);
    assert_eq!(against(&path, &committed).unwrap().entries, 6);
    assert_eq!(closed(&path, &[&key()]).unwrap(), 12);
    // Line 5 and all behind it anew, without marks: nothing of it is signed.
    let (before, behind) = all.split_at(4);
    let behind = behind.iter().filter(|line| {
        let line: Value = serde_json::from_slice(line).unwrap();
        line.get("mark").is_none()
    });
    let kept: Vec<Vec<u8>> = before.iter().chain(behind).cloned().collect();
    let numbered = kept.iter().enumerate().map(|(index, line)| {
        let line = String::from_utf8(line.clone()).unwrap();
        let old: Value = serde_json::from_str(&line).unwrap();
        let from = format!("{{\"number\":{}", old["number"]);
        let to = format!("{{\"number\":{}", index + 1);
        line.replacen(&from, &to, 1).into_bytes()
    });
    let numbered: Vec<Vec<u8>> = numbered.collect();
    let forged = rewritten(&numbered, "in/0/3/0", "in/0/9/0");
    std::fs::write(&path, &forged).unwrap();
    let open = verify(&path, None).unwrap().open;
    assert_eq!(open.lines, 4, "as a run leaves it that was cut short");
    let said = against(&path, &committed).unwrap_err();
    assert!(said.contains(&sinks.last().unwrap().head), "{said}");
    assert_eq!(closed(&path, &[&key()]).unwrap(), 4);
    // The end cut off behind a mark.
    std::fs::write(&path, all[..10].concat()).unwrap();
    verify(&path, None).unwrap();
    let said = against(&path, &committed).unwrap_err();
    assert!(said.contains("lines are missing at its end"), "{said}");
    // A copy elsewhere is held against the same line.
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("copy.jsonl");
    std::fs::write(&copy, all.concat()).unwrap();
    let committed = [Committed::of(&recovered, &copy).unwrap()];
    assert!(!committed[0].is_in_place());
    against(&copy, &committed).unwrap();
    std::fs::write(&copy, all[..10].concat()).unwrap();
    against(&copy, &committed).unwrap_err();
}

#[test]
fn a_mark_of_another_key_or_another_place_is_none() {
    let (_place, path, head) = written(4, LIMITS);
    let other = StateKey::random().unwrap();
    let against = |keys: &[&dyn EntryCipher]| {
        let against = Against {
            head: Some(&head),
            keys,
            ..Against::default()
        };
        verify_chain(&path, &against).map_err(|flaw| flaw.to_string())
    };
    against(&[&other, &key()]).unwrap();
    let said = against(&[&other]).unwrap_err();
    assert!(said.contains(&key().fingerprint()), "{said}");
    // A code moved from one mark to another.
    let all = parsed(&path);
    let marks: Vec<&Value> = all.iter().filter(|line| line["mark"] == "cut").collect();
    let (one, two) = (
        marks[0]["mac"].as_str().unwrap(),
        marks[1]["mac"].as_str().unwrap(),
    );
    std::fs::write(&path, rewritten(&lines(&path), one, two)).unwrap();
    let said = verify(&path, None).unwrap_err().to_string();
    assert!(said.contains("forged"), "{said}");
}

#[test]
fn a_content_is_bound_to_its_question() {
    let (_place, path, _) = written(4, LIMITS);
    let line = parsed(&path).swap_remove(0);
    let key = key();
    assert!(opened(&line, &[&key]).unwrap().is_some());
    for (name, other) in [
        ("record", Value::from("in/0/9/0")),
        ("stage", "other".into()),
        ("attempt", 1.into()),
    ] {
        let mut line = line.clone();
        line[name] = other;
        assert_eq!(opened(&line, &[&key]), Err(NotOpened::Altered), "{name}");
    }
    // How long an answer is cannot be seen.
    let sealed = |content: &str| {
        let (_place, path, layer) = place();
        let mut log = open_in(&layer, &path, LIMITS, &[]);
        let audited = Audited {
            record: "in/0/0/0",
            stage: "answer",
            attempt: 0,
            facts: "{}",
            content: Some(&Json(format!("{{\"label\":\"{content}\"}}"))),
            told: false,
        };
        log.write(&audited).unwrap();
        log.flush().unwrap();
        parsed(&path)[0]["content"]["sealed"]
            .as_str()
            .unwrap()
            .len()
    };
    assert_eq!(sealed("yes"), sealed("no, and not for a long time to come"));
}

#[test]
fn where_cuts_are_decided_elsewhere_the_chain_says_what_became_of_them() {
    let (_place, path, layer) = place();
    let limits = AuditLimits {
        decided_elsewhere: true,
        ..LIMITS
    };
    let mut log = open_in(&layer, &path, limits, &[]);
    for (number, held) in [(1, true), (2, false)] {
        write(&mut log, number);
        log.flush().unwrap();
        log.settled(held).unwrap().unwrap();
    }
    assert_eq!(log.settled(true).unwrap(), None, "nothing was flushed");
    // What a caller was told is not taken back with a cut.
    let told = Audited {
        record: "chat/0/7/0",
        stage: "answer",
        attempt: 0,
        facts: "{}",
        content: None,
        told: true,
    };
    log.write(&told).unwrap();
    write(&mut log, 3);
    log.discard();
    log.flush().unwrap();
    assert_eq!(log.settled(false).unwrap(), None);
    verify(&path, None).unwrap();
    let all = parsed(&path);
    let marks = all
        .iter()
        .map(|line| (line["mark"].as_str(), line["of"].as_u64()));
    let marks: Vec<_> = marks.collect();
    assert_eq!(
        marks,
        [
            (None, None),
            (Some("open"), None),
            (Some("held"), Some(2)),
            (None, None),
            (Some("open"), None),
            (Some("taken back"), Some(5)),
            (None, None),
            (Some("cut"), None),
        ]
    );
    assert_eq!(all[6]["record"], "chat/0/7/0");
}

#[test]
fn runs_and_gaps_are_in_the_chain_and_what_comes_in_at_the_door_is_until_the_run_ends() {
    let (_place, path, layer) = place();
    let mut known: Vec<SinkPosition> = Vec::new();
    let repeated = |record| Audited {
        record,
        stage: "gateway",
        attempt: 0,
        facts: "{\"outcome\":\"repeated\"}",
        content: None,
        told: true,
    };
    {
        let mut log = open_in(&layer, &path, LIMITS, &known);
        known.push(log.begin("bot", "sha256:1", 3, gap(&known, &path)).unwrap());
        let (door, mut other, mut first) = (log.door(), log.other(), log.doorkeeper());
        door.take(&repeated("chat/0/1/0")).unwrap();
        assert_eq!((other.pending(), other.flush().unwrap()), (0, None));
        assert!(first.pending() > 0);
        known.extend(first.flush().unwrap());
        assert_eq!(first.pending(), 0);
        door.take(&repeated("chat/0/2/0")).unwrap();
        known.extend(log.end().unwrap());
        assert_eq!(door.take(&repeated("chat/0/3/0")), Err(DoorShut::Ended));
    }
    assert_eq!(left(&[], None, 5), None, "it never had one");
    known.extend(left(&known, None, 9));
    assert_eq!(left(&known, None, 12), None, "it began at 9");
    let mut log = open_in(&layer, &path, LIMITS, &known);
    log.begin("bot", "sha256:2", 20, gap(&known, &path))
        .unwrap();
    let told = told(&known, &path).unwrap();
    known.retain(|known| known.sink != told.sink);
    known.push(told);
    assert_eq!(gap(&known, &path), None);
    verify(&path, None).unwrap();
    let all = parsed(&path);
    let marks: Vec<Option<&str>> = all.iter().map(|line| line["mark"].as_str()).collect();
    let (none, cut) = (None, Some("cut"));
    let begin = Some("begin");
    assert_eq!(
        marks,
        [begin, none, cut, none, cut, Some("end"), Some("gap"), begin]
    );
    assert_eq!(
        (&all[0]["pipeline"], &all[0]["digest"]),
        (&"bot".into(), &"sha256:1".into())
    );
    assert_eq!(
        (&all[6]["from_cut"], &all[6]["to_cut"]),
        (&9.into(), &20.into())
    );
}

/// A question beside the stream; nothing where it has closed.
struct Beside(&'static str, Mutex<Option<()>>);

impl Beside {
    fn new(name: &'static str) -> Arc<Beside> {
        Arc::new(Beside(name, Mutex::new(Some(()))))
    }

    fn line(&self, outcome: &'static str) -> Audited<'_> {
        Audited {
            record: self.0,
            stage: "",
            attempt: 0,
            facts: outcome,
            content: None,
            told: true,
        }
    }
}

impl Shown for Beside {
    fn close(&self, line: &mut dyn FnMut(&Audited<'_>)) {
        if self.1.lock().unwrap().take().is_some() {
            line(&self.line("{\"outcome\":\"left\"}"));
        }
    }
}

#[test]
fn what_is_shown_while_it_is_made_has_its_line_however_it_ends_also_where_the_run_ends_first() {
    let (_place, path, layer) = place();
    let mut log = open_in(&layer, &path, LIMITS, &[]);
    let door = log.door();
    let names = ["ended", "unasked", "under way", "closed"];
    let questions = names.map(Beside::new);
    let places: Vec<u64> = questions
        .iter()
        .map(|question| door.begin(question.clone()).unwrap())
        .collect();
    let answered = questions[0].line("{\"outcome\":\"answered\"}");
    door.end(places[0], Some(&answered)).unwrap();
    door.end(places[1], None).unwrap();
    // One that the door has, and that will not be written twice.
    questions[3].1.lock().unwrap().take();
    log.end().unwrap();
    let late = questions[2].line("{}");
    assert_eq!(door.end(places[2], Some(&late)), Err(DoorShut::Ended));
    assert!(questions[2].1.lock().unwrap().is_none(), "it is told");
    assert_eq!(door.begin(Beside::new("late")), Err(DoorShut::Ended));
    let all = parsed(&path);
    let said = all.iter().map(|line| (&line["record"], &line["outcome"]));
    let said: Vec<_> = said.filter(|(record, _)| !record.is_null()).collect();
    assert_eq!(
        said,
        [
            (&"ended".into(), &"answered".into()),
            (&"under way".into(), &"left".into())
        ]
    );
    verify(&path, None).unwrap();
}

#[test]
fn what_became_of_cuts_of_a_run_that_was_cut_short_is_said_by_the_next_as_far_as_it_can_be_known() {
    let (_place, path, layer) = place();
    let limits = AuditLimits {
        decided_elsewhere: true,
        ..LIMITS
    };
    let task = |partition| TaskId {
        source: "in".into(),
        partition,
    };
    let mut known = Vec::new();
    {
        let mut log = open_in(&layer, &path, limits, &known);
        for partition in 0..4 {
            let mut worker = log.other();
            worker.witnessed(Some(CutWitness {
                task: task(partition),
                life: "former".into(),
                cut: 7,
                before: Some("before".into()),
            }));
            write(&mut worker, u64::from(partition));
            known.extend(worker.flush().unwrap());
            log = worker;
        }
    }
    let undecided = || verify(&path, None).unwrap().undecided;
    assert_eq!(undecided(), [2, 4, 6, 8]);
    let mark = |life: &str, cut| Mark {
        life: life.into(),
        cut,
        ..Mark::default()
    };
    {
        let mut log = open_in(&layer, &path, limits, &known);
        assert_eq!(log.begun(&task(9), None).unwrap(), None);
        // One that holds, one that never came to be, and one behind which somebody else has gone on.
        known.extend(log.begun(&task(0), Some(&mark("former", 7))).unwrap());
        known.extend(log.begun(&task(1), Some(&mark("before", 3))).unwrap());
        assert_eq!(log.begun(&task(2), Some(&mark("other", 9))).unwrap(), None);
    }
    assert_eq!(undecided(), [6, 8]);
    // What a run does not come to, the one behind it does.
    let mut log = open_in(&layer, &path, limits, &known);
    log.begun(&task(3), Some(&mark("former", 6)))
        .unwrap()
        .unwrap();
    assert_eq!(log.begun(&task(0), Some(&mark("former", 7))).unwrap(), None);
    let said = parsed(&path).split_off(8);
    let said: Vec<_> = (said.iter())
        .map(|line| (line["mark"].as_str().unwrap(), line["of"].as_u64().unwrap()))
        .collect();
    assert_eq!(said, [("held", 2), ("taken back", 4), ("taken back", 8)]);
    assert_eq!(undecided(), [6]);
}

#[test]
fn what_is_being_written_is_no_flaw_and_no_head_either() {
    let (_place, path, layer) = place();
    let mut log = open_in(&layer, &path, LIMITS, &[]);
    write(&mut log, 1);
    log.flush().unwrap();
    assert_eq!(log.head().lines, 0, "no cut has it yet");
    log.logged();
    assert_eq!(log.head().lines, 2);
    write(&mut log, 2);
    log.flush().unwrap();
    let whole = std::fs::read(&path).unwrap();
    let closed = verify(&path, None).unwrap();
    assert_eq!(closed.open, OpenEnd::default());
    let lengths: Vec<usize> = lines(&path).iter().map(Vec::len).collect();
    let held = lengths[0] + lengths[1];
    for end in held + 1..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        let verified = verify(&path, Some(&log.head().hash)).unwrap();
        assert_eq!(verified.head, log.head(), "{end}");
        let OpenEnd { lines, bytes } = verified.open;
        let rest = end - held;
        let expected = if rest < lengths[2] {
            (0, rest)
        } else {
            (1, rest - lengths[2])
        };
        assert_eq!((lines, bytes as usize), expected, "{end}");
    }
}

#[test]
fn files_from_the_first_on_can_be_archived_where_the_line_is_known_that_the_rest_follows() {
    let limits = AuditLimits {
        file: 1500,
        ..LIMITS
    };
    let (_place, path, head) = written(16, limits);
    let verified = verify(&path, Some(&head)).unwrap();
    assert!(verified.files.len() > 3);
    let (archived, last) = &verified.files[1];
    let (_, before) = &verified.files[0];
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(archived).unwrap();
    let said = verify(&path, None).unwrap_err().to_string();
    assert!(said.contains("--after NUMBER:HASH"), "{said}");
    let after = |after: &AuditHead| {
        let key = key();
        let against = Against {
            head: Some(&head),
            after: Some(after),
            keys: &[&key],
            ..Against::default()
        };
        verify_chain(&path, &against)
    };
    assert_eq!(after(last).unwrap().head.hash, head);
    assert!(after(before).is_err());
    let mut later = last.clone();
    later.lines += 1;
    let said = after(&later).unwrap_err().to_string();
    let begins = format!("begins with line {} of the chain", last.lines + 1);
    assert!(said.contains(&begins) && said.contains("--after"), "{said}");
    let mut other = last.clone();
    other.hash = "1".repeat(64);
    assert!(after(&other).is_err());
}

#[test]
fn of_a_chain_without_marks_the_first_line_is_named_that_nothing_closes() {
    let limits = AuditLimits {
        file: 1500,
        ..LIMITS
    };
    let (_place, path, _) = written(16, limits);
    let first = lines(&path);
    let marks = |line: &[u8]| serde_json::from_slice::<Value>(line).unwrap()["mark"].is_string();
    let last = first.iter().rposition(|line| !marks(line)).unwrap();
    // The marks behind its last entries are gone, and those files are there that came after.
    std::fs::write(&path, first[..=last].concat()).unwrap();
    let opens = first[..=last].iter().rposition(|line| marks(line));
    let opens = opens.map_or(0, |mark| mark + 1) + 1;
    let said = verify(&path, None).unwrap_err().to_string();
    assert!(
        said.contains(&format!("audit.jsonl, line {opens}: no mark closes it")),
        "{said}"
    );
}
