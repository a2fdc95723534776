//! The tests of a project in its language's own runner.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::packages::{ESBUILD, node, python};
use super::{Build, BuildOptions, c, go};
use crate::command::ask;
use crate::language::Language;
use crate::project::{Project, ProjectError};
use crate::toolchain::{BuildError, Missing, Remedy, apt};

impl Project {
    /// The commands that run the project's own tests, one after the other, in its directory; none where it has no tests.
    /// A toolchain that is missing is installed if the options say so.
    pub fn native_tests(&self, options: &BuildOptions) -> Result<Vec<Command>, BuildError> {
        let build = Build::new(self, options)?;
        build.with_what_is_missing(Build::native_tests)
    }
}

impl Build<'_> {
    fn native_tests(&self) -> Result<Vec<Command>, BuildError> {
        match self.project.language() {
            Language::Rust => {
                let mut command = self.command("cargo");
                command.arg("test");
                Ok(vec![command])
            }
            Language::C => self.tests_of_c(),
            Language::JavaScript => {
                node(self)?;
                let mut command = self.command("node");
                command.arg("--test");
                Ok(vec![command])
            }
            Language::TypeScript => self.tests_of_typescript(),
            Language::Python => {
                let python = python(self)?;
                let mut has = self.command(&python);
                let runner: &[&str] = match ask(has.args(["-c", "import pytest"])) {
                    Some(_) => &["-m", "pytest", "-q"],
                    None => &["-m", "unittest"],
                };
                let mut command = self.command(python);
                command.args(runner);
                Ok(vec![command])
            }
            Language::Go => {
                let (program, _) = go::find(self)?;
                let mut command = self.command(program);
                command.args(["test", "."]);
                Ok(vec![command])
            }
        }
    }

    /// One program of the tests, the operator and the SDK, which compiles natively as well.
    fn tests_of_c(&self) -> Result<Vec<Command>, BuildError> {
        let tests = c::files_of_c(self, "", |name| name.starts_with("test_"))?;
        if tests.is_empty() {
            return Ok(Vec::new());
        }
        let machine = self.machine();
        let compilers = ["cc", "clang", "gcc"];
        let compiler = compilers.iter().find_map(|name| machine.program(name));
        let Some(compiler) = compiler else {
            return Err(Missing {
                language: Language::C,
                wanted: "a native C compiler, as cc, for the project's own tests".into(),
                found: None,
                remedy: apt(machine, &["gcc", "libc6-dev"])
                    .unwrap_or_else(|| Remedy::Words("Install the system's C compiler".into())),
            }
            .into());
        };
        let program = self.fresh("tests")?;
        let mut compile = self.command(compiler);
        compile
            .args([
                "-std=c17",
                "-O1",
                "-g",
                "-Wall",
                "-Wextra",
                "-DTIDEGATE_NATIVE",
            ])
            .args(["-I.", "-Itidegate", "-o"])
            .arg(&program)
            .args(tests)
            .args(c::sources(self)?)
            .arg("-lm");
        Ok(vec![compile, self.command(program)])
    }

    /// Each file of tests as one module, since node reads no types.
    fn tests_of_typescript(&self) -> Result<Vec<Command>, BuildError> {
        let modules = ESBUILD.find(self)?;
        let mut tests = Vec::new();
        for below in ["", "test", "tests"] {
            let directory = self.directory.join(below);
            for entry in fs::read_dir(&directory).into_iter().flatten() {
                let entry = entry.map_err(ProjectError::disk("list", &directory))?;
                let name = entry.file_name();
                tests.extend(
                    name.to_str()
                        .filter(|name| name.ends_with(".test.ts"))
                        // A name alone may look like an option.
                        .map(|name| Path::new(".").join(below).join(name)),
                );
            }
        }
        tests.sort();
        if tests.is_empty() {
            return Ok(Vec::new());
        }
        let out = self.fresh("tests")?;
        let mut bundle = self.command(ESBUILD.program(&modules));
        bundle
            .args(&tests)
            .args([
                "--bundle",
                "--format=esm",
                "--platform=node",
                "--target=node20",
            ])
            .args(["--sourcemap=inline", "--log-level=warning", "--outbase=."])
            .args(["--out-extension:.js=.mjs"])
            .arg(format!("--outdir={}", out.display()));
        let mut run = self.command("node");
        run.args(["--enable-source-maps", "--test"]);
        run.args(
            tests
                .iter()
                .map(|test| out.join(test).with_extension("mjs")),
        );
        Ok(vec![bundle, run])
    }
}
