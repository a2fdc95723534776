//! C, by clang, for WASI: a reactor whose exports are in the SDK.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tidegate_component::{Names, Producer};

use super::objects::Objects;
use super::{Build, Made, within};
use crate::command::{ask, work};
use crate::language::{Grant, Language};
use crate::project::{ProjectError, SDK};
use crate::toolchain::{BuildError, Missing, Remedy, apt, dotted, version};

/// The oldest clang that is known to work.
const OLDEST: u32 = 14;
/// For C17 with SIMD and copies of memory by one instruction, of the project's sources and the SDK.
const FLAGS: [&str; 9] = [
    "--target=wasm32-wasi",
    "-std=c17",
    "-O2",
    "-msimd128",
    "-mbulk-memory",
    "-Wall",
    "-Wextra",
    "-I.",
    "-Itidegate",
];

pub(super) fn make(build: &Build<'_>) -> Result<Made, BuildError> {
    let (clang, compiler) = find(build)?;
    let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
    if build.is_granted(Grant::Log) {
        flags.push("-DTIDEGATE_LOG".to_owned());
    }
    flags.extend(defined(build).map(str::to_owned));
    let (objects, said) = Objects::new(build, &clang, &compiler, flags)?.compile()?;
    let out = build.fresh("core.wasm")?;
    let mut command = build.command(clang);
    // Named from the project: the linker makes something else of a `%` in a path.
    let named = within(build, &out);
    command.args(LINKED).args(objects).arg("-o").arg(named);
    let linked = work(&mut command)?.text();
    let said: Vec<String> = [said, linked]
        .into_iter()
        .filter(|said| !said.is_empty())
        .collect();
    Ok(Made {
        component: build.encode_in_world(&out)?,
        producers: vec![
            Producer::language("C"),
            Producer::processed_by("clang", &compiler),
            build.sdk(),
        ],
        names: Names::Keep,
        said: said.join("\n"),
    })
}

/// What the sources are told of handlers, here and in tests on this machine.
pub(super) fn defined(build: &Build<'_>) -> Option<&'static str> {
    build.handles_tokens().then_some("-DTIDEGATE_TOKENS")
}

/// The stack lies before the data, so that one that is too deep traps and writes over nothing.
const LINKED: [&str; 5] = [
    "--target=wasm32-wasi",
    "-mexec-model=reactor",
    "-Wl,--strip-debug",
    "-Wl,--stack-first",
    "-Wl,-z,stack-size=131072",
];

/// The project's sources and those of the SDK, relative to the project.
pub(super) fn sources(build: &Build<'_>) -> Result<Vec<String>, ProjectError> {
    let mut sources = build.project.manifest().entry.clone();
    sources.extend(files_of_c(build, SDK, |_| true)?);
    Ok(sources)
}

/// Files of C right in a directory of the project, sorted.
pub(super) fn files_of_c(
    build: &Build<'_>,
    below: &str,
    fits: impl Fn(&str) -> bool,
) -> Result<Vec<String>, ProjectError> {
    let directory = build.directory.join(below);
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory).map_err(ProjectError::disk("list", &directory))? {
        let entry = entry.map_err(ProjectError::disk("list", &directory))?;
        let name = entry.file_name();
        let Some(name) = name
            .to_str()
            .filter(|name| name.ends_with(".c") && fits(name))
        else {
            continue;
        };
        files.push(match below {
            "" => name.to_owned(),
            below => format!("{below}/{name}"),
        });
    }
    files.sort();
    Ok(files)
}

/// The compiler and its version: that of the WASI SDK where `WASI_SDK_PATH` names it.
fn find(build: &Build<'_>) -> Result<(PathBuf, String), BuildError> {
    let machine = build.machine();
    let sdk = std::env::var_os("WASI_SDK_PATH").map(|sdk| PathBuf::from(sdk).join("bin/clang"));
    let clang = sdk
        .filter(|clang| clang.is_file())
        .or_else(|| machine.program("clang"));
    let said = clang
        .as_ref()
        .and_then(|clang| ask(build.command(clang).arg("--version")));
    let found = said
        .as_deref()
        .and_then(|said| version(said.lines().next()?));
    let major = found.as_ref().and_then(|found| found.first().copied());
    if let (Some(clang), Some(found), Some(OLDEST..)) = (&clang, &found, major) {
        let lacks = lacks(|| build.command(clang));
        if lacks.is_empty() {
            return Ok((clang.clone(), dotted(found)));
        }
    }
    let without = clang
        .as_ref()
        .map(|clang| lacks(|| build.command(clang)).join(", "));
    let found = found.map(|found| match without.as_deref() {
        None | Some("") => format!("clang {}", dotted(&found)),
        Some(lacks) => format!("clang {} without {lacks}", dotted(&found)),
    });
    let runtime = format!(
        "libclang-rt-{}-dev-wasm32",
        major.unwrap_or_else(debian_clang)
    );
    let packages = ["clang", "lld", "wasi-libc", &runtime];
    Err(Missing {
        language: Language::C,
        wanted: format!("clang {OLDEST} or newer for wasm32-wasi, with lld and wasi-libc"),
        found,
        remedy: apt(machine, &packages).unwrap_or_else(
            || {
                Remedy::Words(
                    "Install the WASI SDK of https://github.com/WebAssembly/wasi-sdk and name it in WASI_SDK_PATH".into(),
                )
            }),
    }
    .into())
}

/// What a clang does not have of all that a component takes.
fn lacks(clang: impl Fn() -> Command) -> Vec<&'static str> {
    // A file that is not found is named as it was asked for.
    let has = |question: &str| {
        ask(clang().args(["--target=wasm32-wasi", question]))
            .is_some_and(|path| std::path::Path::new(path.trim()).is_file())
    };
    let parts = [
        ("lld", "-print-prog-name=wasm-ld"),
        ("wasi-libc", "-print-file-name=libc.a"),
        (
            "the compiler's runtime for wasm32",
            "-print-libgcc-file-name",
        ),
    ];
    let parts = parts.into_iter().filter(|(_, question)| !has(question));
    parts.map(|(part, _)| part).collect()
}

/// The version of clang that this release of Debian or Ubuntu has.
fn debian_clang() -> u32 {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let release = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_ID="))
        .unwrap_or_default();
    match release.trim_matches('"') {
        "13" => 19,
        "24.04" => 18,
        "26.04" => 21,
        _ => OLDEST,
    }
}
