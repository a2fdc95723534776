//! Builds: the same sources make the same component, which imports what is granted and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_component::{Producer, producers};
use tidegate_project::{BuildError, BuildOptions, Built, Grant, Language, Project};

use crate::made;

/// A place for projects in which cargo keeps what it compiles from one run to the next, and asks no registry.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("operators");
    let text = format!("[build]\ntarget-dir = {target:?}\n\n[net]\noffline = true\n");
    fs::create_dir(place.path().join(".cargo")).unwrap();
    fs::write(place.path().join(".cargo/config.toml"), text).unwrap();
    place
}

fn built(project: &Project) -> Built {
    project
        .build(&BuildOptions::here())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// What it imports of the contract; WASI is there without a grant and empty.
fn own(built: &Built) -> Vec<&str> {
    let imports = built.imports.iter().map(String::as_str);
    imports
        .filter(|import| import.starts_with("tidegate:"))
        .collect()
}

fn names(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|found| found == text.as_bytes())
}

/// Builds the language's template in two places, and gives the component.
fn built_twice(language: Language, place: &Path) -> (Built, Vec<u8>) {
    let at = |name: &str| place.join(name);
    let one = made(language, "hide-words", &at("one"));
    let other = made(language, "hide-words", &at("another/place"));
    let first = built(&one);
    let second = built(&other);
    assert_eq!(first.digest, second.digest, "{language}");
    let bytes = fs::read(&first.path).unwrap();
    assert_eq!(first.size, bytes.len());
    assert!(
        !names(&bytes, place.to_str().unwrap()),
        "{language} names its place"
    );
    // Nothing has changed, so nothing is written.
    let written = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let before = written(&first.path);
    assert_eq!(built(&one).digest, first.digest);
    assert_eq!(written(&first.path), before, "{language}");
    (first, bytes)
}

fn says(bytes: &[u8], language: &str, tool: &str, sdk: &str) {
    let said = producers(bytes).unwrap();
    let has = |field: &str, name: &str| {
        said.iter()
            .any(|producer: &Producer| producer.field == field && producer.name == name)
    };
    assert!(
        has("language", language) && has("processed-by", tool) && has("sdk", sdk),
        "{said:?}"
    );
}

#[test]
fn the_same_sources_in_rust_make_the_same_component_wherever_they_lie() {
    let place = place();
    let (built, bytes) = built_twice(Language::Rust, place.path());
    assert_eq!((&built.grants, own(&built)), (&vec![], vec![]));
    assert!(built.toolchain.starts_with("rustc "), "{}", built.toolchain);
    says(&bytes, "Rust", "rustc", "tidegate-rust");
}

#[test]
fn the_same_sources_in_c_make_the_same_component_wherever_they_lie() {
    let place = place();
    let (built, bytes) = built_twice(Language::C, place.path());
    assert_eq!((&built.grants, own(&built)), (&vec![], vec![]));
    says(&bytes, "C", "clang", "tidegate-c");
    // A linker that is given a `%` for its output makes a name of it that is not there.
    let odd = made(
        Language::C,
        "hide-words",
        &place.path().join("20%20, odd's"),
    );
    assert_eq!(self::built(&odd).digest, built.digest);
}

#[test]
fn what_an_operator_calls_has_to_be_granted_in_its_manifest() {
    let place = place();
    let directory = place.path().join("loud");
    let project = made(Language::Rust, "loud", &directory);
    let source = "use tidegate_sdk::prelude::*;\n\
        #[operator(name = \"loud\", reads = \"value\")]\n\
        pub fn loud(record: &Record) -> bool { log!(Level::Warn, \"{:?}\", record.value()); true }\n";
    fs::write(directory.join("src/lib.rs"), source).unwrap();
    let error = project.build(&BuildOptions::here()).unwrap_err();
    assert!(
        matches!(error, BuildError::NotGranted { word: "log", .. }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("write grants = [\"log\"] in operator.toml"),
        "{error}"
    );
    assert!(!project.output().exists());
    let manifest = "name = \"loud\"\nlanguage = \"rust\"\ngrants = [\"log\"]";
    fs::write(directory.join("operator.toml"), manifest).unwrap();
    let loud = built(&Project::open(&directory).unwrap());
    assert_eq!(loud.grants, [Grant::Log]);
    assert_eq!(own(&loud), ["tidegate:operator/log@1.0.0"]);
}

/// The interface of those that handle tokens, as exports of a component have it.
const TOKENS: &str = "tidegate:operator/tokens@1.0.0";

/// A manifest with this line more.
fn with(project: &Project, line: &str) -> Project {
    let file = project.directory().join("operator.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + line).unwrap();
    Project::open(project.directory()).unwrap()
}

#[test]
fn an_operator_exports_what_its_manifest_says_that_it_handles_and_nothing_else() {
    let place = place();
    let handler = "static void step(tg_step *step) { tg_let_through(step, step->text); }\n\
        TG_TOKENS(.step = step);\n";
    let directory = place.path().join("see");
    let plain = made(Language::C, "see", &directory);
    assert!(!names(&fs::read(built(&plain).path).unwrap(), TOKENS));
    let said = |project: &Project| match project.build(&BuildOptions::here()) {
        Err(BuildError::Failed { said, .. }) => said,
        other => panic!("{other:?}"),
    };
    // The manifest alone: there is nothing to export.
    let project = with(&plain, "handlers = [\"tokens\"]\n");
    let missing = said(&project);
    assert!(
        missing.contains("undefined symbol: tg_the_tokens"),
        "{missing}"
    );
    let source = fs::read_to_string(directory.join("see.c")).unwrap();
    fs::write(directory.join("see.c"), source + handler).unwrap();
    let handles = built(&project);
    assert!(names(&fs::read(&handles.path).unwrap(), TOKENS));
    assert_eq!(own(&handles), Vec::<&str>::new());
    // The sources alone: nobody would call it.
    let unsaid = said(&plain);
    // Clang shows the text as it stands in the header.
    assert!(
        unsaid.contains("write handlers = [\\\"tokens\\\"] in operator.toml"),
        "{unsaid}"
    );
}

#[test]
fn a_compile_error_goes_through_as_the_toolchain_writes_it() {
    let place = place();
    let directory = place.path().join("wrong");
    let project = made(Language::C, "wrong", &directory);
    let entry = directory.join(&project.manifest().entry[0]);
    fs::write(&entry, "int main(void) { return nothing; }\n").unwrap();
    match project.build(&BuildOptions::here()) {
        Err(BuildError::Failed { program, said, .. }) => {
            assert_eq!(program, "clang");
            assert!(
                said.contains(":1:25: error: use of undeclared identifier 'nothing'"),
                "{said}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(!project.output().exists());
}

#[test]
fn whatever_a_source_in_c_includes_makes_another_component() {
    let place = place();
    let directory = place.path().join("deep");
    let project = made(Language::C, "deep", &directory);
    let source = "#include \"tidegate/tidegate.h\"\n#include \"build/answer.inc\"\n\
        static void process(tg_record *record) { tg_set_value(record, tg_bytes_of((const uint8_t *)ANSWER, 4)); }\n\
        TG_OPERATOR(.name = \"deep\", .version = \"0.1.0\", .reads = TG_READS_VALUE, .process = process);\n";
    fs::write(directory.join("deep.c"), source).unwrap();
    let answer = |text: &str| {
        fs::create_dir_all(directory.join("inc/build")).unwrap();
        fs::write(
            directory.join("inc/build/answer.inc"),
            format!("#define ANSWER \"{text}\"\n"),
        )
        .unwrap();
        let built = built(&project);
        assert!(names(&fs::read(&built.path).unwrap(), text), "{text}");
        built.digest
    };
    fs::write(
        directory.join("deep.c"),
        source.replace("build/answer.inc", "inc/build/answer.inc"),
    )
    .unwrap();
    let first = answer("onexyz");
    assert_ne!(answer("twoxyz"), first);
    assert_eq!(answer("onexyz"), first);
}

#[test]
fn sources_in_c_whose_names_look_alike_are_not_mixed_up() {
    let place = place();
    let directory = place.path().join("alike");
    let project = made(Language::C, "alike", &directory);
    fs::create_dir(directory.join("a")).unwrap();
    for (file, name) in [
        ("a/b.c", "one"),
        ("a.b.c", "two"),
        ("a%2Fb.c", "three"),
        ("a.b.c.c", "four"),
    ] {
        let text = format!(
            "const char *{name}(void);\nconst char *{name}(void) {{ return \"{name}\"; }}\n"
        );
        fs::write(directory.join(file), text).unwrap();
    }
    let manifest = "name = \"alike\"\nlanguage = \"c\"\n\
        entry = [\"alike.c\", \"a/b.c\", \"a.b.c\", \"a%2Fb.c\", \"a.b.c.c\"]\n";
    fs::write(directory.join("operator.toml"), manifest).unwrap();
    drop(project);
    let project = Project::open(&directory).unwrap();
    for _ in 0..3 {
        built(&project);
        let kept = fs::read_dir(directory.join("build/objects")).unwrap();
        let kept = kept.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".o") && name.to_string_lossy().starts_with('a')
        });
        assert_eq!(kept.count(), 5);
        fs::remove_dir_all(directory.join("build")).unwrap();
    }
}

#[test]
fn builds_of_one_project_at_the_same_time_wait_for_each_other() {
    let place = place();
    let project = made(Language::C, "busy", &place.path().join("busy"));
    let digests: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| built(&project).digest))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "{digests:?}"
    );
}

#[test]
fn a_quick_build_leaves_the_component_as_it_is() {
    let place = place();
    let project = made(Language::C, "quick", &place.path().join("quick"));
    let options = BuildOptions {
        quick: true,
        ..BuildOptions::here()
    };
    let quick = project.build(&options).unwrap();
    assert_eq!(quick.path, project.quick_output());
    assert!(!project.output().exists());
    for (path, is_made) in [
        ("build/core.wasm", true),
        ("target/x.rs", true),
        ("quick.wasm", true),
        ("src/build/x.py", false),
        ("model.wasm.json", false),
        ("lib/target/x.h", false),
    ] {
        assert_eq!(project.is_made(Path::new(path)), is_made, "{path}");
    }
}
