//! Manifests: what they say, and how their mistakes are told.

use std::fs;
use std::path::Path;

use tidegate_project::{Engine, Grant, Handler, Language, Manifest, Name, Project, ProjectError};

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(text, Path::new("operator.toml")).map_err(|mistakes| mistakes.to_string())
}

fn refused(text: &str) -> String {
    match parse(text) {
        Ok(manifest) => panic!("it is taken: {manifest:?}"),
        Err(mistakes) => mistakes,
    }
}

#[test]
fn a_manifest_says_what_an_operator_is_made_of() {
    let manifest = parse(
        "name = \"redact-pii\"\nlanguage = \"javascript\"\nentry = \"redact.js\"\ngrants = [\"log\"]\n\
         engine = \"spidermonkey\"\ncases = [\"cases/*.json\", \"more.json\"]\n",
    )
    .unwrap();
    assert_eq!(manifest.name.as_str(), "redact-pii");
    assert_eq!(manifest.language, Language::JavaScript);
    assert_eq!(manifest.entry, ["redact.js"]);
    assert_eq!(manifest.grants, [Grant::Log]);
    assert_eq!(manifest.engine, Engine::SpiderMonkey);
    assert_eq!(manifest.cases.unwrap(), ["cases/*.json", "more.json"]);
    let least = parse("name = \"a\"\nlanguage = \"rust\"").unwrap();
    assert_eq!(least.cases, None);
    assert!(least.entry.is_empty() && least.grants.is_empty());
    assert_eq!(least.handlers, []);
    let handles = "name = \"a\"\nlanguage = \"go\"\nhandlers = [\"tokens\"]";
    assert_eq!(parse(handles).unwrap().handlers, [Handler::Tokens]);
    let c = parse("name = \"a\"\nlanguage = \"c\"\nentry = [\"a.c\", \"src/b.c\"]").unwrap();
    assert_eq!(c.entry, ["a.c", "src/b.c"]);
}

#[test]
fn rust_says_in_its_sources_what_it_handles() {
    let said = refused("name = \"a\"\nlanguage = \"rust\"\nhandlers = [\"tokens\"]");
    assert_eq!(
        said.trim_end(),
        "operator.toml:3:13: handlers[1]: Rust says it in its sources, as #[operator(..., tokens)]: leave handlers out"
    );
    let said = refused("name = \"a\"\nlanguage = \"go\"\nhandlers = [\"timers\"]");
    assert!(
        said.contains("handlers[1]: \"timers\" is not known; write one of tokens"),
        "{said}"
    );
}

#[test]
fn every_mistake_is_told_at_once_with_line_key_value_and_what_would_be_right() {
    let said = refused(
        "nam = \"redact\"\nname = \"Redact PII\"\nlanguage = \"phyton\"\ngrants = [\"log\", \"http\", \"log\"]\n\
         engine = 7\ncases = \"a.json\"\n",
    );
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "operator.toml:1:1: nam: is no key of a manifest (its value is \"redact\"); there are name, language",
        "operator.toml:2:8: name: \"Redact PII\" is no operator's name: write lower-case words with hyphens between, \"redact-pii\"",
        "operator.toml:3:12: language: \"phyton\" is not known; write one of rust, c, javascript, typescript, python, go",
        "operator.toml:4:18: grants[2]: \"http\" is not known; write one of log",
        "operator.toml:4:26: grants[3]: \"log\" stands here twice",
        "operator.toml:5:10: engine: 7 is no text; write for example engine = \"...\"",
        "operator.toml:6:9: cases: \"a.json\" is no list; write for example cases = [\"...\"]",
    ];
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
}

#[test]
fn what_is_missing_is_named_with_an_example() {
    let said = refused("");
    assert!(
        said.contains("name: is missing; write name = \"redact-pii\""),
        "{said}"
    );
    assert!(
        said.contains("language: is missing; write language = \"...\", one of rust, c"),
        "{said}"
    );
    let said = refused("name = \"a\"\nlanguage = \"python\"");
    assert!(
        said.contains("entry: is missing; write entry = \"operator.py\""),
        "{said}"
    );
    let said = refused("name = \"a\"\nlanguage = \"c\"\nentry = []");
    assert!(
        said.contains("entry: is missing; write at least one source"),
        "{said}"
    );
    let said = refused("name = \"a\"\nlanguage = \"c\"\nentry = [\"a.c\", \"a.c\"]");
    assert!(
        said.ends_with("3:17: entry[2]: \"a.c\" stands here twice"),
        "{said}"
    );
}

#[test]
fn a_path_stays_within_the_project_and_cases_may_be_shared() {
    let wrong = [
        "/etc/passwd.py",
        "a/../../up.py",
        "./a.py",
        "a//b.py",
        "c:\\\\a.py",
        "",
    ];
    for path in wrong {
        let text = format!("name = \"a\"\nlanguage = \"python\"\nentry = \"{path}\"");
        assert!(
            refused(&text).contains("operator.toml:3:9: entry"),
            "{path}"
        );
        let text = format!("name = \"a\"\nlanguage = \"rust\"\ncases = [\"{path}\"]");
        assert!(
            refused(&text).contains("operator.toml:3:10: cases[1]"),
            "{path}"
        );
    }
    refused("name = \"a\"\nlanguage = \"python\"\nentry = \"../up.py\"");
    parse("name = \"a\"\nlanguage = \"rust\"\ncases = [\"../cases/*.json\"]").unwrap();
}

#[test]
fn an_entry_fits_its_language() {
    for (language, entry, why) in [
        ("rust", "\"src/lib.rs\"", "Rust finds its sources itself"),
        ("go", "\"main.go\"", "Go finds its sources itself"),
        ("python", "\"a.js\"", "it ends with .py"),
        ("python", "\"redact-pii.py\"", "is no module's file"),
        ("javascript", "\"a.ts\"", "it ends with .js or .mjs"),
        ("javascript", "[\"a.js\", \"b.js\"]", "one main source"),
        ("c", "\"a.cpp\"", "it ends with .c"),
        (
            "c",
            "[\"a.c\", \"b.c\", \"a.c\"]",
            "entry[3]: \"a.c\" stands here twice",
        ),
    ] {
        let said = refused(&format!(
            "name = \"a\"\nlanguage = \"{language}\"\nentry = {entry}"
        ));
        assert!(said.contains(why), "{language} {entry}: {said}");
    }
    let said = refused("name = \"a\"\nlanguage = \"go\"\nengine = \"quickjs\"");
    assert!(
        said.contains("only JavaScript and TypeScript have an engine, not Go"),
        "{said}"
    );
}

#[test]
fn what_is_no_toml_is_named_by_its_place() {
    let said = refused("name = \"a\nlanguage = \"c\"");
    assert!(said.starts_with("operator.toml:1:"), "{said}");
    assert!(said.contains("is not TOML"), "{said}");
}

#[test]
fn a_name_is_written_as_each_language_has_it() {
    let name = Name::new("redact-pii-2").unwrap();
    assert_eq!(
        (
            name.snake(Language::Python),
            name.camel(Language::Rust),
            name.package(Language::Go)
        ),
        (
            "redact_pii_2".to_owned(),
            "RedactPii2".to_owned(),
            "redact-pii-2".to_owned()
        )
    );
    for (wrong, right) in [
        ("RedactPII", "redact-pii"),
        ("redact_pii", "redact-pii"),
        ("-a--b-", "a-b"),
        ("2fast", "fast"),
        ("", "redact-pii"),
        ("gr\u{fc}n", "gr-n"),
    ] {
        let said = Name::new(wrong)
            .map(drop)
            .map_err(|error| error.to_string());
        assert!(
            said.unwrap_err().ends_with(&format!("{right:?}")),
            "{wrong}"
        );
    }
    let said = Name::new(&"a".repeat(65))
        .map(drop)
        .map_err(|error| error.to_string());
    assert_eq!(said.unwrap_err(), "the name has 65 bytes, limit 64");
}

#[test]
fn a_project_knows_its_component_and_its_cases() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("operator.toml"), "name = \"redact\"\nlanguage = \"go\"").unwrap();
    let project = Project::open(directory.path()).unwrap();
    assert_eq!(project.output(), at("redact.wasm"));
    assert!(project.cases().unwrap().is_empty());
    fs::create_dir(at("cases")).unwrap();
    for name in ["b.json", "a.json", "notes.txt"] {
        fs::write(at("cases").join(name), "").unwrap();
    }
    let cases = project.cases().unwrap();
    assert_eq!(cases, [at("cases/a.json"), at("cases/b.json")]);
}

#[test]
fn a_pattern_of_cases_that_is_stated_and_fits_no_file_is_a_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let cases = |cases: &str| {
        let manifest = format!("name = \"redact\"\nlanguage = \"go\"\ncases = {cases}\n");
        fs::write(directory.path().join("operator.toml"), manifest).unwrap();
        Project::open(directory.path()).unwrap().cases()
    };
    fs::write(directory.path().join("a.json"), "").unwrap();
    assert_eq!(cases("[\"a.json\", \"*.json\"]").unwrap().len(), 1);
    assert!(cases("[]").unwrap().is_empty());
    for pattern in ["nope.json", "../nope.json", "cases/*.json"] {
        let error = cases(&format!("[\"a.json\", \"{pattern}\"]")).unwrap_err();
        let why = format!("operator.toml: cases: \"{pattern}\" fits no file");
        assert!(error.to_string().ends_with(&why), "{error}");
    }
}

#[test]
fn a_directory_without_a_manifest_says_how_one_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let error = Project::open(directory.path()).unwrap_err();
    assert!(matches!(error, ProjectError::NoManifest { .. }));
    assert!(
        error
            .to_string()
            .ends_with("has no operator.toml: `tidegate new NAME --lang LANGUAGE` makes a project")
    );
    let long = "#".repeat((64 << 10) + 1);
    fs::write(directory.path().join("operator.toml"), long).unwrap();
    let error = Project::open(directory.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("operator.toml has more than 65536 bytes, which is the limit"),
        "{error}"
    );
}

#[test]
fn a_source_that_is_not_there_is_a_mistake_of_the_manifest() {
    let place = tempfile::tempdir().unwrap();
    let project = crate::made(Language::C, "a", place.path());
    fs::remove_file(place.path().join("a.c")).unwrap();
    let options = tidegate_project::BuildOptions::here();
    let said = project.build(&options).unwrap_err().to_string();
    assert!(
        said.ends_with("operator.toml:5:10: entry: \"a.c\" is not there"),
        "{said}"
    );
}

#[test]
fn a_source_that_a_toolchain_takes_for_an_option_is_refused() {
    for entry in ["@args.c", "-x.c", "-I/.c"] {
        let said = refused(&format!(
            "name = \"a\"\nlanguage = \"c\"\nentry = [\"a.c\", \"{entry}\"]"
        ));
        assert!(
            said.contains("operator.toml:3:17: entry[2]: a path does not begin with `-` or `@`"),
            "{said}"
        );
    }
}

#[test]
fn a_manifest_that_is_no_regular_file_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("operator.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let error = Project::open(directory.path()).unwrap_err().to_string();
    assert!(error.ends_with("it is no regular file"), "{error}");
}
