//! A chain that a crash left, and that later runs do not write: nothing of it is said of those, and nothing of those of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_contract::{AuditLog, FileLayer, Recovered, SinkPosition};
use tidegate_state::Disk;
use tidegate_state::audit::{
    Against, AuditFile, Committed, Verified, cut_short, gap, is_written, left, settle,
    verify as verify_chain,
};

use super::audit::{LIMITS, key, lines, open_in, verify, write};

/// A chain of three lines with their marks, of which the commit log has two; and half a line behind them.
struct Crashed {
    _place: tempfile::TempDir,
    path: PathBuf,
    layer: Arc<dyn FileLayer>,
    known: Vec<SinkPosition>,
}

fn crashed() -> Crashed {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let layer: Arc<dyn FileLayer> = Arc::new(Disk);
    let mut known = Vec::new();
    {
        let mut log = open_in(&layer, &path, LIMITS, &[]);
        for number in 0..3 {
            write(&mut log, number);
            let position = log.flush().unwrap();
            if number < 2 {
                known = position.into_iter().collect();
            }
        }
    }
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"{\"number\":7,\"before\":\"");
    std::fs::write(&path, bytes).unwrap();
    Crashed {
        _place: place,
        path,
        layer,
        known,
    }
}

fn recovered(known: &[SinkPosition]) -> Recovered {
    Recovered {
        sinks: known.to_vec(),
        ..Recovered::default()
    }
}

fn verified(path: &Path, logs: &[&[SinkPosition]]) -> Result<Verified, String> {
    let key = key();
    let committed = logs
        .iter()
        .filter_map(|known| Committed::of(&recovered(known), path));
    let committed: Vec<Committed> = committed.collect();
    let against = Against {
        keys: &[&key],
        committed: &committed,
        ..Against::default()
    };
    verify_chain(path, &against).map_err(|flaw| flaw.to_string())
}

/// As a run leaves it that ended in order.
fn ended(known: &SinkPosition) -> SinkPosition {
    SinkPosition {
        ended: true,
        ..known.clone()
    }
}

#[test]
fn what_a_crash_left_goes_when_the_chain_goes_on_whatever_has_ended_since() {
    let Crashed {
        _place,
        path,
        layer,
        mut known,
    } = crashed();
    // A run without it, which ended.
    known.extend(left(&known, None, 9));
    known.push(SinkPosition {
        sink: "out".into(),
        identity: "/out".into(),
        ..ended(&known[0])
    });
    assert!(!is_written(&recovered(&known), &path));
    let before = verified(&path, &[&known]).unwrap();
    let committed = before.committed.unwrap();
    assert_eq!((committed.number, committed.ended), (4, false));
    assert!(before.open.bytes > 0);
    // A copy of the state from before the crash says that a run had ended, of an earlier line.
    let mut copy = known.clone();
    let two = lines(&path)[..2].concat();
    copy[0] = SinkPosition {
        length: two.len() as u64,
        head: String::from_utf8(two[two.len() - 67..two.len() - 3].to_vec()).unwrap(),
        ..ended(&known[0])
    };
    for logs in [[&known[..], &copy[..]], [&copy, &known]] {
        let committed = verified(&path, &logs).unwrap().committed.unwrap();
        assert_eq!((committed.number, committed.ended), (4, false));
    }
    let mut log = open_in(&layer, &path, LIMITS, &known);
    assert_eq!(lines(&path).len(), 4);
    log.begin("bot", "sha256:1", 12, gap(&known, &path))
        .unwrap();
    verify(&path, None).unwrap();
    // Of one whose last run ended it is refused.
    drop(log);
    let position = ended(&known[0]);
    let refused = AuditFile::recover(&path, layer, Arc::new(key()), LIMITS, &[position]);
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("something else wrote to it"), "{said}");
}

#[test]
fn who_leaves_a_chain_takes_away_what_a_crash_left_of_it_and_nothing_else() {
    let Crashed {
        path,
        layer,
        known,
        _place,
    } = crashed();
    let other = path.with_file_name("other.jsonl");
    assert_eq!(cut_short(&known, Some(&path)), None, "it goes on");
    assert_eq!(cut_short(&[ended(&known[0])], None), None);
    let position = cut_short(&known, Some(&other)).unwrap();
    assert_eq!(Some(position), cut_short(&known, None));
    // The next file was begun, and one lies there that is another's.
    let next = path.with_file_name("audit.jsonl.2");
    std::fs::write(&next, "{\"number\":5,\"before\":\"12").unwrap();
    let whole = std::fs::read(&path).unwrap();
    for (head, length) in [
        ("1".repeat(64), position.length),
        (position.head.clone(), 3),
    ] {
        let wrong = SinkPosition {
            head,
            length,
            ..position.clone()
        };
        settle(layer.as_ref(), &wrong).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
    let settled = settle(layer.as_ref(), position).unwrap();
    assert_eq!(settled, ended(position));
    assert_eq!(lines(&path).len(), 4);
    assert_eq!(std::fs::metadata(&next).unwrap().len(), 0);
    std::fs::remove_file(&next).unwrap();
    let verified = verified(&path, &[std::slice::from_ref(&settled)]).unwrap();
    assert_eq!((verified.entries, verified.open.bytes), (2, 0));
    assert!(verified.committed.unwrap().ended);
    std::fs::write(&next, "precious\n").unwrap();
    settle(layer.as_ref(), &settled).unwrap();
    assert_eq!(std::fs::read(&next).unwrap(), b"precious\n");
    std::fs::remove_file(&path).unwrap();
    let said = settle(layer.as_ref(), &settled).unwrap_err().to_string();
    assert!(said.contains("not there"), "{said}");
    assert!(!path.exists(), "nothing is made in its place");
}

#[test]
fn a_chain_that_is_looked_at_elsewhere_is_any_of_those_that_the_log_knows() {
    let Crashed {
        _place,
        path,
        layer,
        mut known,
    } = crashed();
    drop(open_in(&layer, &path, LIMITS, &known));
    let other = path.with_file_name("other.jsonl");
    {
        let mut log = open_in(&layer, &other, LIMITS, &[]);
        for number in 0..5 {
            write(&mut log, number);
            let position = log.flush().unwrap();
            known.retain(|known| known.identity == path.display().to_string());
            known.extend(position);
        }
    }
    assert!(is_written(&recovered(&known), &other));
    assert!(!is_written(&recovered(&known), &path));
    let elsewhere = tempfile::tempdir().unwrap();
    for (chain, number) in [(&path, 4), (&other, 10)] {
        let copy = elsewhere.path().join("copy.jsonl");
        std::fs::copy(chain, &copy).unwrap();
        let committed = verified(&copy, &[&known]).unwrap().committed.unwrap();
        assert_eq!((committed.number, committed.ended), (number, false));
        assert!(is_written(&recovered(&known), &copy), "it may be that one");
        // Without its end it is none of them, and all are named.
        let lines = lines(&copy);
        std::fs::write(&copy, lines[..lines.len() - 2].concat()).unwrap();
        let said = verified(&copy, &[&known]).unwrap_err();
        for part in ["audit.jsonl", "other.jsonl", "another chain"] {
            assert!(said.contains(part), "{said}");
        }
    }
    assert_eq!(verified(&path, &[]).unwrap().committed, None);
}
