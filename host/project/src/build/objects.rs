//! Objects of C: a source whose text with all that it includes, compiler and flags are those of an object that is there is
//! not compiled again, so that a save costs the time of one source.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use tidegate_component::{digest, digest_of};

use super::{Build, c};
use crate::command::work;
use crate::disk;
use crate::project::ProjectError;
use crate::toolchain::BuildError;

/// Digits of a digest in the name of an object.
const DIGITS: usize = 24;

/// The sources of a project on their way to objects in `build/objects`.
pub(super) struct Objects<'a> {
    build: &'a Build<'a>,
    clang: &'a Path,
    compiler: &'a str,
    flags: Vec<String>,
    directory: PathBuf,
}

impl<'a> Objects<'a> {
    pub(super) fn new(
        build: &'a Build<'a>,
        clang: &'a Path,
        compiler: &'a str,
        flags: Vec<String>,
    ) -> Result<Objects<'a>, BuildError> {
        disk::make(&build.directory, &Path::new("build").join("objects"))?;
        let directory = build.between("objects")?;
        Ok(Objects {
            build,
            clang,
            compiler,
            flags,
            directory,
        })
    }

    /// The objects in the order of the sources, and what the compiler warned of. Objects of before go.
    pub(super) fn compile(&self) -> Result<(Vec<PathBuf>, String), BuildError> {
        let objects = self.compile_each(c::sources(self.build)?)?;
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

    /// As many at a time as the machine has cores. The first that fails is what is told.
    fn compile_each(&self, sources: Vec<String>) -> Result<Vec<PathBuf>, BuildError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(sources.len());
        let next = Mutex::new(sources.into_iter().enumerate());
        let parts: Result<Vec<_>, BuildError> = thread::scope(|scope| {
            let threads = (0..threads).map(|_| scope.spawn(|| self.compile_from(&next)));
            let threads: Vec<_> = threads.collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            // A thread that panicked has compiled nothing, which the linker says.
            ended.filter_map(Result::ok).collect()
        });
        let mut objects: Vec<(usize, PathBuf)> = parts?.into_iter().flatten().collect();
        objects.sort();
        Ok(objects.into_iter().map(|(_, object)| object).collect())
    }

    fn compile_from(
        &self,
        next: &Mutex<impl Iterator<Item = (usize, String)>>,
    ) -> Result<Vec<(usize, PathBuf)>, BuildError> {
        let mut objects = Vec::new();
        loop {
            let taken = next
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .next();
            let Some((at, source)) = taken else {
                return Ok(objects);
            };
            objects.push((at, self.compile_one(&source)?));
        }
    }

    /// An object has the name of what it is made of, and appears whole, after what the compiler warned of.
    fn compile_one(&self, source: &str) -> Result<PathBuf, BuildError> {
        // No two sources have the same: `a/b.c` is not `a.b.c`.
        let name = source.strip_suffix(".c").unwrap_or(source);
        let name = name.replace('%', "%25").replace('/', "%2F");
        let made_of = self.made_of(source, &name)?;
        let object = self.directory.join(format!("{name}-{made_of}.o"));
        if object.symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Ok(object);
        }
        let beside = self.build.fresh(&format!("objects/{name}.new"))?;
        let mut command = self.clang();
        command.args(["-c", source, "-o"]).arg(&beside);
        let said = work(&mut command)?.text();
        // What was saved while it was compiled may or may not be in it: such an object serves once.
        let object = match self.made_of(source, &name)? == made_of {
            true => object,
            false => self.directory.join(format!("{name}-once.o")),
        };
        let within = warnings(&object);
        disk::clear(&within)?;
        if !said.is_empty() {
            let within = within
                .strip_prefix(&self.build.directory)
                .unwrap_or(&within);
            disk::write(&self.build.directory, within, said.as_bytes())?;
        }
        fs::rename(&beside, &object).map_err(ProjectError::disk("write", &object))?;
        Ok(object)
    }

    /// Digits of all that goes into the object of a source: what is left of it with all that it includes when the preprocessor
    /// is done, the compiler and the flags.
    fn made_of(&self, source: &str, name: &str) -> Result<String, BuildError> {
        let whole = self.build.fresh(&format!("objects/{name}.i"))?;
        let mut command = self.clang();
        command.args(["-E", source, "-o"]).arg(&whole);
        work(&mut command)?;
        let text = File::open(&whole)
            .and_then(digest_of)
            .map_err(ProjectError::disk("read", &whole))?;
        disk::clear(&whole)?;
        let (compiler, flags) = (self.compiler, &self.flags);
        let made_of = digest(format!("{compiler} {flags:?} {source} {text}").as_bytes());
        let digits = made_of.trim_start_matches("sha256:").get(..DIGITS);
        Ok(digits.unwrap_or_default().to_owned())
    }

    fn clang(&self) -> Command {
        let mut command = self.build.command(self.clang);
        let place = self.build.directory.display();
        command
            .args(&self.flags)
            .arg(format!("-ffile-prefix-map={place}=."));
        command
    }
}

/// Where it stands what the compiler warned of when it made an object.
fn warnings(object: &Path) -> PathBuf {
    object.with_extension("txt")
}
