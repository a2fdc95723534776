//! Gathers what projects are made of into the crate: the SDKs, the templates and the contract.
//!
//! The crates of the Rust SDK stand in a workspace here and alone in a project: their manifests are written out, with
//! what they take from the workspace in its place.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What lies where in a project's `tidegate/`: the crates of Rust.
const CRATES: [(&str, &str); 3] = [
    ("sdk", "plugin-sdk/rust"),
    ("macros", "plugin-sdk/rust/macros"),
    ("record", "host/record"),
];
/// SDKs whose files are taken as they are.
const PLAIN: [&str; 4] = ["c", "js", "python", "go"];
/// Where templates are.
const TEMPLATES: [(&str, &str); 6] = [
    ("rust", "rust/template"),
    ("c", "c/template"),
    ("javascript", "js/template"),
    ("typescript", "js/template-ts"),
    ("python", "python/template"),
    ("go", "go/template"),
];
/// What tools leave beside sources.
const LEFT: [&str; 5] = ["__pycache__", "node_modules", "tidegate", "build", "target"];

/// Files by their names in the crate.
#[derive(Default)]
struct Embedded(BTreeMap<String, PathBuf>);

fn main() -> Result<()> {
    let own = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let root = own.join("../..").canonicalize()?;
    let sdks = root.join("plugin-sdk");
    let mut files = Embedded::default();
    for language in PLAIN {
        files.add_below(&format!("sdk/{language}"), &sdks.join(language).join("src"))?;
    }
    let workspace = Workspace::read(&root)?;
    for (name, place) in CRATES {
        let place = root.join(place);
        let manifest = out.join(format!("{name}.Cargo.toml"));
        fs::write(&manifest, workspace.manifest(&place.join("Cargo.toml"))?)?;
        files.add(format!("sdk/rust/{name}/Cargo.toml"), manifest);
        files.add_below(&format!("sdk/rust/{name}/src"), &place.join("src"))?;
    }
    files.add("sdk/rust/sdk/README.md".into(), sdks.join("rust/README.md"));
    for (language, place) in TEMPLATES {
        files.add_below(&format!("template/{language}"), &sdks.join(place))?;
    }
    let lock = out.join("Cargo.lock");
    fs::write(&lock, locked(&root)?)?;
    files.add("template/rust/Cargo.lock".into(), lock);
    let wit = root.join("wit/tidegate.wit");
    files.add("shared/wit/tidegate.wit".into(), wit);
    for entry in fs::read_dir(&sdks)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let name = format!("shared/{}", shown(path.file_name().map(Path::new))?);
            files.add(name, path);
        }
    }
    // A file that comes or goes changes the time of its directory.
    println!("cargo:rerun-if-changed={}", sdks.display());
    fs::write(out.join("embedded.rs"), files.source()?)?;
    Ok(())
}

impl Embedded {
    fn add(&mut self, name: String, path: PathBuf) {
        println!("cargo:rerun-if-changed={}", path.display());
        self.0.insert(name, path);
    }

    /// Every file below a directory; a directory that is not there has none.
    fn add_below(&mut self, name: &str, directory: &Path) -> Result<()> {
        if !directory.is_dir() {
            return Ok(());
        }
        println!("cargo:rerun-if-changed={}", directory.display());
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let file = shown(path.file_name().map(Path::new))?;
            if LEFT.contains(&file.as_str()) || file.ends_with(".wasm") {
                continue;
            }
            let name = format!("{name}/{file}");
            match path.is_dir() {
                true => self.add_below(&name, &path)?,
                false => self.add(name, path),
            }
        }
        Ok(())
    }

    /// A table of them, sorted by name.
    fn source(&self) -> Result<String> {
        let mut source = String::from("static FILES: &[(&str, &[u8])] = &[\n");
        for (name, path) in &self.0 {
            let path = shown(Some(path))?;
            writeln!(source, "    ({name:?}, include_bytes!({path:?})),")?;
        }
        source.push_str("];\n");
        Ok(source)
    }
}

fn shown(path: Option<&Path>) -> Result<String> {
    let text = path.and_then(Path::to_str);
    Ok(text.ok_or("a path is no text")?.to_owned())
}

/// What crates take from their workspace: `version` of the package, `serde` of the dependencies.
struct Workspace(BTreeMap<String, String>);

impl Workspace {
    fn read(root: &Path) -> Result<Workspace> {
        let file = root.join("Cargo.toml");
        println!("cargo:rerun-if-changed={}", file.display());
        let text = fs::read_to_string(file)?;
        let mut values = BTreeMap::new();
        let mut table = "";
        for line in text.lines() {
            if line.starts_with('[') {
                table = line;
            } else if let ("[workspace.package]" | "[workspace.dependencies]", Some((key, value))) =
                (table, line.split_once(" = "))
            {
                values.insert(key.trim().to_owned(), value.trim().to_owned());
            }
        }
        for (name, place) in CRATES {
            let own = fs::read_to_string(root.join(place).join("Cargo.toml"))?;
            let package = own.lines().find_map(|line| line.strip_prefix("name = "));
            let package = package.ok_or_else(|| format!("{place} has no name"))?;
            let value = format!("{{ path = \"../{name}\" }}");
            values.insert(package.trim_matches('"').to_owned(), value);
        }
        Ok(Workspace(values))
    }

    /// The manifest of a crate as it stands alone: without tests and lints.
    fn manifest(&self, file: &Path) -> Result<String> {
        println!("cargo:rerun-if-changed={}", file.display());
        let text = fs::read_to_string(file)?;
        let mut alone = String::from("# Made of the crate of this name in Tidegate.\n");
        let mut is_left = false;
        for line in text.lines() {
            if line.starts_with('[') {
                is_left = matches!(line, "[dev-dependencies]" | "[lints]");
            }
            if is_left {
                continue;
            }
            match line.split_once(".workspace = true") {
                Some((key, _)) => {
                    let value = self.0.get(key.trim());
                    let value = value.ok_or_else(|| format!("the workspace has no {key}"))?;
                    writeln!(alone, "{} = {value}", key.trim())?;
                }
                None => writeln!(alone, "{line}")?,
            }
        }
        Ok(alone.trim_end().to_owned() + "\n")
    }
}

/// What a project of Rust is built with: the versions that this workspace was tested with.
fn locked(root: &Path) -> Result<String> {
    let file = root.join("Cargo.lock");
    println!("cargo:rerun-if-changed={}", file.display());
    let text = fs::read_to_string(file)?;
    let packages: Vec<&str> = text
        .split("\n\n")
        .filter(|block| block.contains("[[package]]"))
        .collect();
    let mut kept = vec![false; packages.len()];
    let mut wanted = vec!["tidegate-sdk".to_owned()];
    while let Some(name) = wanted.pop() {
        for (package, kept) in packages.iter().zip(&mut kept) {
            if *kept || !is_named(package, &name) {
                continue;
            }
            *kept = true;
            // Tests of a crate of the workspace are not in a project.
            let needed = dependencies(package).filter(|needed| *needed != "proptest");
            wanted.extend(needed.map(str::to_owned));
        }
    }
    let kept = packages.iter().zip(kept).filter(|(_, kept)| *kept);
    let blocks: Vec<String> = kept
        .map(|(package, _)| package.trim().replace(" \"proptest\",\n", ""))
        .collect();
    Ok(format!("version = 4\n\n{}\n", blocks.join("\n\n")))
}

/// Whether a package of a lock file is the one that a dependency names: `serde`, or `wasmparser 0.254.2`.
fn is_named(package: &str, dependency: &str) -> bool {
    let mut words = dependency.split(' ');
    let value = |key: &str| {
        let lines = package.lines();
        lines.filter_map(|line| line.strip_prefix(key)).next()
    };
    let is = |key: &str, word: Option<&str>| {
        word.is_none_or(|word| value(key).is_some_and(|found| found.trim_matches('"') == word))
    };
    is("name = ", words.next()) && is("version = ", words.next())
}

fn dependencies(package: &str) -> impl Iterator<Item = &str> {
    let list = package
        .split_once("dependencies = [")
        .map_or("", |(_, list)| list);
    list.split('"').skip(1).step_by(2)
}
