//! Objects of C: a source whose text, headers and flags are those of an object that is there is not compiled again, so
//! that a save costs the time of one source.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use tidegate_component::digest;

use super::{Build, c};
use crate::command::work;
use crate::project::{ProjectError, SDK};
use crate::sdk;
use crate::toolchain::BuildError;

/// Digits of a digest in the name of an object.
const DIGITS: usize = 24;

/// The sources of a project on their way to objects in `build/objects`.
pub(super) struct Objects<'a> {
    build: &'a Build<'a>,
    clang: &'a Path,
    flags: Vec<String>,
    directory: PathBuf,
    /// Of the compiler, the flags and every header: any of them may change any object.
    common: String,
}

impl<'a> Objects<'a> {
    pub(super) fn new(
        build: &'a Build<'a>,
        clang: &'a Path,
        compiler: &str,
        flags: Vec<String>,
    ) -> Result<Objects<'a>, BuildError> {
        let directory = build.between("objects")?;
        fs::create_dir_all(&directory).map_err(ProjectError::disk("make", &directory))?;
        let mut common = format!("{compiler} {flags:?}");
        for header in headers(build)? {
            let bytes = fs::read(&header).map_err(ProjectError::disk("read", &header))?;
            common += &digest(&bytes);
        }
        Ok(Objects {
            build,
            clang,
            flags,
            directory,
            common,
        })
    }

    /// The objects in the order of the sources, and what the compiler warned of. Objects of before go.
    pub(super) fn compile(&self) -> Result<(Vec<PathBuf>, String), BuildError> {
        let mut objects = Vec::new();
        let mut missing = Vec::new();
        for source in c::sources(self.build)? {
            let object = self.object(&source)?;
            if !object.is_file() {
                missing.push((source, object.clone()));
            }
            objects.push(object);
        }
        self.compile_each(missing)?;
        let warnings: Vec<PathBuf> = objects.iter().map(|object| warnings(object)).collect();
        let said = warnings.iter().flat_map(fs::read_to_string);
        let said: Vec<String> = said.collect();
        let stay: BTreeSet<&PathBuf> = objects.iter().chain(&warnings).collect();
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if !stay.contains(&entry.path()) {
                // One that stays costs room and nothing else.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok((objects, said.join("\n")))
    }

    /// Where the object of a source is; it has the name of what it is made of.
    fn object(&self, source: &str) -> Result<PathBuf, BuildError> {
        let path = self.build.directory.join(source);
        let bytes = fs::read(&path).map_err(ProjectError::disk("read", &path))?;
        let made_of = digest(format!("{} {source} {}", self.common, digest(&bytes)).as_bytes());
        let digits = made_of.trim_start_matches("sha256:").get(..DIGITS);
        let name = source.trim_end_matches(".c").replace('/', ".");
        Ok(self
            .directory
            .join(format!("{name}-{}.o", digits.unwrap_or_default())))
    }

    /// As many at a time as the machine has cores. The first that fails is what is told.
    fn compile_each(&self, missing: Vec<(String, PathBuf)>) -> Result<(), BuildError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(missing.len());
        let next = Mutex::new(missing.into_iter());
        thread::scope(|scope| {
            let threads = (0..threads).map(|_| scope.spawn(|| self.compile_from(&next)));
            let threads: Vec<_> = threads.collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            // A thread that panicked has compiled nothing, which the linker says.
            ended.filter_map(Result::ok).collect()
        })
    }

    fn compile_from(
        &self,
        next: &Mutex<impl Iterator<Item = (String, PathBuf)>>,
    ) -> Result<(), BuildError> {
        loop {
            let taken = next
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .next();
            let Some((source, object)) = taken else {
                return Ok(());
            };
            self.compile_one(&source, &object)?;
        }
    }

    /// An object appears whole, and after what the compiler warned of.
    fn compile_one(&self, source: &str, object: &Path) -> Result<(), BuildError> {
        let beside = object.with_extension(format!("o.new-{}", std::process::id()));
        let mut command = self.build.command(self.clang);
        let place = self.build.directory.display();
        command
            .args(&self.flags)
            .arg(format!("-ffile-prefix-map={place}=."))
            .args(["-c", source, "-o"])
            .arg(&beside);
        let said = work(&mut command)?.text();
        if !said.is_empty() {
            sdk::write(&warnings(object), said.as_bytes())?;
        }
        fs::rename(&beside, object).map_err(ProjectError::disk("write", object))?;
        Ok(())
    }
}

/// Where it stands what the compiler warned of when it made an object.
fn warnings(object: &Path) -> PathBuf {
    object.with_extension("txt")
}

/// The headers that a source may include: the project's own, and those of the SDK.
fn headers(build: &Build<'_>) -> Result<BTreeSet<PathBuf>, BuildError> {
    let mut places: BTreeSet<PathBuf> = BTreeSet::new();
    places.insert(build.directory.clone());
    places.insert(build.directory.join(SDK));
    let entry = build.project.manifest().entry.iter();
    places
        .extend(entry.filter_map(|source| Some(build.directory.join(source).parent()?.to_owned())));
    let mut headers = BTreeSet::new();
    for place in places {
        for entry in fs::read_dir(&place).map_err(ProjectError::disk("list", &place))? {
            let path = entry.map_err(ProjectError::disk("list", &place))?.path();
            if path.extension().is_some_and(|extension| extension == "h") {
                headers.insert(path);
            }
        }
    }
    Ok(headers)
}
