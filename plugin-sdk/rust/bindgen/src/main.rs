//! Generates the SDK's bindings from the WIT packages, or checks that the committed ones are current.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use wit_bindgen_core::{Files, WorldGenerator, wit_parser::Resolve};

/// What follows the name of the WIT file.
const HEAD: &str = "\
; do not edit. To write it again:
// cargo run --manifest-path plugin-sdk/rust/bindgen/Cargo.toml
";

/// A file of bindings.
struct Target {
    file: &'static str,
    wit: &'static str,
    world: &'static str,
    /// Where the module that exports a component finds it.
    module: &'static str,
    /// Where the generator's own crate is.
    runtime: &'static str,
}

const CONTRACT: &str = "wit/tidegate.wit";

const TARGETS: [Target; 4] = [
    Target {
        file: "plugin-sdk/rust/src/bindings.rs",
        wit: CONTRACT,
        world: "packed-operator",
        module: "::tidegate_sdk::bindings",
        runtime: "::tidegate_sdk::wit_bindgen::rt",
    },
    // Beside it, for an operator that handles tokens.
    Target {
        file: "plugin-sdk/rust/src/tokens/bindings.rs",
        wit: CONTRACT,
        world: "token-handler",
        module: "::tidegate_sdk::tokens::bindings",
        runtime: "::tidegate_sdk::wit_bindgen::rt",
    },
    // Where the text of a panic goes.
    Target {
        file: "plugin-sdk/rust/src/panics/bindings.rs",
        wit: "plugin-sdk/rust/wit/stderr.wit",
        world: "standard-error",
        module: "::tidegate_sdk::panics::bindings",
        runtime: "::tidegate_sdk::wit_bindgen::rt",
    },
    // A guest of the tests that has no SDK.
    Target {
        file: "tests/guests/plain/src/bindings.rs",
        wit: CONTRACT,
        world: "plain-operator-alone",
        module: "crate::bindings",
        runtime: "::wit_bindgen::rt",
    },
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let is_check = std::env::args().any(|argument| argument == "--check");
    for target in TARGETS {
        let wit = root.join(target.wit);
        let sum = fnv(&std::fs::read_to_string(&wit)?);
        let made = generate(&wit, &target)?;
        let text = format!("// Generated from {}{HEAD}// wit: {sum:016x}\n{made}", target.wit);
        let path = root.join(target.file);
        if !is_check {
            std::fs::write(path, text)?;
        } else if std::fs::read_to_string(&path)? != text {
            eprintln!("{} is not what {} says; run without --check", target.file, target.wit);
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn generate(wit: &Path, target: &Target) -> Result<String, Box<dyn Error>> {
    let mut resolve = Resolve::default();
    let package = resolve.push_file(wit)?;
    let world = resolve.select_world(&[package], Some(target.world))?;
    let mut options = wit_bindgen_rust::Opts::default();
    options.format = true;
    options.generate_all = true;
    options.pub_export_macro = true;
    options.export_macro_name = Some("export_component".to_owned());
    options.default_bindings_module = Some(target.module.to_owned());
    options.runtime_path = Some(target.runtime.to_owned());
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    let (_, bytes) = files.iter().next().ok_or("the generator wrote no file")?;
    Ok(String::from_utf8(bytes.to_vec())?)
}

/// The 64-bit FNV-1a sum that the SDK's test compares with the WIT file.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
