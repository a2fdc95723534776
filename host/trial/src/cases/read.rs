//! Reading a file of cases. Every mistake is said with its line, its case and its member.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_control::config::{duration, size};

use super::bytes::Made;
use super::records::{MICROS, record};
use super::{
    Case, CaseFile, Expected, LimitChanges, MAX_CASES, MAX_FILE, MAX_RECORDS, Places, expected,
    tokens,
};
use crate::json::{Mistake, Node, quoted};

/// Bytes of a case's name.
const NAME_BYTES: usize = 500;
/// The clock where a case has none.
const CLOCK: i64 = 1_700_000_000_000_000;
/// What is drawn from where a case says nothing.
const SEED: [u8; 16] = *b"a seed for tests";

/// Why a file of cases is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CasesError {
    /// The file, or a directory of files, cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// Where it is.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is too long.
    #[error("{} has more than {MAX_FILE} bytes, which is the limit", .path.display())]
    TooLong {
        /// Where it is.
        path: PathBuf,
    },
    /// There are no files of cases in a directory.
    #[error("{} has no files of cases: *.json", .path.display())]
    NoFiles {
        /// The directory.
        path: PathBuf,
    },
    /// Something in it is wrong.
    #[error("{} {mistake}", .path.display())]
    Mistake {
        /// Where the file is.
        path: PathBuf,
        /// What is wrong, and where.
        mistake: Mistake,
    },
}

impl CaseFile {
    /// Reads the file at this path.
    pub fn open(path: &Path) -> Result<CaseFile, CasesError> {
        let bytes = bytes(path).map_err(|error| CasesError::Read {
            path: path.to_owned(),
            error,
        })?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(CasesError::TooLong {
                path: path.to_owned(),
            });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let whole = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..whole]);
            CasesError::Mistake {
                path: path.to_owned(),
                mistake: Mistake::after(&before, "it is not UTF-8"),
            }
        })?;
        CaseFile::parse(path, text)
    }

    /// Reads every `*.json` of a directory, by name, or the one file that the path is.
    pub fn open_all(path: &Path) -> Result<Vec<CaseFile>, CasesError> {
        if !path.is_dir() {
            return Ok(vec![CaseFile::open(path)?]);
        }
        let failed = |error| CasesError::Read {
            path: path.to_owned(),
            error,
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                paths.push(path);
            }
        }
        paths.sort();
        match paths.is_empty() {
            true => Err(CasesError::NoFiles {
                path: path.to_owned(),
            }),
            false => paths.iter().map(|path| CaseFile::open(path)).collect(),
        }
    }

    /// Reads a text that stands at this path.
    pub fn parse(path: &Path, text: String) -> Result<CaseFile, CasesError> {
        let cases = cases(&text).map_err(|mistake| CasesError::Mistake {
            path: path.to_owned(),
            mistake,
        })?;
        Ok(CaseFile {
            path: path.to_owned(),
            cases,
            text,
        })
    }
}

/// What a file has, up to one byte more than the limit. What would be waited for, as a pipe, is refused.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn cases(text: &str) -> Result<Vec<Case>, Mistake> {
    let file = Node::parse(text)?;
    let [schema, config, cases] = file.fields(["$schema", "config", "cases"])?;
    schema.as_ref().map(Node::text).transpose()?;
    let config = match config {
        Some(config) => config.compact()?,
        None => "{}".to_owned(),
    };
    let cases = cases.ok_or_else(|| file.mistake("it has no \"cases\""))?;
    let nodes = cases.items()?;
    if nodes.len() > MAX_CASES {
        let found = nodes.len();
        return Err(cases.mistake(format!("{found} cases, limit {MAX_CASES}")));
    }
    let mut names = HashSet::new();
    let mut made = Made::default();
    let mut read = Vec::with_capacity(nodes.len());
    let mut place = (0, 1);
    for node in nodes {
        place = (node.span().start, node.line_from(place));
        let name = name(&node)?;
        if !names.insert(name.clone()) {
            return Err(node.mistake(format!("another case has the name {}", quoted(&name))));
        }
        let mut case = case(node.of_case(&name), name, &config, &mut made)?;
        case.line = place.1;
        read.push(case);
    }
    Ok(read)
}

fn name(node: &Node<'_>) -> Result<String, Mistake> {
    let members = node.members()?;
    let named = members.into_iter().find(|(member, _)| member == "name");
    let Some((_, name)) = named else {
        return Err(node.mistake("it has no \"name\""));
    };
    let text = name.text()?;
    match (1..=NAME_BYTES).contains(&text.len()) {
        true => Ok(text),
        false => Err(name.is_no(&format!("a text of 1 to {NAME_BYTES} bytes"))),
    }
}

fn case(node: Node<'_>, name: String, config: &str, made: &mut Made) -> Result<Case, Mistake> {
    const MEMBERS: [&str; 13] = [
        "name", "config", "clock", "seed", "limits", "sandbox", "records", "tokens", "outcomes",
        "log", "metrics", "failure", "refused",
    ];
    let [
        _,
        own_config,
        clock,
        seed,
        limits,
        sandbox,
        records,
        tokens,
        outcomes,
        log,
        metrics,
        failure,
        refused,
    ] = node.fields(MEMBERS)?;
    sandbox.as_ref().map(Node::boolean).transpose()?;
    let mut places = Places {
        case: node.span(),
        last: node
            .members()?
            .last()
            .map_or(node.span(), |(_, last)| last.span()),
        outcomes: outcomes.as_ref().map(Node::span),
        log: log.as_ref().map(Node::span),
        metrics: metrics.as_ref().map(Node::span),
        ..Places::default()
    };
    if tokens.is_some() {
        let beside = [&records, &outcomes, &metrics, &clock, &refused];
        let names = ["records", "outcomes", "metrics", "clock", "refused"];
        for (beside, name) in beside.into_iter().zip(names) {
            if let Some(beside) = beside {
                return Err(beside.mistake(format!("a case that has tokens has no {name}")));
            }
        }
    }
    if let (Some(records), Some(_)) = (&records, &refused) {
        return Err(records.mistake("a case whose configuration is refused has no records"));
    }
    let records = match &records {
        Some(records) => list(records, MAX_RECORDS, "records")?,
        None => Vec::new(),
    };
    let records = records.iter().enumerate();
    let records: Result<Vec<_>, _> = records.map(|(at, node)| record(node, at, made)).collect();
    let records = records?;
    let tokens = match &tokens {
        Some(node) => Some((tokens::tokens(node, made)?, node)),
        None => None,
    };
    if let (Some((tokens, node)), Some(_)) = (&tokens, &failure)
        && (tokens.through.is_some() || tokens.end.is_some())
    {
        return Err(node.mistake("a text that fails has neither \"through\" nor \"end\""));
    }
    let expected = match (&outcomes, &failure, &refused) {
        (None, None, None) => Expected::Nothing,
        (Some(outcomes), None, None) => {
            let nodes = list(outcomes, MAX_RECORDS, "outcomes")?;
            if nodes.len() != records.len() {
                let (found, there) = (nodes.len(), records.len());
                return Err(outcomes.mistake(format!("{found} outcomes of {there} records")));
            }
            places.each = nodes.iter().map(Node::span).collect();
            let each = nodes.iter().map(|node| expected::outcome(node, made, 0));
            Expected::Outcomes(each.collect::<Result<_, _>>()?)
        }
        (None, Some(failure), None) => Expected::Failure(expected::failure(failure)?),
        (None, None, Some(refused)) => Expected::Refused(expected::failure(refused)?),
        _ => return Err(node.mistake("it has more than one of outcomes, failure, refused")),
    };
    let lines = |node: &Node<'_>| node.items()?.iter().map(expected::line).collect();
    let measured = |node: &Node<'_>| node.items()?.iter().map(expected::measurement).collect();
    Ok(Case {
        line: 0,
        name,
        config: match own_config {
            Some(config) => config.compact()?,
            None => config.to_owned(),
        },
        clock: clock.map_or(Ok(CLOCK), |clock| clock.whole(MICROS))?,
        seed: seed.map_or(Ok(SEED), |node| read_seed(&node))?,
        limits: limits.map_or(Ok(LimitChanges::default()), |node| read_limits(&node))?,
        records,
        tokens: tokens.map(|(tokens, _)| tokens),
        expected,
        log: log.as_ref().map(lines).transpose()?,
        metrics: metrics.as_ref().map(measured).transpose()?,
        places,
    })
}

fn list<'a>(node: &Node<'a>, most: usize, what: &str) -> Result<Vec<Node<'a>>, Mistake> {
    let items = node.items()?;
    match items.len() <= most {
        true => Ok(items),
        false => Err(node.mistake(format!("{} {what}, limit {most}", items.len()))),
    }
}

fn read_seed(node: &Node<'_>) -> Result<[u8; 16], Mistake> {
    let text = node.text()?;
    let mut seed = [0; 16];
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex {
        return Err(node.is_no("32 hexadecimal digits"));
    }
    for (at, byte) in seed.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16)
            .map_err(|_| node.is_no("32 hexadecimal digits"))?;
    }
    Ok(seed)
}

/// The limits of a pipeline file, in the same ranges.
fn read_limits(node: &Node<'_>) -> Result<LimitChanges, Mistake> {
    let times = Duration::from_millis(1)..=Duration::from_secs(3600);
    let [memory, total_memory, output, deadline, bisect] =
        node.fields(["memory", "total-memory", "output", "deadline", "bisect"])?;
    let bytes = |node: Option<Node<'_>>, range, shown| {
        let within = |node: Node<'_>| within(&node, size, &range, shown);
        node.map(within).transpose()
    };
    let time = |node: Option<Node<'_>>| {
        let within = |node: Node<'_>| within(&node, duration, &times, "1ms to 1h");
        node.map(within).transpose()
    };
    let whole =
        |bytes: Option<u64>| bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    Ok(LimitChanges {
        memory: whole(bytes(memory, 64 << 10..=4 << 30, "64KiB to 4GiB")?),
        total_memory: bytes(total_memory, 64 << 10..=1 << 44, "64KiB to 16384GiB")?,
        output: whole(bytes(output, 1 << 10..=1 << 30, "1KiB to 1GiB")?),
        deadline: time(deadline)?,
        bisect: time(bisect)?,
    })
}

fn within<T: PartialOrd>(
    node: &Node<'_>,
    read: fn(&str) -> Result<T, String>,
    range: &RangeInclusive<T>,
    shown: &str,
) -> Result<T, Mistake> {
    let value = read(&node.text()?).map_err(|why| node.mistake(why))?;
    match range.contains(&value) {
        true => Ok(value),
        false => Err(node.is_no(shown)),
    }
}
