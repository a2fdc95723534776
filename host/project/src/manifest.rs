//! `operator.toml`: what an operator is made of.

mod reader;

use std::path::Path;

use crate::language::{Engine, Grant, Handler, Language};
use crate::mistake::Mistakes;
use crate::name::Name;
use reader::{Found, Reader};

/// Most sources or patterns of cases that a manifest names.
const MOST: usize = 256;

/// What a manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The operator's name; its component is `NAME.wasm`.
    pub name: Name,
    /// What it is written in.
    pub language: Language,
    /// Its sources, relative to the project: one, or more of C; none where the language finds them itself.
    pub entry: Vec<String>,
    /// Where each of them stands in the manifest: line and column, from 1.
    pub(crate) entry_places: Vec<(usize, usize)>,
    /// What it imports, each once, in their order.
    pub grants: Vec<Grant>,
    /// What it exports beside the interface for records, each once, in their order. Rust says so in its sources.
    pub handlers: Vec<Handler>,
    /// What runs its JavaScript; the default for every other language.
    pub engine: Engine,
    /// Where its cases are, relative to the project or above it; `*` in a file's name stands for any text. None where it
    /// does not say: then they are `cases/*.json`, and there may be none.
    pub cases: Option<Vec<String>>,
}

impl Manifest {
    /// Reads a manifest; `file` names it in mistakes.
    pub fn parse(text: &str, file: &Path) -> Result<Manifest, Mistakes> {
        let reader = Reader::new(text, file)?;
        let name = reader.text("name").and_then(|found| {
            Name::new(&found.value)
                .map_err(|why| reader.wrong(&found, &why.to_string()))
                .ok()
        });
        if !reader.has("name") {
            reader.missing("name", "name = \"redact-pii\", the operator's name");
        }
        let languages = Language::ALL.map(|language| (language.word(), language));
        let language = reader.word("language", &languages);
        if !reader.has("language") {
            let words: Vec<&str> = languages.iter().map(|(word, _)| *word).collect();
            let words = words.join(", ");
            reader.missing("language", &format!("language = \"...\", one of {words}"));
        }
        let entry = reader.texts("entry", MOST, true);
        let (entry, entry_places) = check_entry(&reader, language, entry);
        let grants = Grant::ALL.map(|grant| (grant.word(), grant));
        let mut grants: Vec<Grant> = reader.words("grants", &grants);
        grants.sort();
        let handlers = read_handlers(&reader, language);
        let engine = check_engine(&reader, language);
        let cases = reader.texts("cases", MOST, false);
        for pattern in cases.iter().flatten() {
            check_pattern(&reader, pattern);
        }
        let cases = cases.map(|cases| cases.into_iter().map(|found| found.value).collect());
        reader.finish()?;
        // Both are there when nothing is wrong.
        let (Some(name), Some(language)) = (name, language) else {
            return Err(reader.incomplete());
        };
        Ok(Manifest {
            name,
            language,
            entry,
            entry_places,
            grants,
            handlers,
            engine: engine.unwrap_or_default(),
            cases,
        })
    }
}

fn check_entry(
    reader: &Reader<'_>,
    language: Option<Language>,
    entry: Option<Vec<Found<String>>>,
) -> (Vec<String>, Vec<(usize, usize)>) {
    let Some(language) = language else {
        return Default::default();
    };
    let extensions = language.extensions();
    let title = language.title();
    let Some(entry) = entry else {
        if let ([extension, ..], false) = (extensions, reader.has("entry")) {
            let example = match language {
                Language::C => "entry = [\"operator.c\"], the sources".to_owned(),
                _ => format!("entry = \"operator.{extension}\", the main source"),
            };
            reader.missing("entry", &example);
        }
        return Default::default();
    };
    if let (Some(first), []) = (entry.first(), extensions) {
        reader.wrong(
            first,
            &format!("{title} finds its sources itself: leave entry out"),
        );
        return Default::default();
    }
    if let (true, Some(second)) = (language != Language::C, entry.get(1)) {
        reader.wrong(
            second,
            &format!("{title} has one main source, which names the others"),
        );
    }
    if entry.is_empty() {
        reader.missing("entry", "at least one source");
    }
    for (at, found) in entry.iter().enumerate() {
        let path = Path::new(&found.value);
        let extension = path.extension().and_then(|extension| extension.to_str());
        if let Err(why) = within(&found.value) {
            reader.wrong(found, why);
        } else if entry[..at].iter().any(|other| other.value == found.value) {
            reader.wrong(found, &format!("{:?} stands here twice", found.value));
        } else if !extension.is_some_and(|extension| extensions.contains(&extension)) {
            let ends: Vec<String> = extensions.iter().map(|end| format!(".{end}")).collect();
            let ends = ends.join(" or ");
            let wrong = format!(
                "{:?} is no source of {title}: it ends with {ends}",
                found.value
            );
            reader.wrong(found, &wrong);
        } else if language == Language::Python && !is_module(&found.value) {
            let wrong = format!(
                "{:?} is no module's file: Python imports names of letters, digits and underscores",
                found.value
            );
            reader.wrong(found, &wrong);
        }
    }
    let with_place = |found: Found<String>| {
        let place = reader.place(&found);
        (found.value, place)
    };
    entry.into_iter().map(with_place).unzip()
}

fn read_handlers(reader: &Reader<'_>, language: Option<Language>) -> Vec<Handler> {
    if language == Some(Language::Rust) {
        for found in reader.texts("handlers", MOST, false).unwrap_or_default() {
            reader.wrong(
                &found,
                "Rust says it in its sources, as #[operator(..., tokens)]: leave handlers out",
            );
        }
        return Vec::new();
    }
    let words = Handler::ALL.map(|handler| (handler.word(), handler));
    let mut handlers = reader.words("handlers", &words);
    handlers.sort();
    handlers
}

fn check_engine(reader: &Reader<'_>, language: Option<Language>) -> Option<Engine> {
    let other = language
        .filter(|language| !matches!(language, Language::JavaScript | Language::TypeScript));
    let Some(other) = other else {
        return reader.word("engine", &Engine::ALL.map(|engine| (engine.word(), engine)));
    };
    if let Some(found) = reader.text("engine") {
        let title = other.title();
        reader.wrong(
            &found,
            &format!("only JavaScript and TypeScript have an engine, not {title}: leave it out"),
        );
    }
    None
}

fn check_pattern(reader: &Reader<'_>, pattern: &Found<String>) {
    // Operators that are to do the same share their cases: they may lie above.
    let mut path = pattern.value.as_str();
    while let Some(rest) = path.strip_prefix("../") {
        path = rest;
    }
    if let Err(why) = within(path) {
        return reader.wrong(pattern, why);
    }
    let (directory, file) = pattern
        .value
        .rsplit_once('/')
        .unwrap_or(("", pattern.value.as_str()));
    if directory.contains('*') || !file.ends_with(".json") {
        let wrong = format!(
            "{:?} is no pattern of cases: write \"cases/*.json\", with * in the file's name alone",
            pattern.value
        );
        reader.wrong(pattern, &wrong);
    }
}

/// Whether a path stays within the project.
fn within(path: &str) -> Result<(), &'static str> {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    match path {
        "" => Err("it is empty"),
        _ if path.contains(['\\', ':']) || path.contains(char::is_control) => {
            Err("a path has parts of letters and digits with `/` between them")
        }
        _ if path.starts_with(['-', '@']) => {
            Err("a path does not begin with `-` or `@`, which toolchains take for an option")
        }
        _ if path.starts_with('/') => Err("a path is relative to the project's directory"),
        _ if !path.split('/').all(plain) => {
            Err("a path goes down from the project's directory, without `.` and `..`")
        }
        _ => Ok(()),
    }
}

/// Whether Python can import a file by its path.
fn is_module(path: &str) -> bool {
    let identifier = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    path.strip_suffix(".py")
        .is_some_and(|path| path.split('/').all(identifier))
}
