//! JavaScript and TypeScript: by componentize-qjs or componentize-js, after esbuild where there is something to bundle.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_component::{Names, Producer};

use super::packages::{ESBUILD, Npm, QUICKJS, SPIDERMONKEY, TYPESCRIPT};
use super::{Build, Made, within};
use crate::command::work;
use crate::disk;
use crate::language::{Engine, Language};
use crate::project::ProjectError;
use crate::toolchain::BuildError;

/// The module that exports the contract, of the SDK.
const GLUE: &str = "operator.js";
/// What componentize-js is called with.
const SCRIPT: &str = include_str!("spidermonkey.mjs");
/// Parts of SpiderMonkey's engine that no operator can use.
const UNUSED: [&str; 2] = ["http", "fetch-event"];

pub(super) fn make(build: &Build<'_>) -> Result<Made, BuildError> {
    let manifest = build.project.manifest();
    let tool = match manifest.engine {
        Engine::QuickJs => QUICKJS,
        Engine::SpiderMonkey => SPIDERMONKEY,
    };
    let modules = tool.find(build)?;
    let mut sources = build.sources()?;
    let bundler = match is_bundled(build)? {
        true => Some(ESBUILD.find(build)?),
        false => None,
    };
    let mut said = vec![check_types(build)?];
    let entry = manifest.entry.first().map_or("", String::as_str);
    let mut module = build.write_glue("js", GLUE, entry)?;
    let mut producers = vec![Producer::language(build.project.language().title())];
    if let Some(bundler) = bundler {
        let bundle = build.fresh("bundle.js")?;
        said.push(bundled(build, &bundler, &module, &bundle)?);
        module = bundle;
        sources.clear();
        producers.push(Producer::processed_by(ESBUILD.name, ESBUILD.version));
    }
    let module = within(build, &module);
    sources.push(module.clone());
    let named = format!("{} {} {entry}", tool.name, tool.version);
    let (component, warned) =
        build.remembered(&named, sources, |stage, out| match manifest.engine {
            Engine::QuickJs => quickjs(build, &modules, stage, &module, out),
            Engine::SpiderMonkey => spidermonkey(build, &modules, stage, &module, out),
        })?;
    said.push(warned);
    producers.push(Producer::processed_by(tool.name, tool.version));
    producers.push(build.sdk());
    said.retain(|said| !said.is_empty());
    Ok(Made {
        component,
        producers,
        names: Names::Drop,
        said: said.join("\n"),
    })
}

/// Has the compiler of TypeScript check the types of a project that has a `tsconfig.json`: the bundler takes them out unread.
/// Where there is no compiler and none is installed, that is what is said.
fn check_types(build: &Build<'_>) -> Result<String, BuildError> {
    let is_checked = build.project.language() == Language::TypeScript
        && build.directory.join("tsconfig.json").is_file();
    if !is_checked {
        return Ok(String::new());
    }
    match TYPESCRIPT.find(build) {
        Ok(modules) => {
            let mut command = build.command(TYPESCRIPT.program(&modules));
            command.args([
                "--noEmit",
                "--pretty",
                "false",
                "--project",
                "tsconfig.json",
            ]);
            Ok(work(&mut command)?.text())
        }
        Err(BuildError::Missing(missing)) if !build.options.install => Ok(format!(
            "warning: types are not checked: {} is not there; `tidegate build --install` installs it",
            missing.wanted
        )),
        Err(error) => Err(error),
    }
}

/// Whether there is something that the engines do not read themselves: types, or packages of npm.
fn is_bundled(build: &Build<'_>) -> Result<bool, BuildError> {
    let file = build.directory.join("package.json");
    if build.project.language() == Language::TypeScript {
        return Ok(true);
    }
    let Ok(text) = fs::read(&file) else {
        return Ok(false);
    };
    let json: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| ProjectError::disk("read", &file)(error.into()))?;
    let packages = json["dependencies"].as_object();
    Ok(packages.is_some_and(|packages| !packages.is_empty()))
}

/// How esbuild begins the source map that it puts behind a bundle.
const MAP: &str = "//# sourceMappingURL=data:application/json;base64,";

/// Bundles a module with all that it imports, but not what the host has.
pub(super) fn bundled(
    build: &Build<'_>,
    modules: &Path,
    module: &Path,
    bundle: &Path,
) -> Result<String, BuildError> {
    let mut command = build.command(ESBUILD.program(modules));
    command
        .arg(module)
        .args([
            "--bundle",
            "--format=esm",
            "--platform=neutral",
            "--target=es2022",
        ])
        .args(["--main-fields=module,main", "--conditions=import,default"])
        .args([
            "--external:tidegate:*",
            "--external:node:*",
            "--sourcemap=inline",
        ])
        .args(["--sources-content=false", "--log-level=warning"])
        .arg(format!("--outfile={}", bundle.display()));
    let said = work(&mut command)?.text();
    keep_map(build, bundle)?;
    Ok(said)
}

/// Has a bundle leave its source map where the SDK looks for the lines of an exception: engines do not read comments.
fn keep_map(build: &Build<'_>, bundle: &Path) -> Result<(), BuildError> {
    let text = fs::read_to_string(bundle).map_err(ProjectError::disk("read", bundle))?;
    if let Some((code, map)) = text.trim_end().rsplit_once(MAP) {
        let kept = format!("{code}globalThis.__tidegateSourceMap = \"{map}\";\n");
        disk::write(&build.directory, &within(build, bundle), kept.as_bytes())?;
    }
    Ok(())
}

fn quickjs(
    build: &Build<'_>,
    modules: &Path,
    stage: &Path,
    module: &Path,
    out: &Path,
) -> Result<String, BuildError> {
    let mut command = build.command("node");
    command
        .current_dir(stage)
        .arg(QUICKJS.package(modules).join("cli.mjs"))
        .args(["--sync", "--stub-wasi", "--module-root", ".", "-n"])
        .args([build.world(), "-w"])
        .arg(build.wit_file()?)
        .arg("-j")
        .arg(module)
        .arg("-o")
        .arg(out);
    let said = work(&mut command).map_err(without_progress)?;
    Ok(quiet(&said.text()))
}

/// What a failed componentize-qjs said, without what it says of its own doings.
fn without_progress(error: BuildError) -> BuildError {
    let own = [
        "componentize-qjs",
        "WIT:",
        "JS:",
        "Output:",
        "Stubbing WASI",
    ];
    let is_own = |line: &&str| own.iter().any(|word| line.trim_start().starts_with(word));
    match error {
        BuildError::Failed {
            program,
            status,
            said,
        } => {
            let lines: Vec<&str> = said.lines().filter(|line| !is_own(line)).collect();
            BuildError::Failed {
                program,
                status,
                said: lines.join("\n"),
            }
        }
        other => other,
    }
}

fn spidermonkey(
    build: &Build<'_>,
    modules: &Path,
    stage: &Path,
    module: &Path,
    out: &Path,
) -> Result<String, BuildError> {
    let script = Path::new("build").join("spidermonkey.mjs");
    disk::write(&build.directory, &script, SCRIPT.as_bytes())?;
    let mut command = build.command("node");
    command
        .current_dir(stage)
        .arg(build.directory.join(script))
        .arg(SPIDERMONKEY.package(modules).join("src/componentize.js"))
        .arg(stage.join(module))
        .arg(build.wit_file()?)
        .arg(build.world())
        .arg(out)
        .args(UNUSED);
    Ok(quiet(&work(&mut command)?.text()))
}

impl Npm {
    fn package(&self, modules: &Path) -> PathBuf {
        modules.join(self.directory)
    }
}

/// What a tool warns of, without what it says of its own doings.
fn quiet(said: &str) -> String {
    let warns = |line: &&str| line.to_lowercase().contains("warn");
    said.lines().filter(warns).collect::<Vec<_>>().join("\n")
}
