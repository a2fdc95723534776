//! Links: each leads to a file of the repository, to a heading of a page, or to the world outside.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use tidegate_tests::root;

use super::page::{Page, pages};

/// The book's own pages.
const BOOK: &str = "docs/src";

/// A path without `.` and `..`; none if it leaves the repository.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    Some(plain)
}

/// What is wrong with a link, if anything.
fn wrong(page: &Page, destination: &str) -> Option<String> {
    if destination.starts_with("https://") {
        return None;
    }
    if destination.contains(':') {
        return Some("is neither a path nor https".into());
    }
    let (path, anchor) = destination
        .split_once('#')
        .map_or((destination, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() {
        page.path.clone()
    } else {
        match plain(&page.path.parent().unwrap().join(path)) {
            Some(target) => target,
            None => return Some("leaves the repository".into()),
        }
    };
    let file = root().join(&target);
    if file.is_dir() {
        return Some("leads to a directory, which the book cannot show; name a file in it".into());
    }
    if !file.exists() {
        return Some(format!("leads to {}, which is not there", target.display()));
    }
    let anchor = anchor?;
    if target.extension().is_none_or(|extension| extension != "md") {
        return Some("has an anchor in a file that is no page".into());
    }
    let anchors = Page::read(&target).anchors();
    (!anchors.contains(anchor)).then(|| format!("names no heading of {}", target.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut mistakes = Vec::new();
    for page in pages() {
        for link in page.links() {
            if let Some(what) = wrong(&page, &link.destination) {
                let (path, line) = (page.path.display(), link.line);
                mistakes.push(format!("{path}:{line}: {:?} {what}", link.destination));
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn every_page_of_the_book_is_in_its_summary_once() {
    let summary = Page::read(Path::new(BOOK).join("SUMMARY.md"));
    let mut listed = BTreeSet::new();
    for link in summary.links() {
        let page = plain(&Path::new(BOOK).join(&link.destination));
        let page = page.filter(|page| page.starts_with(BOOK));
        let page = page.unwrap_or_else(|| panic!("{:?} is no page of the book", link.destination));
        assert!(
            listed.insert(page.clone()),
            "{} is listed twice",
            page.display()
        );
    }
    let pages = pages().into_iter().map(|page| page.path);
    let written: BTreeSet<PathBuf> = pages
        .filter(|path| path.starts_with(BOOK) && *path != summary.path)
        .collect();
    assert_eq!(listed, written);
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let page = Page::read("README.md");
    for (destination, what) in [
        ("LICENSE", None),
        ("https://example.com/#anything", None),
        ("wit/README.md#which-world", None),
        ("wit/README.md#no-world", Some("names no heading")),
        ("wit", Some("leads to a directory")),
        ("nothing.md", Some("is not there")),
        ("../README.md", Some("leaves the repository")),
        ("http://example.com", Some("neither a path nor https")),
        ("LICENSE#a", Some("no page")),
    ] {
        let found = wrong(&page, destination);
        match what {
            None => assert_eq!(found, None, "{destination}"),
            Some(what) => assert!(
                found.is_some_and(|found| found.contains(what)),
                "{destination}"
            ),
        }
    }
}
