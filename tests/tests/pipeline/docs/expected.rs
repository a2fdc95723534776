//! What a page says that a command prints, held against what it printed.

use std::sync::LazyLock;

use regex::Regex;

/// What differs from run to run, and what is compared in its place.
static CHANGING: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
    [
        // Colours.
        ("\u{1b}\\[[0-9;]*[A-Za-z]", ""),
        ("sha256:[0-9a-f]*(\\.\\.\\.)?", "a digest"),
        (r"\d[\d.,]* ?(ns|us|µs|ms|s|min)\b", "a time"),
        (r"\d[\d.,]* ?(B|[kKMG]i?B)\b", "a size"),
        (r"\d[\d.,]* ?[kM]?/(s|a time)", "a rate"),
    ]
    .map(|(what, instead)| (Regex::new(what).unwrap(), instead))
});

/// A line without what differs from run to run.
fn plain(line: &str) -> String {
    let mut line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    for (changing, instead) in CHANGING.iter() {
        line = changing.replace_all(&line, *instead).into_owned();
    }
    line
}

/// Whether a line was meant: `...` stands for anything.
fn fits(expected: &str, printed: &str) -> bool {
    let mut parts = expected.split("...").map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    // Without `...` at its end, the line ends where it is said to.
    last == Some("") || rest.is_empty() || last.is_some_and(|last| printed.ends_with(last))
}

/// The first line that was expected and was not printed after those before it. Digests, times, sizes and rates may be
/// others, and more may be printed.
pub(super) fn missing<'e>(expected: &'e str, printed: &str) -> Option<&'e str> {
    let mut printed = printed.lines().map(plain);
    expected.lines().find(|line| {
        let wanted = plain(line);
        let is_gap = wanted.is_empty() || wanted == "...";
        !is_gap && !printed.any(|line| fits(&wanted, &line))
    })
}

#[test]
fn what_is_printed_is_held_against_what_a_page_says() {
    let printed = "Compiling\n\u{1b}[1mbuilt a.wasm: 1.2 MB, imports log, 950 ms\u{1b}[0m\nsha256:aa11 -> sha256:bb22...\n\
                   3 passed in 0.01s\n  records in    3 (7/s)\n";
    for (expected, first) in [
        ("built a.wasm: 18.4 MB, imports log, 6.1 s\n", None),
        ("sha256:5d0c2a7f41be... -> sha256:0\n\n3 passed in 2s", None),
        ("built ... log, ...\n...\n3 passed ...\n", None),
        ("sha256:... -> sha256:...", None),
        ("records in 3 (34.6/s)", None),
        (
            "built b.wasm: 18.4 MB, imports log, 6.1 s",
            Some("built b.wasm: 18.4 MB, imports log, 6.1 s"),
        ),
        ("4 passed in 2s", Some("4 passed in 2s")),
        ("3 passed", Some("3 passed")),
        ("... imports ...", None),
        // In the order in which they were printed.
        ("3 passed ...\nCompiling", Some("Compiling")),
        ("... failed in ...", Some("... failed in ...")),
    ] {
        assert_eq!(missing(expected, printed), first, "{expected}");
    }
}
