//! Takes out of a component what only a debugger reads.

use std::mem;

use wasm_encoder::{Encode, RawSection, Section};
use wasmparser::{CustomSectionReader, Encoding, Parser, Payload};

use crate::encode::EncodeError;

/// What becomes of the names of functions, which stand in the backtrace of a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// They stay: they are the user's own.
    Keep,
    /// They go: they are those of an engine that runs the user's code.
    Drop,
}

/// The same module or component without debug information, places of source maps and, if it is said so, names of
/// functions, in all that lies within it.
pub fn strip(bytes: &[u8], names: Names) -> Result<Vec<u8>, EncodeError> {
    let malformed = EncodeError::malformed("component");
    let mut around: Vec<Vec<u8>> = Vec::new();
    let mut written = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(&malformed)?;
        match &payload {
            Payload::Version { encoding, .. } => written.extend(match encoding {
                Encoding::Component => wasm_encoder::Component::HEADER,
                Encoding::Module => wasm_encoder::Module::HEADER,
            }),
            // What follows is within it, until its end.
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                around.push(mem::take(&mut written));
                continue;
            }
            Payload::End(_) => {
                let Some(mut outer) = around.pop() else {
                    return Ok(written);
                };
                outer.push(
                    match written.starts_with(&wasm_encoder::Component::HEADER) {
                        true => COMPONENT,
                        false => CORE_MODULE,
                    },
                );
                written.encode(&mut outer);
                written = outer;
                continue;
            }
            Payload::CustomSection(section) if goes(section, names) => continue,
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            let data = bytes.get(range).unwrap_or_default();
            RawSection { id, data }.append_to(&mut written);
        }
    }
    Ok(written)
}

/// Sections of a component, by the component model's binary format.
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

fn goes(section: &CustomSectionReader<'_>, names: Names) -> bool {
    match section.name() {
        "name" | "component-name" => names == Names::Drop,
        "sourceMappingURL" | "external_debug_info" => true,
        name => name.starts_with(".debug") || name.starts_with("reloc..debug"),
    }
}
