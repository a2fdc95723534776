//! A page of Markdown: its blocks of code, its links, and the anchors that links may name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use tidegate_tests::root;

/// A document of the repository.
pub(super) struct Page {
    /// From the top of the repository.
    pub(super) path: PathBuf,
    text: String,
}

/// A block of code between fences.
pub(super) struct Block {
    /// The line of the page that it begins on, from 1.
    pub(super) line: usize,
    /// The first word behind the fence; empty if there is none.
    pub(super) language: String,
    /// The words after it, with commas between: `sh,background`, `rust,file=src/lib.rs`.
    words: Vec<String>,
    pub(super) text: String,
    /// The heading above.
    pub(super) heading: String,
}

impl Block {
    /// Whether a word stands behind the language.
    pub(super) fn is(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }

    /// What stands behind `NAME=`.
    pub(super) fn named(&self, name: &str) -> Option<&str> {
        self.words
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// The words that say what becomes of the block.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }
}

/// A link, or an image.
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) destination: String,
}

impl Page {
    /// Reads a page by its path from the top of the repository.
    pub(super) fn read(path: impl Into<PathBuf>) -> Page {
        let path = path.into();
        let text = std::fs::read_to_string(root().join(&path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Page { path, text }
    }

    fn events(&self) -> impl Iterator<Item = (Event<'_>, usize)> {
        let parser = Parser::new_ext(&self.text, Options::ENABLE_TABLES);
        parser
            .into_offset_iter()
            .map(|(event, range)| (event, range.start))
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text[..offset].matches('\n').count()
    }

    /// The page's text as it is.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// All blocks of code, in order.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open) = (Vec::new(), false);
        let (mut heading, mut in_heading) = (String::new(), false);
        for (event, offset) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => {
                    heading.clear();
                    in_heading = true;
                }
                Event::End(TagEnd::Heading(_)) => in_heading = false,
                Event::Text(text) | Event::Code(text) if in_heading => heading.push_str(&text),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    let mut words = info.split([',', ' ']).map(str::to_owned);
                    blocks.push(Block {
                        line: self.line(offset),
                        language: words.next().unwrap_or_default(),
                        words: words.filter(|word| !word.is_empty()).collect(),
                        text: String::new(),
                        heading: heading.clone(),
                    });
                    open = true;
                }
                Event::End(TagEnd::CodeBlock) => open = false,
                Event::Text(text) if open => {
                    if let Some(block) = blocks.last_mut() {
                        block.text.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        blocks
    }

    /// All links and images, those to other places of the world included.
    pub(super) fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for (event, offset) in self.events() {
            if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
                links.push(Link {
                    line: self.line(offset),
                    destination: dest_url.into_string(),
                });
            }
        }
        links
    }

    /// What may stand behind `#` in a link to this page: its headings, as forges and mdBook name them.
    pub(super) fn anchors(&self) -> BTreeSet<String> {
        let (mut anchors, mut open) = (BTreeSet::new(), None::<String>);
        for (event, _) in self.events() {
            match (event, &mut open) {
                (Event::Start(Tag::Heading { .. }), _) => open = Some(String::new()),
                (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
                (Event::End(TagEnd::Heading(_)), _) => {
                    let name = anchor(&open.take().unwrap_or_default());
                    let again = (1..).map(|number| format!("{name}-{number}"));
                    let mut names = std::iter::once(name.clone()).chain(again);
                    anchors.extend(names.find(|name| !anchors.contains(name)));
                }
                _ => {}
            }
        }
        anchors
    }

    /// Rows of the tables under each heading: the heading, and the text of the first cell.
    pub(super) fn first_cells(&self) -> Vec<(String, Vec<String>)> {
        let (mut rows, mut heading, mut in_heading) = (Vec::new(), String::new(), false);
        let (mut in_row, mut cell, mut codes) = (false, 0, Vec::new());
        for (event, _) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => {
                    heading.clear();
                    in_heading = true;
                }
                Event::End(TagEnd::Heading(_)) => in_heading = false,
                Event::Text(text) | Event::Code(text) if in_heading => heading.push_str(&text),
                Event::Start(Tag::TableRow) => (in_row, cell) = (true, 0),
                Event::End(TagEnd::TableRow) => {
                    in_row = false;
                    rows.push((heading.clone(), std::mem::take(&mut codes)));
                }
                Event::End(TagEnd::TableCell) => cell += 1,
                Event::Code(text) if in_row && cell == 0 => codes.push(text.into_string()),
                _ => {}
            }
        }
        rows
    }
}

/// The name of a heading in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|character| {
        if character.is_whitespace() {
            Some('-')
        } else if character.is_alphanumeric() || "-_".contains(character) {
            Some(character)
        } else {
            None
        }
    });
    kept.collect::<String>().to_lowercase()
}

/// Every page of the repository, by its path; those that are made, or are text for other pages, are none.
pub(super) fn pages() -> Vec<Page> {
    let (mut found, mut places) = (Vec::new(), vec![root()]);
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !is_made(&path, &name) {
                    places.push(path);
                }
            } else if name.ends_with(".md") {
                found.push(path.strip_prefix(root()).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found.into_iter().map(Page::read).collect()
}

/// Whether a directory is no part of the repository, or holds what `tidegate new` fills in.
fn is_made(path: &Path, name: &str) -> bool {
    let made = ["target", "node_modules", "tidegate"];
    let is_template = name.starts_with("template") && path.starts_with(root().join("plugin-sdk"));
    let is_example =
        name.starts_with("my-") && path.parent().is_some_and(|it| it.ends_with("examples"));
    name.starts_with('.') || made.contains(&name) || is_template || is_example
}

#[test]
fn a_page_is_read_as_it_is_shown() {
    let page = Page {
        path: "page.md".into(),
        text: "# One `two`\n\n[a](b.md#c)\n\n```rust,file=src/lib.rs\nfn f() {}\n```\n\n## One: two!\n\n```sh,background\n\
               ls\n```\n\n## One two\n\n| `a`, `b` | `c` |\n|-|-|\n| `d`, `e` | `f` |\n"
            .into(),
    };
    let blocks = page.blocks();
    assert_eq!(blocks.len(), 2);
    assert_eq!((blocks[0].language.as_str(), blocks[0].line), ("rust", 5));
    assert_eq!(blocks[0].named("file"), Some("src/lib.rs"));
    assert_eq!(blocks[0].heading, "One two");
    assert!(blocks[1].is("background"));
    assert_eq!(blocks[1].text, "ls\n");
    assert_eq!(page.links()[0].destination, "b.md#c");
    let anchors = ["one-two", "one-two-1", "one-two-2"];
    assert_eq!(page.anchors(), anchors.map(str::to_owned).into());
    let cells = page.first_cells();
    assert_eq!(
        cells,
        [("One two".to_owned(), vec!["d".to_owned(), "e".to_owned()])]
    );
}
