//! From a project's sources to its component.

mod c;
mod go;
mod javascript;
mod lock;
mod native;
mod objects;
mod packages;
mod python;
mod remembered;
mod rust;
mod staged;
mod tested;
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_component::{Names, Producer, digest, encode, imports, module_imports, sign, strip};

use self::lock::Work;
pub use self::native::NativeTests;
use crate::disk;
use crate::language::{Grant, Handler, Language};
use crate::project::{Project, ProjectError};
use crate::toolchain::{BuildError, Machine};

/// Interfaces of the contract begin so.
const OWN: &str = "tidegate:operator/";

/// How a project is built.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Where the toolchains are.
    pub machine: Machine,
    /// Whether a toolchain that is missing is installed.
    pub install: bool,
    /// Whether the build is to be quick rather than its component: for a change that is tried at once. It goes to
    /// [`Project::quick_output`], so that `NAME.wasm` stays what a whole build has made.
    pub quick: bool,
    /// Whether a component of the same sources that is kept is made again, and the new one kept.
    pub fresh: bool,
    /// Whether what a toolchain says as it goes on is shown on standard error; else it is kept until the end.
    pub aloud: bool,
}

impl BuildOptions {
    /// On this machine; nothing is installed.
    pub fn here() -> BuildOptions {
        BuildOptions {
            machine: Machine::here(),
            install: false,
            quick: false,
            fresh: false,
            aloud: false,
        }
    }
}

/// A component that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Its file.
    pub path: PathBuf,
    /// Its size, in bytes.
    pub size: usize,
    /// What it imports of the contract, as a pipeline grants it: `log`.
    pub grants: Vec<Grant>,
    /// All that it imports, by name and version. Types are no permission, and are left out.
    pub imports: Vec<String>,
    /// How long the build took.
    pub time: Duration,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The toolchain with its version: `clang 14.0.6`.
    pub toolchain: String,
    /// What the toolchain said though it succeeded: warnings.
    pub said: String,
}

/// What a toolchain has made.
struct Made {
    component: Vec<u8>,
    /// The language, and what worked on it.
    producers: Vec<Producer>,
    names: Names,
    said: String,
}

/// What is done for every language.
struct Build<'a> {
    project: &'a Project,
    options: &'a BuildOptions,
    /// The project's directory without a link in it and absolute, as toolchains write it into what they make.
    directory: PathBuf,
}

impl Project {
    /// Builds the component with the toolchain of its language. A file that would become what it is already is not touched.
    pub fn build(&self, options: &BuildOptions) -> Result<Built, BuildError> {
        let began = Instant::now();
        if self.needs_sdk() && self.sdk_version().is_none() {
            return Err(BuildError::NoSdk {
                directory: self.directory().display().to_string(),
            });
        }
        self.has_entries().map_err(ProjectError::from)?;
        let build = Build::new(self, options)?;
        let _alone = build.hold(Work::Build)?;
        let made = build.with_what_is_missing(Build::make)?;
        let grants = self.check_imports(imports(&made.component))?;
        let stripped = strip(&made.component, made.names)?;
        let component = sign(&stripped, &made.producers)?;
        let path = match options.quick {
            true => self.quick_output(),
            false => self.output(),
        };
        let within = path.strip_prefix(self.directory()).unwrap_or(&path);
        disk::write_if_other(&build.directory, within, &component)?;
        Ok(Built {
            size: component.len(),
            grants,
            imports: imports(&component)
                .filter(|import| !is_types(import))
                .map(str::to_owned)
                .collect(),
            time: began.elapsed(),
            digest: digest(&component),
            toolchain: toolchain(&made.producers),
            said: made.said,
            path,
        })
    }

    /// The grants that imports need; one that the manifest does not have is an error.
    fn check_imports<'i>(
        &self,
        imports: impl Iterator<Item = &'i str>,
    ) -> Result<Vec<Grant>, BuildError> {
        let mut needed = Vec::new();
        for import in imports {
            let Some(interface) = import.strip_prefix(OWN) else {
                if import.starts_with("wasi:") || import.starts_with("wasi_snapshot_preview1") {
                    continue;
                }
                return Err(BuildError::Unknown {
                    import: import.to_owned(),
                });
            };
            let interface = interface.split('@').next().unwrap_or_default();
            match Grant::ALL.iter().find(|grant| grant.word() == interface) {
                Some(grant) if self.grants().contains(grant) => needed.push(*grant),
                Some(grant) => {
                    return Err(BuildError::NotGranted {
                        import: import.to_owned(),
                        word: grant.word(),
                    });
                }
                None if is_types(import) => {}
                None => {
                    return Err(BuildError::Unknown {
                        import: import.to_owned(),
                    });
                }
            }
        }
        Ok(needed)
    }
}

impl<'a> Build<'a> {
    fn new(project: &'a Project, options: &'a BuildOptions) -> Result<Build<'a>, ProjectError> {
        let directory = project.directory();
        let directory = directory
            .canonicalize()
            .map_err(ProjectError::disk("read", directory))?;
        Ok(Build {
            project,
            options,
            directory,
        })
    }

    fn make(&self) -> Result<Made, BuildError> {
        match self.project.language() {
            Language::Rust => rust::make(self),
            Language::C => c::make(self),
            Language::JavaScript | Language::TypeScript => javascript::make(self),
            Language::Python => python::make(self),
            Language::Go => go::make(self),
        }
    }

    /// Does something that needs toolchains; where the options say so, one after the other that is missing is installed, each
    /// once.
    fn with_what_is_missing<T>(
        &self,
        what: impl Fn(&Build<'a>) -> Result<T, BuildError>,
    ) -> Result<T, BuildError> {
        let mut installed: Vec<String> = Vec::new();
        loop {
            match what(self) {
                Err(BuildError::Missing(missing))
                    if self.options.install && !installed.contains(&missing.wanted) =>
                {
                    installed.push(missing.wanted.clone());
                    missing.install(self.machine(), &self.directory)?;
                }
                done => return done,
            }
        }
    }

    fn machine(&self) -> &Machine {
        &self.options.machine
    }

    /// A command in the project's directory.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
        self.machine().command(program, &self.directory)
    }

    fn is_granted(&self, grant: Grant) -> bool {
        self.project.grants().contains(&grant)
    }

    fn handles_tokens(&self) -> bool {
        self.project.handlers().contains(&Handler::Tokens)
    }

    /// A file in `build/`, which is there and no link.
    fn between(&self, name: &str) -> Result<PathBuf, ProjectError> {
        disk::make(&self.directory, Path::new("build"))?;
        Ok(self.directory.join("build").join(name))
    }

    /// The same, for what a tool writes: nothing is there that it could write through, or take for its own.
    fn fresh(&self, name: &str) -> Result<PathBuf, ProjectError> {
        let path = self.between(name)?;
        disk::clear(&path)?;
        Ok(path)
    }

    /// Writes the glue between the contract and the SDK, which names the operator's main source and its handlers, and has a
    /// part for each of these.
    fn write_glue(&self, extension: &str, file: &str, entry: &str) -> Result<PathBuf, BuildError> {
        let glue = self.project.sdk().join("glue");
        let alone = glue.join(format!("alone.{extension}"));
        let granted = glue.join(format!("log.{extension}"));
        let source = match self.is_granted(Grant::Log) && granted.exists() {
            true => granted,
            false => alone,
        };
        let handlers = self.project.handlers();
        let parts = handlers
            .iter()
            .map(|handler| glue.join(format!("{}.{extension}", handler.word())));
        let mut text = String::new();
        for part in [source].into_iter().chain(parts) {
            text += &fs::read_to_string(&part).map_err(ProjectError::disk("read", &part))?;
        }
        let words: Vec<&str> = handlers.iter().map(|handler| handler.word()).collect();
        let text = text
            .replace("{{entry}}", entry)
            .replace("{{handlers}}", &words.join(" "));
        let within = Path::new("build").join(file);
        disk::write_if_other(&self.directory, &within, text.as_bytes())?;
        Ok(self.directory.join(within))
    }

    /// The component of a core module, which carries its type. A call of what is not granted is told before the encoder does.
    fn encode(&self, module: &Path) -> Result<Vec<u8>, BuildError> {
        self.encoded(fs::read(module).map_err(ProjectError::disk("read", module))?)
    }

    fn encoded(&self, module: Vec<u8>) -> Result<Vec<u8>, BuildError> {
        self.project
            .check_imports(module_imports(&module).into_iter())?;
        Ok(encode(&module)?)
    }

    /// The SDK that it is built with, as a component says it.
    fn sdk(&self) -> Producer {
        let name = format!("tidegate-{}", self.project.language().sdk());
        let version = self.project.sdk_version();
        let version = version.unwrap_or_else(|| crate::embedded::VERSION.to_owned());
        Producer::sdk(&name, &version)
    }
}

/// Whether an import has nothing but types.
fn is_types(import: &str) -> bool {
    let interface = import.strip_prefix(OWN);
    interface.is_some_and(|interface| interface.split('@').next() == Some("types"))
}

/// A path as it is from the project's directory, so that nothing made of it names this machine.
fn within(build: &Build<'_>, path: &Path) -> PathBuf {
    let within = path.strip_prefix(&build.directory).unwrap_or(path);
    within.to_owned()
}

/// `componentize-py 0.25.1`: what worked on it, without what works on every component.
fn toolchain(producers: &[Producer]) -> String {
    let programs = producers
        .iter()
        .filter(|producer| producer.field == "processed-by");
    let programs: Vec<String> = programs
        .map(|producer| format!("{} {}", producer.name, producer.version))
        .collect();
    programs.join(", ")
}
