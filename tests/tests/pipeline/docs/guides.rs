//! Guides: what they have a newcomer type is typed, from an empty folder, and what they say comes out comes out.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_tests::{full, root, target, until};

use super::expected::missing;
use super::page::{Block, Page};
use super::session::{Session, Typed};

/// How long what runs in another terminal may take to print what is said, or to be found.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a command says that looks for a pipeline that has not come up yet.
const NOT_UP: &str = "no running host found";

/// The languages that have a guide.
const LANGUAGES: [&str; 5] = ["c", "go", "javascript", "python", "rust"];

/// Types the blocks of a page under a heading, or all of them, into a terminal in a folder.
fn follow(page: &Page, heading: Option<&str>, session: &mut Session) -> String {
    let mut last: Option<Typed> = None;
    let (mut in_background, mut started) = (false, false);
    let mut followed = 0;
    for block in page.blocks() {
        if heading.is_some_and(|heading| heading != block.heading) {
            continue;
        }
        followed += 1;
        let place = format!("{}:{}", page.path.display(), block.line);
        match block.language.as_str() {
            "sh" if block.is("background") => {
                // Here it stays in the terminal that was used before, with its variables.
                last = Some(match block.is("here") {
                    true => session.stay(&block.text),
                    false => session.start(&block.text),
                });
                (in_background, started) = (true, true);
            }
            "sh" => {
                let typed = run(session, &block, started, &place);
                last = Some(typed);
                in_background = false;
            }
            "text" => {
                let typed = last
                    .as_ref()
                    .unwrap_or_else(|| panic!("{place}: printed by nothing"));
                if in_background {
                    let what = format!("{place}: what is said to be printed");
                    until(&what, PATIENCE, || {
                        missing(&block.text, &typed.printed()).is_none()
                    });
                }
                if let Some(line) = missing(&block.text, &typed.printed()) {
                    panic!("{place}: {line:?} was not printed in\n{}", typed.printed());
                }
            }
            _ => write_or_compare(page, &block, &session.directory(), &place),
        }
    }
    assert!(
        followed > 0,
        "{}: no code under {heading:?}",
        page.path.display()
    );
    last.map(|typed| typed.printed()).unwrap_or_default()
}

/// Types a block. What runs in another terminal may still be starting: then a person tries again.
fn run(session: &mut Session, block: &Block, started: bool, place: &str) -> Typed {
    let patient = Instant::now() + PATIENCE;
    loop {
        let (typed, status) = session.run(&block.text);
        if status.success() == block.is("fails") {
            let printed = typed.printed();
            if started && printed.contains(NOT_UP) && Instant::now() < patient {
                std::thread::sleep(Duration::from_millis(200));
                continue;
            }
            panic!("{place}: {status}\n{}\n{printed}", block.text);
        }
        return typed;
    }
}

/// A block of a file: the whole of it, which is written, or lines that a file there has.
fn write_or_compare(page: &Page, block: &Block, directory: &Path, place: &str) {
    let path = block.named("file").or(block.named("in"));
    let path = path.unwrap_or_else(|| {
        let language = &block.language;
        panic!("{place}: of which file is it? ```{language},file=PATH writes it, ```{language},in=PATH compares")
    });
    assert_named(page, path, place);
    let file = directory.join(path);
    if block.named("file").is_some() {
        std::fs::write(&file, &block.text).unwrap_or_else(|error| panic!("{place}: {error}"));
    } else {
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{place}: {path}: {error}"));
        assert!(
            text.contains(&block.text),
            "{place}: {path} has no such lines:\n{text}"
        );
    }
}

/// A reader sees no word behind a fence: the page itself names the file.
fn assert_named(page: &Page, path: &str, place: &str) {
    let is_named = page.text().contains(&format!("`{path}`"));
    assert!(is_named, "{place}: the page does not say {path}");
}

/// What a person has at hand who has only installed the toolchains: a home of their own, and the caches that are kept
/// of what a registry gave.
fn clean(home: &Path) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("HOME".into(), home.into()),
        ("XDG_CACHE_HOME".into(), home.join(".cache").into()),
        ("XDG_CONFIG_HOME".into(), home.join(".config").into()),
    ];
    let Some(real) = std::env::var_os("HOME").map(PathBuf::from) else {
        return environment;
    };
    for (name, place) in [
        ("RUSTUP_HOME", ".rustup"),
        ("CARGO_HOME", ".cargo"),
        ("NPM_CONFIG_USERCONFIG", ".npmrc"),
    ] {
        let place = real.join(place);
        if std::env::var_os(name).is_none() && place.exists() {
            environment.push((name.into(), place.into()));
        }
    }
    environment
}

/// What is built of the workspace's own dependencies is kept between runs, for each language, and cargo fetches nothing.
fn kept(language: &str) -> Vec<(OsString, OsString)> {
    let place = target().join("guides").join(language);
    vec![
        ("CARGO_TARGET_DIR".into(), place.into()),
        ("CARGO_NET_OFFLINE".into(), "true".into()),
    ]
}

/// Held by who makes an operator in Rust: one place keeps what is built of its dependencies, and its components have one
/// name.
static RUST: Mutex<()> = Mutex::new(());

#[test]
fn an_operator_is_made_and_swapped_as_the_readme_says() {
    let _alone = RUST.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::new(folder.path(), kept("rust"));
    let page = Page::read("README.md");
    follow(&page, Some("Write an operator"), &mut session);
    follow(&page, Some("Swap it while the stream runs"), &mut session);
}

#[test]
fn a_model_is_asked_as_the_readme_says() {
    let folder = tempfile::tempdir().unwrap();
    let examples = folder.path().join("examples");
    std::fs::create_dir_all(examples.join("support-bot")).unwrap();
    for name in ["model", "tickets.jsonl"] {
        let place = Path::new("support-bot").join(name);
        std::os::unix::fs::symlink(root().join("examples").join(&place), examples.join(&place))
            .unwrap();
    }
    let mut session = Session::new(folder.path(), kept("rust"));
    let printed = follow(&Page::read("README.md"), Some("Ask a model"), &mut session);
    let records: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 2, "{printed}");
    for record in records {
        let answer = record["answer"].as_str().unwrap();
        assert!(!answer.is_empty(), "{record}");
    }
}

/// Follows the guide of a language, with nothing but what it says: where the long tests run from an empty home, else with
/// the toolchains that are there.
fn follow_guide(language: &str) {
    let place = tempfile::tempdir().unwrap();
    let (home, folder) = (place.path().join("home"), place.path().join("folder"));
    std::fs::create_dir(&home).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let page = Page::read(format!("docs/src/operators/{language}.md"));
    let environment = match full() {
        true => clean(&home),
        false => kept(language),
    };
    follow(&page, None, &mut Session::new(&folder, environment));
}

#[test]
fn an_operator_in_rust_is_made_as_its_guide_says() {
    let _alone = RUST.lock().unwrap_or_else(PoisonError::into_inner);
    follow_guide("rust");
}

#[test]
fn an_operator_in_c_is_made_as_its_guide_says() {
    follow_guide("c");
}

#[test]
fn an_operator_in_javascript_is_made_as_its_guide_says() {
    follow_guide("javascript");
}

#[test]
fn an_operator_in_python_is_made_as_its_guide_says() {
    follow_guide("python");
}

#[test]
fn an_operator_in_go_is_made_as_its_guide_says() {
    follow_guide("go");
}

/// Where Kafka's own tool is on the path. What the guide makes is removed first, if an earlier run has left it.
fn kafka_tools(place: &Path, page: &Page) -> OsString {
    let stand_in = target().join("release/tidegate-kafka-topics");
    std::os::unix::fs::symlink(stand_in, place.join("kafka-topics.sh")).unwrap();
    let mut path = place.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let mut blocks = page.blocks().into_iter();
    let removing = blocks
        .find(|block| block.text.contains("--delete"))
        .unwrap();
    let mut session = Session::with_path(place, Vec::new(), path.clone());
    let (typed, status) = session.run(&removing.text);
    assert!(status.success(), "{}", typed.printed());
    path
}

/// Needs a broker: `cargo xtask test` starts one.
#[test]
fn three_processes_share_a_topic_and_one_is_killed_as_the_guide_says() {
    assert!(
        std::env::var_os("TIDEGATE_KAFKA").is_some(),
        "this test needs a broker: run cargo xtask test, or cargo xtask kafka and set TIDEGATE_KAFKA"
    );
    let page = Page::read("docs/src/kafka.md");
    let (tools, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = kafka_tools(tools.path(), &page);
    let mut session = Session::with_path(folder.path(), Vec::new(), path);
    follow(&page, Some(THREE), &mut session);
}

/// The heading of the guide, and of its short form.
const THREE: &str = "Three processes on one topic";

#[test]
fn the_readme_says_of_three_processes_what_the_guide_says() {
    let under = |page: &str| {
        let blocks = Page::read(page).blocks().into_iter();
        let blocks = blocks.filter(|block| block.heading == THREE);
        blocks.map(|block| block.text).collect::<Vec<_>>()
    };
    let (short, whole) = (under("README.md"), under("docs/src/kafka.md"));
    assert!(!short.is_empty());
    let mut rest = whole.iter();
    for block in &short {
        assert!(
            rest.any(|known| known == block),
            "the guide has not, or not there: {block}"
        );
    }
}

#[test]
fn every_guide_is_written_so_that_it_can_be_followed() {
    for language in LANGUAGES {
        let page = Page::read(format!("docs/src/operators/{language}.md"));
        let mut kinds = BTreeSet::new();
        for block in page.blocks() {
            let (path, line) = (page.path.display(), block.line);
            let known: &[&str] = match block.language.as_str() {
                "sh" => &["background", "fails"],
                "text" => &[],
                _ => &["file", "in"],
            };
            for word in block.words() {
                let name = word.split('=').next().unwrap_or_default();
                assert!(
                    known.contains(&name),
                    "{path}:{line}: {word:?} says nothing to the test"
                );
            }
            let file = block.named("file").or(block.named("in"));
            if let Some(file) = file {
                assert_named(&page, file, &format!("{path}:{line}"));
            }
            let is_file = !["sh", "text"].contains(&block.language.as_str());
            assert_eq!(
                file.is_some(),
                is_file,
                "{path}:{line}: a block of a file names it, no other does"
            );
            kinds.insert(block.language);
        }
        assert!(
            kinds.contains("sh") && kinds.contains("text"),
            "{language}: nothing to type, or nothing that comes out"
        );
    }
}

/// The operator of `docs/src/operators/tokens.md` in a language, in a project with nothing else of its own.
fn handles_tokens_as_its_page_says(language: &str) {
    let page = Page::read("docs/src/operators/tokens.md");
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("plain-text");
    let mut session = Session::new(folder.path(), kept(language));
    let mut type_in = |command: String| {
        let (typed, status) = session.run(&command);
        assert!(status.success(), "{command}\n{}", typed.printed());
        typed.printed()
    };
    type_in(format!("tidegate new plain-text --lang {language}"));
    let mut written = 0;
    for block in page.blocks() {
        let is_cases = block.language == "json";
        if let (true, Some(file)) = (
            is_cases || block.heading.to_lowercase() == language,
            block.named("file"),
        ) {
            std::fs::write(project.join(file), &block.text).unwrap();
            written += 1;
        }
    }
    assert_eq!(written, 2, "the operator and its cases");
    if language != "rust" {
        let manifest = project.join("operator.toml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        std::fs::write(&manifest, text + "handlers = [\"tokens\"]\n").unwrap();
    }
    let said = type_in("cd plain-text && tidegate test --no-native".to_owned());
    assert!(said.contains("2 passed, 0 failed"), "{said}");
}

#[test]
fn the_page_on_tokens_has_an_operator_in_rust() {
    let _alone = RUST.lock().unwrap_or_else(PoisonError::into_inner);
    handles_tokens_as_its_page_says("rust");
}

#[test]
fn the_page_on_tokens_has_an_operator_in_c() {
    handles_tokens_as_its_page_says("c");
}

#[test]
fn the_page_on_tokens_has_an_operator_in_javascript() {
    handles_tokens_as_its_page_says("javascript");
}

#[test]
fn the_page_on_tokens_has_an_operator_in_python() {
    handles_tokens_as_its_page_says("python");
}

#[test]
fn the_page_on_tokens_has_an_operator_in_go() {
    handles_tokens_as_its_page_says("go");
}
