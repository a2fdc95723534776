//! What a file says before anything is done with it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;

use sha2::{Digest, Sha256};
use wasmparser::{Parser, Payload};

/// The digest by which a component is known: `sha256:` and 64 hexadecimal digits, of the file as it is.
pub fn digest(bytes: &[u8]) -> String {
    in_words(&Sha256::digest(bytes))
}

/// The same of what is read, a piece at a time.
pub fn digest_of(mut from: impl io::Read) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(in_words(&sum.finalize())),
            Ok(length) => sum.update(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn in_words(sum: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in sum {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Names of what a component itself imports, as far as it is well-formed.
pub fn imports(component: &[u8]) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    let payloads = Parser::new(0).parse_all(component).map_while(Result::ok);
    let sections = payloads.filter_map(move |payload| {
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => return Some(section),
            _ => {}
        }
        None
    });
    sections.flat_map(|section| {
        section
            .into_iter()
            .map_while(Result::ok)
            .map(|import| import.name.name)
    })
}

/// Names of the modules of which a core module imports something, as far as it is well-formed.
pub fn module_imports(module: &[u8]) -> BTreeSet<&str> {
    let payloads = Parser::new(0).parse_all(module).map_while(Result::ok);
    let sections = payloads.filter_map(|payload| match payload {
        Payload::ImportSection(section) => Some(section),
        _ => None,
    });
    sections
        .flat_map(|section| section.into_imports().map_while(Result::ok))
        .map(|import| import.module)
        .collect()
}
