//! Compiled functions that are known to the next component of a slot, and to no other's.

use std::fs::File;
use std::path::{Path, PathBuf};

use tidegate_contract::Slot;
use tidegate_operator::{ComponentSlot, Engine, EngineOptions, KeptFunctions, SlotOptions, digest};

use crate::support::*;

fn options(directory: &Path) -> EngineOptions {
    EngineOptions {
        cache_dir: Some(directory.to_owned()),
        functions: KeptFunctions::OfSlots,
        instances: 4,
        ..EngineOptions::default()
    }
}

fn engine(directory: &Path) -> Engine {
    Engine::new(options(directory)).unwrap()
}

/// `pass` under another name of four letters: it differs in its data alone.
fn named(name: &str) -> Vec<u8> {
    let mut component = PASS.to_vec();
    let at = component.windows(4).position(|found| found == b"pass");
    let at = at.unwrap();
    component[at..at + 4].copy_from_slice(name.as_bytes());
    component
}

fn slot(engine: &Engine, name: &str, component: &[u8]) -> ComponentSlot {
    ComponentSlot::new(engine, SlotOptions::new(name), component, "op.wasm").unwrap()
}

/// It runs what has this name, and every record passes.
fn runs(slot: &ComponentSlot, name: &str) {
    assert_eq!(slot.version().name, name);
    assert_eq!(run(&mut *instance(slot), &batch_of(["v"; 3])).len(), 3);
}

/// The files that end so.
fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == end))
        .collect()
}

fn functions(directory: &Path) -> PathBuf {
    let mut files = files(directory, "functions");
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// Artifacts of this component: those that serve every slot, and those that were made with functions of one.
fn artifacts(directory: &Path, component: &[u8]) -> (usize, usize) {
    let digest = digest(component);
    let digest = digest.trim_start_matches("sha256:");
    let names = files(directory, "code").into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        name.starts_with(digest)
            .then(|| name.matches('-').count() == 2)
    });
    let (owned, all): (Vec<bool>, Vec<bool>) = names.partition(|owned| *owned);
    (all.len(), owned.len())
}

#[test]
fn a_component_that_differs_in_its_data_is_made_of_what_is_known() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    let engine = engine(&directory);
    let slot = slot(&engine, "a", PASS);
    assert_eq!(artifacts(&directory, PASS), (1, 0), "nothing was known");
    functions(&directory);
    slot.deploy(&named("past"), "op.wasm").unwrap();
    runs(&slot, "past");
    assert_eq!(artifacts(&directory, &named("past")), (0, 1));
    // Byte for byte what it is without.
    let made = |directory: &Path| {
        let digest = digest(&named("past"));
        let digest = digest.trim_start_matches("sha256:");
        let mut files = files(directory, "code");
        files.retain(|path| path.to_str().unwrap().contains(digest));
        let mut bytes = std::fs::read(&files[0]).unwrap();
        // Its end has its name in it.
        bytes.truncate(bytes.len() - 72);
        bytes
    };
    let alone = home.path().join("alone");
    self::engine(&alone)
        .compile(&named("past"), "op.wasm")
        .unwrap();
    assert!(made(&alone) == made(&directory));
    // The slot finds it after a restart.
    let again = self::engine(&directory);
    runs(&self::slot(&again, "a", &named("past")), "past");
    assert_eq!(artifacts(&directory, &named("past")), (0, 1));
}

#[test]
fn slots_never_share_functions_or_what_was_made_with_them() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    let engine = engine(&directory);
    let first = slot(&engine, "a", PASS);
    first.deploy(&named("past"), "op.wasm").unwrap();
    let of_first = functions(&directory);
    let made_with: Vec<PathBuf> = files(&directory, "code")
        .into_iter()
        .filter(|path| path.to_str().unwrap().matches('-').count() == 2)
        .collect();
    // Another slot compiles it as a whole.
    let second = slot(&engine, "b", &named("past"));
    runs(&second, "past");
    assert_eq!(artifacts(&directory, &named("past")), (1, 1));
    let mut of_second = files(&directory, "functions");
    of_second.retain(|path| *path != of_first);
    assert_eq!(of_second.len(), 1);
    // Files of one under the names of the other are not used.
    std::fs::copy(&of_first, &of_second[0]).unwrap();
    second.deploy(&named("pest"), "op.wasm").unwrap();
    assert_eq!(artifacts(&directory, &named("pest")), (1, 0));
    first.deploy(&named("post"), "op.wasm").unwrap();
    assert_eq!(artifacts(&directory, &named("post")), (0, 1));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let owner = |path: &Path| name(path).split('-').next().unwrap().to_owned();
    let stolen = name(&made_with[0]).replace(&owner(&of_first), &owner(&of_second[0]));
    std::fs::copy(&made_with[0], directory.join(&stolen)).unwrap();
    for code in files(&directory, "code") {
        if name(&code).starts_with(digest(&named("past")).trim_start_matches("sha256:"))
            && name(&code) != stolen
        {
            std::fs::remove_file(code).unwrap();
        }
    }
    let before = std::fs::read(directory.join(&stolen)).unwrap();
    let third = self::engine(&directory);
    runs(&slot(&third, "b", &named("past")), "past");
    assert!(std::fs::read(directory.join(&stolen)).unwrap() != before);
}

#[test]
fn components_of_no_slot_have_no_functions_and_projects_have_their_own() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    engine(&directory).compile(PASS, "op.wasm").unwrap();
    assert_eq!(files(&directory, "functions").len(), 0);
    for project in ["one", "two"] {
        let options = EngineOptions {
            functions: KeptFunctions::OfProject(home.path().join(project)),
            ..options(&directory)
        };
        let engine = Engine::new(options).unwrap();
        let name = format!("p{project}");
        engine.compile(&named(&name), "op.wasm").unwrap();
    }
    assert_eq!(files(&directory, "functions").len(), 2);
    assert_eq!(artifacts(&directory, &named("ptwo")), (1, 0));
}

#[test]
fn functions_that_are_damaged_too_many_or_of_another_engine_are_not_used() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    let engine = engine(&directory);
    let slot = slot(&engine, "a", PASS);
    let known = functions(&directory);
    let whole = std::fs::read(&known).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let mut large = whole.clone();
    large.resize(65 << 20, 0);
    let names = ["pas0", "pas1", "pas2", "pas3", "pas4"];
    let damaged = [
        &whole[..whole.len() / 2],
        &whole[..10],
        &[][..],
        &flipped[..],
        &large[..],
    ];
    for (name, damaged) in names.into_iter().zip(damaged) {
        std::fs::write(&known, damaged).unwrap();
        slot.deploy(&named(name), "op.wasm").unwrap();
        runs(&slot, name);
        assert_eq!(artifacts(&directory, &named(name)), (1, 0), "{name}");
        let written = std::fs::read(&known).unwrap();
        assert!(
            written != damaged && written.len() < 2 * whole.len(),
            "they were written again"
        );
    }
    let file = known.file_name().unwrap().to_str().unwrap();
    let owner = file.split('-').next().unwrap();
    let old = directory.join(format!("{owner}-0123456789abcdef.functions"));
    std::fs::rename(&known, &old).unwrap();
    slot.deploy(&named("pas5"), "op.wasm").unwrap();
    assert_eq!(artifacts(&directory, &named("pas5")), (1, 0));
    engine.forget_compiled(&slot.digests().into_iter().collect());
    assert_eq!(files(&directory, "functions"), [known]);
}

#[test]
fn functions_of_slots_that_are_no_more_are_taken_away() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    drop(slot(&engine(&directory), "a", PASS));
    let of_first = functions(&directory);
    let engine = engine(&directory);
    let second = slot(&engine, "b", &named("past"));
    second.deploy(&named("pest"), "op.wasm").unwrap();
    assert_eq!(files(&directory, "functions").len(), 2);
    engine.forget_compiled(&second.digests().into_iter().collect());
    assert!(!of_first.exists());
    assert_eq!(files(&directory, "functions").len(), 1);
    assert_eq!(artifacts(&directory, &named("pest")), (0, 1), "it stays");
}

#[test]
fn functions_of_all_slots_have_a_limit() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    let engine = engine(&directory);
    for old in ["0", "1"] {
        let old = directory.join(format!("{}-0123456789abcdef.functions", old.repeat(32)));
        File::create(old).unwrap().set_len(300 << 20).unwrap();
    }
    slot(&engine, "a", PASS);
    let files = files(&directory, "functions");
    let bytes: u64 = files
        .iter()
        .map(|file| file.metadata().unwrap().len())
        .sum();
    assert!(files.len() == 2 && bytes <= 512 << 20, "{files:?}");
}

/// A compiler that cannot do with functions that are known, as where a broken one has left something in them.
#[cfg(unix)]
#[test]
fn functions_on_which_the_compiler_ends_are_forgotten_and_the_component_is_compiled() {
    use tidegate_operator::{ChildCompiler, Compiler};
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    slot(&engine(&directory), "a", PASS);
    let known = functions(&directory);
    let other = home.path().join("other");
    engine(&other).compile(&named("past"), "op.wasm").unwrap();
    let artifact = &files(&other, "code")[0];
    let artifact = std::fs::read(artifact).unwrap();
    let made = home.path().join("made");
    std::fs::write(&made, &artifact[..artifact.len() - 80]).unwrap();
    let with = |script: String| {
        let script = format!("case $1 in compile) {script};; *) kill -SEGV $$;; esac");
        let child = ChildCompiler {
            program: "/bin/sh".into(),
            arguments: ["-c", &script, "sh"].map(Into::into).into(),
        };
        let options = EngineOptions {
            compiler: Compiler::Child(child),
            ..options(&directory)
        };
        let engine = Engine::new(options).unwrap();
        ComponentSlot::new(&engine, SlotOptions::new("a"), &named("past"), "op.wasm")
    };
    // What does not compile without them either is not their fault.
    with("echo 'it is wrong' >&2; exit 1".into()).unwrap_err();
    assert!(known.exists());
    runs(&with(format!("cat {}", made.display())).unwrap(), "past");
    assert!(!known.exists());
    assert_eq!(artifacts(&directory, &named("past")), (1, 0));
}
