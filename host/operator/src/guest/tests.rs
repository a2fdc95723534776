//! Batches that no host makes today, given to what each language's toolchain has built: such as a later version may make,
//! and such as are broken. The operators are those of `plugin-sdk/conformance`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_record::layout::{BATCH_HEADER, ENTRY};
use tidegate_record::{BatchBuilder, NewRecord, Outcome, OutcomesView, RecordId};

use super::*;
use crate::breaker::Breaker;
use crate::engine::{Engine, EngineOptions};
use crate::failure::Class;
use crate::grants::Grants;
use crate::limits::Limits;
use crate::revision::SlotContext;
use crate::shared::Shared;

const LANGUAGES: [&str; 5] = ["c", "go", "js", "python", "rust"];
const CLOCK: i64 = 1_700_000_000_000_000;
/// The named outputs of the operator.
const OUTPUTS: u16 = 16;

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    )
}

/// What is compiled once is kept.
static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    Engine::new(EngineOptions {
        cache_dir: Some(target().join("conformance")),
        ..EngineOptions::default()
    })
    .unwrap()
});

/// The conformance operator of a language.
fn revision(language: &str) -> Revision {
    let path = target().join(format!("operators/conformance-{language}.wasm"));
    let shown = path.display().to_string();
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{shown}: {error}; run `cargo xtask operators` first"));
    let patient = Duration::from_secs(120);
    let context = SlotContext {
        grants: Grants::ALL,
        limits: Limits {
            deadline: patient,
            init_deadline: patient,
            ..Limits::default()
        },
        configured: "{}".into(),
        breaker: Breaker::default(),
        seed: None,
        shared: Arc::new(Shared::new("conformance".into())),
        samples: Arc::default(),
    };
    let component = ENGINE.compile(&bytes, &shown).unwrap();
    Revision::new(component, context, "{}".into()).unwrap()
}

impl Guest {
    /// Gives it an arena as it is, as `process` gives one that the host has made.
    fn answer(&mut self, revision: &Revision, arena: &[u8]) -> Result<Vec<u8>, Failure> {
        self.store.data_mut().begin(CLOCK, 1);
        arm(
            &mut self.store,
            Allowed::Batch(revision.context.limits.deadline),
        );
        let _running = revision.component.engine.inner.ticker.running();
        let (answer,): Answer1 = self.invoke(self.process, (arena,))?;
        answer.map_err(|failure| self.said(failure.failure()))
    }
}

/// Gives an arena to a fresh instance.
fn answered(revision: &Revision, arena: &[u8]) -> Result<Vec<u8>, Failure> {
    revision.start().unwrap().answer(revision, arena)
}

/// Records that show all they have, change everything, and have nothing.
const DONE: [(&str, Option<&str>); 8] = [
    ("show", Some("a value")),
    ("echo", Some("the same bytes")),
    ("upper", Some("small letters")),
    ("split", Some("a,b,,c")),
    ("all", None),
    ("route-changed", Some("")),
    ("drop", Some("gone")),
    ("dead-letter", Some("a reason")),
];
/// The place of the record that echoes.
const ECHO: usize = 1;

fn batch() -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    for (offset, (what, value)) in DONE.iter().enumerate() {
        let record = NewRecord {
            id: RecordId {
                offset: offset as u64,
                ..RecordId::default()
            },
            event_time: Some(5),
            key: Some(b"a key"),
            value: value.map(str::as_bytes),
            headers: &[("do", Some(what.as_bytes())), ("null", None)],
            attributes: &[("pii", Some(b"\0\xff"))],
        };
        builder.push(&record).unwrap();
    }
    builder.finish(CLOCK).into_bytes()
}

/// The outcomes of an answer.
fn shown(answer: &[u8]) -> Vec<String> {
    let view = OutcomesView::parse(answer, DONE.len(), OUTPUTS).unwrap();
    view.iter().map(|outcome| format!("{outcome:?}")).collect()
}

fn word(arena: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(arena[at..at + 4].try_into().unwrap())
}

fn set(arena: &mut [u8], at: usize, word: u32) {
    arena[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// An arena in which these numbers are others.
fn changed(arena: &[u8], words: &[(usize, u32)]) -> Vec<u8> {
    let mut arena = arena.to_vec();
    for (at, word) in words {
        set(&mut arena, *at, *word);
    }
    arena
}

/// The batch as a later version may write it: with more in its header and in each entry, with flags and with sections of
/// these kinds.
fn grown(arena: &[u8], header: usize, entry: usize, flags: u32, kinds: &[u32]) -> Vec<u8> {
    let table = word(arena, 24) as usize;
    let mut grown = arena[..BATCH_HEADER].to_vec();
    grown.resize(BATCH_HEADER + header, 0xee);
    grown.extend_from_slice(&arena[BATCH_HEADER..table]);
    let new_table = grown.len();
    for old in arena[table..].chunks_exact(ENTRY) {
        let mut new = old.to_vec();
        for span in [40, 48, 56, 64] {
            let at = word(&new, span) + header as u32;
            set(&mut new, span, at);
        }
        new.resize(ENTRY + entry, 0xdd);
        grown.extend_from_slice(&new);
    }
    let sections = grown.len();
    for kind in kinds {
        let at = sections + 16 * kinds.len();
        for field in [*kind, 1, at as u32, 8] {
            grown.extend_from_slice(&field.to_le_bytes());
        }
    }
    grown.extend_from_slice(&[0xcc; 8]);
    let (length, stride) = (grown.len() as u32, (ENTRY + entry) as u32);
    for (at, word) in [
        (4, length),
        (8, (BATCH_HEADER + header) as u32),
        (12, flags),
        (20, stride),
        (24, new_table as u32),
        (28, kinds.len() as u32),
        (32, sections as u32),
    ] {
        set(&mut grown, at, word);
    }
    grown
}

#[track_caller]
fn refused(language: &str, what: &str, answer: Result<Vec<u8>, Failure>, code: &str) {
    let failure = match answer {
        Err(failure) => failure,
        Ok(answer) => panic!("{language}, {what}: it answers {answer:?}"),
    };
    assert_eq!(
        failure.class,
        Some(Class::Permanent),
        "{language}, {what}: {failure:?}"
    );
    let begins = format!("operator error {code}: ");
    assert!(
        failure.reason.starts_with(&begins),
        "{language}, {what}: {}",
        failure.reason
    );
}

#[test]
fn a_batch_of_a_later_version_is_answered_as_far_as_it_is_known() {
    let batch = batch();
    for language in LANGUAGES {
        let revision = revision(language);
        let known = answered(&revision, &batch).unwrap_or_else(|why| panic!("{language}: {why:?}"));
        let view = OutcomesView::parse(&known, DONE.len(), OUTPUTS).unwrap();
        assert!(
            matches!(view.iter().nth(ECHO), Some(Outcome::Replace(patch)) if patch.value() == Some(DONE[ECHO].1.map(str::as_bytes))),
            "{language}"
        );
        for (header, entry, flags, kinds) in [
            (8, 0, 0, &[][..]),
            (0, 8, 0, &[]),
            (64, 56, 0, &[]),
            (4032, 1024, 0xffff, &[0, 1, 77, 0x7fff_ffff]),
            (0, 0, 1, &[2]),
        ] {
            let grown = grown(&batch, header, entry, flags, kinds);
            let what = format!("header + {header}, entry + {entry}, flags {flags:x}");
            let answer = answered(&revision, &grown);
            let answer = answer.unwrap_or_else(|why| panic!("{language}, {what}: {why:?}"));
            assert_eq!(answer, known, "{language}, {what}");
        }
    }
}

#[test]
fn what_has_to_be_known_and_is_not_fails_for_good_and_the_instance_goes_on() {
    let batch = batch();
    for language in LANGUAGES {
        let revision = revision(language);
        let mut guest = revision.start().unwrap();
        let known = guest.answer(&revision, &batch).unwrap();
        for bit in 16..32 {
            let flagged = changed(&batch, &[(12, 1 << bit)]);
            let answer = guest.answer(&revision, &flagged);
            refused(language, &format!("flag {bit}"), answer, "unknown-arena");
        }
        for kinds in [
            &[0x8000_0000][..],
            &[0xffff_ffff],
            &[1, 0x7fff_ffff, 0x8000_0001],
        ] {
            let sectioned = grown(&batch, 8, 8, 0, kinds);
            let answer = guest.answer(&revision, &sectioned);
            refused(language, &format!("{kinds:x?}"), answer, "unknown-arena");
        }
        assert_eq!(
            guest.answer(&revision, &batch).unwrap(),
            known,
            "{language}"
        );
    }
}

#[test]
fn a_batch_that_is_cut_short_or_says_what_it_is_not_fails_for_good() {
    let batch = batch();
    let (length, table) = (batch.len() as u32, word(&batch, 24));
    let mut broken: Vec<(String, Vec<u8>)> = (0..batch.len())
        .step_by(7)
        .chain([3, 4, 63, 64, table as usize, batch.len() - 1])
        .map(|end| (format!("the first {end} bytes"), batch[..end].to_vec()))
        .collect();
    broken.push(("more than it says".into(), [&batch[..], &[0; 8]].concat()));
    for end in [BATCH_HEADER, table as usize, batch.len() - ENTRY] {
        // Its length is right, and the rest is not there.
        let mut short = batch[..end].to_vec();
        set(&mut short, 4, end as u32);
        broken.push((format!("{end} bytes, as it says"), short));
    }
    for words in [
        [(0, 0x0142_4754)],
        [(0, 0)],
        [(4, 0)],
        [(4, u32::MAX)],
        [(8, 0)],
        [(8, 56)],
        [(8, 68)],
        [(16, DONE.len() as u32 + 1)],
        [(16, u32::MAX)],
        [(20, 0)],
        [(20, 64)],
        [(20, 73)],
        [(20, 80)],
        [(20, 0xffff_fff8)],
        [(24, 0)],
        [(24, 56)],
        [(24, table + 1)],
        [(24, table + 8)],
        [(24, length)],
        [(24, 0xffff_fff8)],
        [(28, length / 16 + 1)],
        [(28, u32::MAX)],
        [(32, u32::MAX)],
    ] {
        let mut given = words.to_vec();
        if words[0].0 == 32 {
            given.push((28, 1));
        }
        broken.push((format!("{given:x?}"), changed(&batch, &given)));
    }
    for language in LANGUAGES {
        let revision = revision(language);
        let mut guest = revision.start().unwrap();
        let known = guest.answer(&revision, &batch).unwrap();
        for (what, arena) in &broken {
            let answer = guest.answer(&revision, arena);
            refused(language, what, answer, "bad-batch");
        }
        assert_eq!(
            guest.answer(&revision, &batch).unwrap(),
            known,
            "{language}"
        );
    }
}

#[test]
fn a_record_whose_fields_lie_outside_of_its_batch_is_never_answered_as_if_they_did_not() {
    let batch = batch();
    let (length, table) = (batch.len() as u32, word(&batch, 24) as usize);
    for language in LANGUAGES {
        let revision = revision(language);
        let known = shown(&answered(&revision, &batch).unwrap());
        // Of the first record everything is shown.
        for span in [40, 48, 56, 64] {
            let (at, size) = (table + span, word(&batch, table + span + 4));
            for words in [
                [(at, length - size + 1), (at + 4, size)],
                [(at, length), (at + 4, size)],
                [(at, 0x7fff_fff0), (at + 4, size)],
                [(at, u32::MAX), (at + 4, size)],
                [(at, word(&batch, at)), (at + 4, length)],
                [(at, word(&batch, at)), (at + 4, 0x7fff_ffff)],
                [(at, 0xffff_fff0), (at + 4, 0x20)],
            ] {
                let what = format!("{language}, {words:x?}");
                let Ok(answer) = answered(&revision, &changed(&batch, &words)) else {
                    // A trap, or a failure: of a batch of one the host makes a dead letter.
                    continue;
                };
                let mut answer = shown(&answer);
                if answer[0].starts_with("DeadLetter") {
                    answer[0].clone_from(&known[0]);
                }
                assert_eq!(answer, known, "{what}");
            }
        }
    }
}
