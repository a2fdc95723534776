//! The pages of `docs` as a book of HTML, with every other document of the repository behind them.
//!
//! The book's source is the repository once more, in `target/docs/src`: so a link that works where a page lies works in
//! the book too, whether it leads to a page or to a source file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::operators::target_directory;
use crate::steps::{cargo, output, run};

/// The program that makes the book, with search and without its server.
const MDBOOK: &str = "0.5.4";

/// Where the pages of the book lie.
const PAGES: &str = "docs/src";

/// Longest file that goes into the book, bytes: models stay out.
const LONGEST: u64 = 1 << 20;

/// Makes the book in `target/book`.
pub(crate) fn book(root: &Path) -> Result<()> {
    let mdbook = mdbook(root)?;
    let source = target_directory(root).join("docs");
    let made = target_directory(root).join("book");
    assemble(root, &source)?;
    // What an earlier book had is not in this one.
    match fs::remove_dir_all(&made) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", made.display()));
        }
        _ => {}
    }
    run(Command::new(mdbook)
        .arg("build")
        .arg(&source)
        .arg("--dest-dir")
        .arg(&made))?;
    let pages = check_links(&made)?;
    println!("{pages} pages in {}", made.display());
    Ok(())
}

/// The program, installed below `target` if it is not there.
fn mdbook(root: &Path) -> Result<PathBuf> {
    let tools = target_directory(root).join("tools");
    let program = tools.join("bin").join("mdbook");
    let version = output(Command::new(&program).arg("--version"));
    if version.is_none_or(|version| version.trim() != format!("mdbook v{MDBOOK}")) {
        run(cargo()
            .args([
                "install",
                "mdbook",
                "--locked",
                "--no-default-features",
                "--features",
                "search",
            ])
            .args(["--version", &format!("={MDBOOK}"), "--root"])
            .arg(&tools))?;
    }
    Ok(program)
}

/// Copies what git knows, with a summary of all pages.
fn assemble(root: &Path, book: &Path) -> Result<()> {
    let source = book.join("src");
    match fs::remove_dir_all(&source) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", source.display()));
        }
        _ => {}
    }
    let listed = output(
        Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root),
    );
    let Some(listed) = listed else {
        bail!("git does not list the files of {}", root.display());
    };
    let mut documents = Vec::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), source.join(name));
        // A file that was removed is still listed until that is committed.
        let Ok(metadata) = fs::metadata(&from) else {
            continue;
        };
        if !metadata.is_file() || metadata.len() > LONGEST {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        fs::copy(&from, &to).with_context(|| format!("cannot copy {name}"))?;
        if name.ends_with(".md") && !is_template(name) {
            documents.push(name.to_owned());
        }
    }
    let read = |name: &str| {
        fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))
    };
    let summary = summary(&read(&format!("{PAGES}/SUMMARY.md"))?, &documents, read)?;
    fs::write(source.join("SUMMARY.md"), summary)
        .context("cannot write the summary of the book")?;
    fs::copy(root.join("docs/book.toml"), book.join("book.toml"))
        .context("cannot copy docs/book.toml")?;
    Ok(())
}

/// Whether a document is written into projects, with names that are filled in.
fn is_template(name: &str) -> bool {
    name.starts_with("plugin-sdk/") && name.contains("/template")
}

/// The README, the pages of the book, and after them every other document under its title.
fn summary(
    pages: &str,
    documents: &[String],
    read: impl Fn(&str) -> Result<String>,
) -> Result<String> {
    let mut summary = String::from("# Summary\n\n[Tidegate](README.md)\n");
    for line in pages.lines().filter(|line| *line != "# Summary") {
        summary.push_str(&line.replace("](", &format!("]({PAGES}/")));
        summary.push('\n');
    }
    summary.push_str("\n# In the repository\n\n");
    let others = documents
        .iter()
        .filter(|name| !name.starts_with(PAGES) && *name != "README.md");
    for name in others {
        let text = read(name)?;
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        let title = title.with_context(|| format!("{name} has no title"))?;
        summary.push_str(&format!("- [{}]({name})\n", title.replace('`', "")));
    }
    Ok(summary)
}

/// Looks at each link of each page that was made; gives their number.
fn check_links(book: &Path) -> Result<usize> {
    let (mut pages, mut places, mut lost) = (0, vec![book.to_path_buf()], Vec::new());
    while let Some(place) = places.pop() {
        let entries =
            fs::read_dir(&place).with_context(|| format!("cannot list {}", place.display()))?;
        for entry in entries {
            let path = entry
                .with_context(|| format!("cannot list {}", place.display()))?
                .path();
            if path.is_dir() {
                places.push(path);
                continue;
            }
            // The page of what is not found has links from anywhere.
            let is_page = path
                .extension()
                .is_some_and(|extension| extension == "html");
            if !is_page || path.ends_with("404.html") {
                continue;
            }
            pages += 1;
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let links = text
                .split("href=\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next());
            for link in links.filter(|link| !link.contains(':')) {
                let target = link.split('#').next().unwrap_or_default();
                if !target.is_empty() && !place.join(target).is_file() {
                    lost.push(format!("{}: {link}", path.display()));
                }
            }
        }
    }
    ensure!(
        lost.is_empty(),
        "links of the book that lead nowhere:\n{}",
        lost.join("\n")
    );
    Ok(pages)
}
