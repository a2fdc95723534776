//! New projects: what they have, and that nothing is written over.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_project::{Language, Name, NewProject, Project, ProjectError};

use crate::made;

/// Every file below a directory, relative to it.
fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let (mut files, mut places) = (BTreeSet::new(), vec![directory.to_owned()]);
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => places.push(path),
                false => drop(files.insert(path.strip_prefix(directory).unwrap().to_owned())),
            }
        }
    }
    files
}

#[test]
fn every_language_has_a_project_with_all_that_a_person_needs() {
    for language in Language::ALL {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("project");
        let project = made(language, "hide-words", &directory);
        assert_eq!(project.name().as_str(), "hide-words", "{language}");
        assert_eq!(project.language(), language);
        let files = files(&directory);
        for wanted in [
            "README.md",
            "operator.toml",
            "config.schema.json",
            "samples.jsonl",
            ".gitignore",
            "cases/hide-words.json",
            "tidegate/VERSION",
            "tidegate/wit/tidegate.wit",
            "tidegate/cases.schema.json",
            "tidegate/operator.schema.json",
        ] {
            assert!(
                files.contains(Path::new(wanted)),
                "{language} has no {wanted}: {files:?}"
            );
        }
        assert!(!project.cases().unwrap().is_empty(), "{language}");
        for entry in &project.manifest().entry {
            assert!(
                files.contains(Path::new(entry)),
                "{language} has no {entry}"
            );
        }
        for file in &files {
            assert!(
                !file.to_string_lossy().contains("{{"),
                "{language}: {}",
                file.display()
            );
            let text = fs::read(directory.join(file)).unwrap();
            let text = String::from_utf8_lossy(&text);
            for left in ["{{name}}", "{{package}}", "{{snake}}", "{{camel}}"] {
                assert!(
                    !text.contains(left),
                    "{language}: {} has {left}",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn a_name_stands_in_the_sources_as_the_language_writes_it() {
    let place = tempfile::tempdir().unwrap();
    made(Language::Rust, "hide-words", place.path());
    let text = |file: &str| fs::read_to_string(place.path().join(file)).unwrap();
    assert!(text("src/lib.rs").contains("pub fn hide_words("));
    assert!(text("src/tests.rs").contains("Harness<HideWords>"));
    assert!(text("Cargo.toml").contains("name = \"hide-words\""));
}

#[test]
fn a_name_that_a_language_has_already_is_written_otherwise() {
    let place = tempfile::tempdir().unwrap();
    let names = [
        "copy", "json", "class", "inspect", "types", "operator", "replace", "tidegate", "token",
    ];
    for name in names {
        let directory = place.path().join(name);
        let project = made(Language::Python, name, &directory);
        assert_eq!(project.name().as_str(), name);
        assert_eq!(
            project.manifest().entry,
            [format!("operator_{name}.py")],
            "{name}"
        );
        let text = fs::read_to_string(directory.join(format!("test_operator_{name}.py"))).unwrap();
        assert!(text.contains(&format!("from operator_{name} import operator_{name}")));
    }
    for name in ["match", "config", "tidegate-sdk"] {
        let directory = place.path().join("rust").join(name);
        made(Language::Rust, name, &directory);
        let text = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        assert!(
            text.contains(&format!("name = \"operator-{name}\"")),
            "{text}"
        );
        let text = fs::read_to_string(directory.join("src/lib.rs")).unwrap();
        let function = format!("pub fn operator_{}(", name.replace('-', "_"));
        assert!(text.contains(&function), "{text}");
    }
    let directory = place.path().join("go");
    made(Language::Go, "config", &directory);
    let text = fs::read_to_string(directory.join("main.go")).unwrap();
    assert!(text.contains("var OperatorConfig = "), "{text}");
}

#[test]
fn a_project_is_made_in_a_directory_that_is_there_and_has_nothing_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("mine");
    fs::create_dir_all(directory.join(".git")).unwrap();
    // Somebody stands in it.
    let stands = fs::File::open(&directory).unwrap();
    made(Language::C, "redact", &directory);
    assert!(directory.join(".git").is_dir() && directory.join("tidegate/VERSION").is_file());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    let is_hidden = |path: &PathBuf| path.to_string_lossy().contains(".new-");
    assert!(!files(&directory).iter().any(is_hidden));
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let is = fs::metadata(&directory).unwrap().ino();
        assert_eq!(stands.metadata().unwrap().ino(), is);
    }
    drop(stands);
    let file = place.path().join("file");
    fs::write(&file, "mine").unwrap();
    let wanted = NewProject {
        name: Name::new("a").unwrap(),
        language: Language::C,
        directory: file,
    };
    let error = wanted.create().unwrap_err().to_string();
    assert!(
        error.ends_with("file is no directory of its own; name or make another one"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let project = made(Language::C, "a", &at("project"));
    fs::write(at("outside.h"), "somebody's").unwrap();
    fs::create_dir(at("outside")).unwrap();
    fs::remove_file(at("project/tidegate/tidegate.h")).unwrap();
    symlink(at("outside.h"), at("project/tidegate/tidegate.h")).unwrap();
    project.write_sdk().unwrap();
    assert_eq!(fs::read_to_string(at("outside.h")).unwrap(), "somebody's");
    assert!(!at("project/tidegate/tidegate.h").is_symlink());
    fs::remove_dir_all(at("project/tidegate/wit")).unwrap();
    symlink(at("outside"), at("project/tidegate/wit")).unwrap();
    let error = project.write_sdk().unwrap_err();
    assert!(matches!(error, ProjectError::NoDirectory { .. }), "{error}");
    fs::remove_file(at("project/tidegate/wit")).unwrap();
    project.write_sdk().unwrap();
    symlink(at("outside"), at("project/build")).unwrap();
    let error = project
        .build(&tidegate_project::BuildOptions::here())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("build is no directory of its own"),
        "{error}"
    );
    assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 0);
}

#[test]
fn the_crates_of_the_sdk_stand_alone() {
    let place = tempfile::tempdir().unwrap();
    made(Language::Rust, "a", place.path());
    for name in ["sdk", "macros", "record"] {
        let manifest = place.path().join("tidegate").join(name).join("Cargo.toml");
        let text = fs::read_to_string(manifest).unwrap();
        assert!(!text.contains("workspace"), "{text}");
        assert!(!text.contains("dev-dependencies"), "{text}");
        let manifest: toml::Table = text.parse().unwrap();
        assert_eq!(
            manifest["package"]["version"].as_str(),
            Some(env!("CARGO_PKG_VERSION"))
        );
        for (_, dependency) in manifest
            .get("dependencies")
            .and_then(toml::Value::as_table)
            .into_iter()
            .flatten()
        {
            if let Some(path) = dependency.get("path").and_then(toml::Value::as_str) {
                assert!(["../macros", "../record"].contains(&path), "{path}");
            }
        }
    }
    let lock = fs::read_to_string(place.path().join("Cargo.lock")).unwrap();
    let lock: toml::Table = lock.parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    let names: BTreeSet<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    assert!(names.contains("tidegate-record") && names.contains("serde_json"));
    assert!(
        !names.contains("proptest") && !names.contains("wasmtime"),
        "{names:?}"
    );
}

#[test]
fn nothing_that_lies_there_is_written_over() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine.txt"), "mine").unwrap();
    let wanted = NewProject {
        name: Name::new("a").unwrap(),
        language: Language::Rust,
        directory: place.path().to_owned(),
    };
    let error = wanted.create().unwrap_err();
    assert!(matches!(error, ProjectError::NotEmpty { .. }));
    assert!(
        error
            .to_string()
            .ends_with("is not empty: it has \"mine.txt\"; name another directory")
    );
    assert_eq!(files(place.path()).len(), 1);
}

#[test]
fn an_sdk_is_written_anew_and_only_where_it_differs() {
    let place = tempfile::tempdir().unwrap();
    let project = made(Language::Rust, "a", place.path());
    let sdk = place.path().join("tidegate");
    assert_eq!(project.write_sdk().unwrap(), Default::default());
    let before = fs::metadata(sdk.join("VERSION"))
        .unwrap()
        .modified()
        .unwrap();
    fs::remove_file(sdk.join("wit/tidegate.wit")).unwrap();
    fs::write(sdk.join("record/src/lib.rs"), "changed").unwrap();
    fs::write(sdk.join("old.rs"), "of an older version").unwrap();
    let refreshed = project.write_sdk().unwrap();
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(
        refreshed.written,
        paths(&["record/src/lib.rs", "wit/tidegate.wit"])
    );
    assert_eq!(refreshed.removed, paths(&["old.rs"]));
    assert_eq!(
        fs::metadata(sdk.join("VERSION"))
            .unwrap()
            .modified()
            .unwrap(),
        before
    );
    assert_eq!(
        project.sdk_version().as_deref(),
        Some(env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_directory_of_this_name_that_is_something_else_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::write(at("operator.toml"), "name = \"a\"\nlanguage = \"rust\"").unwrap();
    fs::create_dir(at("tidegate")).unwrap();
    fs::write(at("tidegate/notes.txt"), "mine").unwrap();
    let project = Project::open(place.path()).unwrap();
    let error = project.write_sdk().unwrap_err();
    assert!(matches!(error, ProjectError::NotOurs { .. }), "{error}");
    assert_eq!(files(&at("tidegate")).len(), 1);
}

#[test]
fn the_schema_for_editors_knows_every_key_and_word() {
    let place = tempfile::tempdir().unwrap();
    made(Language::Rust, "a", place.path());
    let schema = fs::read(place.path().join("tidegate/operator.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    let words = |key: &str| {
        schema["properties"][key]["enum"]
            .as_array()
            .unwrap()
            .clone()
    };
    let languages: Vec<&str> = Language::ALL.map(Language::word).to_vec();
    assert_eq!(words("language"), languages);
    assert_eq!(words("engine"), ["quickjs", "spidermonkey"]);
    // A mistake names every key that the reader asks for.
    let text = "name = \"a\"\nlanguage = \"rust\"\nx = 1";
    fs::write(place.path().join("operator.toml"), text).unwrap();
    let said = Project::open(place.path()).unwrap_err().to_string();
    let known = said.rsplit("there are ").next().unwrap();
    let mut known: Vec<&str> = known.split(", ").collect();
    known.sort_unstable();
    let keys: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let mut keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(known, keys);
}

#[test]
fn every_sdk_says_the_version_that_it_is_of() {
    let place = tempfile::tempdir().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for (language, file, said) in [
        (Language::C, "tidegate.h", "#define TG_SDK_VERSION "),
        (Language::Python, "__init__.py", "__version__ = "),
    ] {
        let directory = place.path().join(language.word());
        made(language, "a", &directory);
        let text = fs::read_to_string(directory.join("tidegate").join(file)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(said));
        assert_eq!(line, Some(format!("{version:?}").as_str()), "{language}");
    }
}

#[test]
fn members_of_json_stay_in_their_order_in_a_project_of_rust() {
    let place = tempfile::tempdir().unwrap();
    made(Language::Rust, "a", place.path());
    let manifest = fs::read_to_string(place.path().join("tidegate/sdk/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    // Only where cases are run without a sandbox: an operator is no larger for it.
    let native = &manifest["target"]["cfg(not(target_family = \"wasm\"))"]["dependencies"];
    let features = native["serde_json"]["features"].as_array().unwrap();
    assert_eq!(features[0].as_str(), Some("preserve_order"));
    assert!(
        manifest["dependencies"]["serde_json"]
            .get("features")
            .is_none()
    );
    let lock = fs::read_to_string(place.path().join("Cargo.lock")).unwrap();
    assert!(lock.contains("name = \"indexmap\""));
}
