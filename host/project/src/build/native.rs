//! The tests of a project in its language's own runner.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use super::lock::Work;
use super::packages::{ESBUILD, node, python};
use super::{Build, BuildOptions, c, go};
use crate::command::ask;
use crate::language::Language;
use crate::project::{Project, ProjectError};
use crate::toolchain::{BuildError, Missing, Remedy, apt};

/// The tests of a project in its language's own runner. As long as it is there, nobody else has those of the same project
/// that are compiled into `build/` first.
#[derive(Debug, Default)]
pub struct NativeTests {
    /// To be run one after the other, in the project's directory; none where it has no tests.
    pub commands: Vec<Command>,
    /// Its lock is let go with it.
    _held: Option<File>,
}

impl From<Vec<Command>> for NativeTests {
    fn from(commands: Vec<Command>) -> NativeTests {
        NativeTests {
            commands,
            _held: None,
        }
    }
}

impl Project {
    /// Its tests in its language's own runner. A toolchain that is missing is installed if the options say so. Another run
    /// that goes on is waited for, which is said on standard error.
    pub fn native_tests(&self, options: &BuildOptions) -> Result<NativeTests, BuildError> {
        let build = Build::new(self, options)?;
        build.with_what_is_missing(Build::native_tests)
    }
}

impl Build<'_> {
    fn native_tests(&self) -> Result<NativeTests, BuildError> {
        if !self.has_tests()? {
            return Ok(NativeTests::default());
        }
        match self.project.language() {
            Language::Rust => {
                let mut command = self.command("cargo");
                command.arg("test");
                Ok(vec![command].into())
            }
            Language::C => self.tests_of_c(),
            Language::JavaScript => {
                node(self)?;
                let mut command = self.command("node");
                command.arg("--test");
                Ok(vec![command].into())
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
                Ok(vec![command].into())
            }
            Language::Go => {
                let (program, _) = go::find(self)?;
                let mut command = self.command(program);
                command.args(["test", "."]);
                Ok(vec![command].into())
            }
        }
    }

    /// One program of the tests, the operator and the SDK, which compiles natively as well.
    fn tests_of_c(&self) -> Result<NativeTests, BuildError> {
        let tests = c::files_of_c(self, "", |name| name.starts_with("test_"))?;
        if tests.is_empty() {
            return Ok(NativeTests::default());
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
        let _held = Some(self.hold(Work::Test)?);
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
            .args(c::defined(self))
            .args(["-I.", "-Itidegate", "-o"])
            .arg(&program)
            .args(tests)
            .args(c::sources(self)?)
            .arg("-lm");
        Ok(NativeTests {
            commands: vec![compile, self.command(program)],
            _held,
        })
    }

    /// Each file of tests as one module, since node reads no types.
    fn tests_of_typescript(&self) -> Result<NativeTests, BuildError> {
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
            return Ok(NativeTests::default());
        }
        let _held = Some(self.hold(Work::Test)?);
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
        Ok(NativeTests {
            commands: vec![bundle, run],
            _held,
        })
    }
}
