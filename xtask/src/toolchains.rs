//! Operators that toolchains of other languages make: `tests/toolchains`. The small ones are committed, packed; the large
//! ones are made where the long tests run.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use lzma_rust2::{LzipOptions, LzipReader, LzipWriter};

use crate::operators::{place, target_directory, write_if_other};
use crate::setup;
use crate::steps::{output, run};

/// The contract that they are made for: a part of their names.
const CONTRACT: &str = "0.1.0";
const WORLD: &str = "packed-operator";
/// How hard committed files are pressed.
const PRESET: u32 = 9;
/// Parts of SpiderMonkey's engine that are left out of the bare component: all there are.
const FEATURES: [&str; 5] = ["stdio", "random", "clocks", "http", "fetch-event"];

/// Unpacks the committed components beside the operators that are built here, and gives their number.
pub(crate) fn unpack(root: &Path) -> Result<usize> {
    let built = sources(root).join("built");
    let mut unpacked = 0;
    for entry in fs::read_dir(&built).with_context(|| cannot("list", &built))? {
        let path = entry.with_context(|| cannot("list", &built))?.path();
        let Some(name) = path
            .file_stem()
            .filter(|_| path.extension().is_some_and(|e| e == "lz"))
        else {
            continue;
        };
        let packed = File::open(&path).with_context(|| cannot("open", &path))?;
        let mut bytes = Vec::new();
        LzipReader::new(packed)
            .read_to_end(&mut bytes)
            .with_context(|| cannot("unpack", &path))?;
        write_if_other(&place(root).join(name), &bytes)?;
        unpacked += 1;
    }
    Ok(unpacked)
}

/// Makes the small components anew, as they are committed.
pub(crate) fn small(root: &Path) -> Result<()> {
    let toolchains = Toolchains::open(root)?;
    for (name, options) in [("c", &[][..]), ("c-stdio", &["-DSTDIO"])] {
        toolchains.c(name, options)?;
    }
    toolchains.go("go")?;
    toolchains.quickjs("quickjs", &[])?;
    toolchains.quickjs("quickjs-stub", &["--stub-wasi"])?;
    for name in ["c", "c-stdio", "go", "quickjs", "quickjs-stub"] {
        let made = toolchains.out(name);
        let bytes = fs::read(&made).with_context(|| cannot("read", &made))?;
        let packed = sources(root)
            .join("built")
            .join(format!("{}.lz", file_name(name)));
        let file = File::create(&packed).with_context(|| cannot("make", &packed))?;
        let mut writer = LzipWriter::new(file, LzipOptions::with_preset(PRESET));
        let written = writer.write_all(&bytes).and_then(|()| writer.finish());
        written.with_context(|| cannot("write", &packed))?;
        write_if_other(&place(root).join(file_name(name)), &bytes)?;
    }
    Ok(())
}

/// Makes the components of Python and of SpiderMonkey beside the operators.
pub(crate) fn large(root: &Path) -> Result<()> {
    let toolchains = Toolchains::open(root)?;
    toolchains.python("python", &[])?;
    toolchains.python("python-stub", &["--stub-wasi"])?;
    toolchains.spidermonkey("spidermonkey", &[])?;
    toolchains.spidermonkey("spidermonkey-bare", &FEATURES)?;
    for name in ["python", "python-stub", "spidermonkey", "spidermonkey-bare"] {
        let made = toolchains.out(name);
        let bytes = fs::read(&made).with_context(|| cannot("read", &made))?;
        write_if_other(&place(root).join(file_name(name)), &bytes)?;
    }
    Ok(())
}

/// `uppercase-go-0.1.0.wasm`.
fn file_name(name: &str) -> String {
    format!("uppercase-{name}-{CONTRACT}.wasm")
}

fn sources(root: &Path) -> PathBuf {
    root.join("tests").join("toolchains")
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", path.display())
}

/// Where things are while components are made.
struct Toolchains {
    /// `tests/toolchains`.
    sources: PathBuf,
    /// The contract's WIT.
    wit: PathBuf,
    /// What pip has installed.
    pip: PathBuf,
    /// A copy of the JavaScript sources with what npm has installed beside them.
    npm: PathBuf,
    out: PathBuf,
}

impl Toolchains {
    fn open(root: &Path) -> Result<Toolchains> {
        let workspace = target_directory(root).join("toolchains");
        let toolchains = Toolchains {
            sources: sources(root),
            wit: root.join("wit").join("tidegate.wit"),
            pip: workspace.join("pip"),
            npm: workspace.join("npm"),
            out: workspace.join("made"),
        };
        fs::create_dir_all(&toolchains.out).with_context(|| cannot("make", &toolchains.out))?;
        fs::create_dir_all(place(root)).with_context(|| cannot("make", &place(root)))?;
        toolchains.install()?;
        Ok(toolchains)
    }

    fn out(&self, name: &str) -> PathBuf {
        self.out.join(file_name(name))
    }

    fn install(&self) -> Result<()> {
        setup::pip()?;
        setup::node()?;
        let requirements = self.sources.join("requirements.txt");
        if is_new(&requirements, &self.pip.join("requirements.txt"))? {
            run(Command::new("python3")
                .args([
                    "-m",
                    "pip",
                    "install",
                    "-q",
                    "--upgrade",
                    "--no-deps",
                    "--target",
                ])
                .arg(&self.pip)
                .arg("-r")
                .arg(&requirements))?;
            copy(&requirements, &self.pip.join("requirements.txt"))?;
        }
        let javascript = self.sources.join("javascript");
        fs::create_dir_all(&self.npm).with_context(|| cannot("make", &self.npm))?;
        for file in [
            "arena.js",
            "operator.js",
            "spidermonkey.mjs",
            "package.json",
        ] {
            copy(&javascript.join(file), &self.npm.join(file))?;
        }
        let installed = self.npm.join("installed.json");
        if is_new(&javascript.join("package.json"), &installed)? {
            run(Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent"])
                .current_dir(&self.npm))?;
            copy(&javascript.join("package.json"), &installed)?;
        }
        Ok(())
    }

    /// A program that pip has installed.
    fn pip_program(&self, name: &str) -> Command {
        let mut command = Command::new(self.pip.join("bin").join(name));
        command.env("PYTHONPATH", &self.pip);
        command
    }

    /// Writes beside a core module's code what it is of: the host makes a component of that.
    fn embed(&self, core: &Path, name: &str) -> Result<()> {
        run(self
            .pip_program("wasm-tools")
            .args(["component", "embed", "-w", WORLD])
            .arg(&self.wit)
            .arg(core)
            .arg("-o")
            .arg(self.out(name)))
    }

    fn c(&self, name: &str, options: &[&str]) -> Result<()> {
        setup::clang_for_wasi()?;
        let core = self.out.join("core.wasm");
        run(Command::new("clang")
            .args(["--target=wasm32-wasi", "-O2", "-Wall", "-Wextra", "-Werror"])
            .args(["-mexec-model=reactor", "-Wl,--strip-all"])
            .args(options)
            .arg(self.sources.join("c/operator.c"))
            .arg("-o")
            .arg(&core))?;
        self.embed(&core, name)
    }

    fn go(&self, name: &str) -> Result<()> {
        if output(Command::new("go").arg("version")).is_none() {
            bail!("Go is missing: install Go 1.24 or newer as `go` on the PATH");
        }
        let core = self.out.join("core.wasm");
        // The linker's check is off for one function of the runtime, which the sources name.
        run(Command::new("go")
            .args(["build", "-buildmode=c-shared", "-trimpath"])
            .args(["-ldflags=-s -w -checklinkname=0", "-o"])
            .arg(&core)
            .env("GOOS", "wasip1")
            .env("GOARCH", "wasm")
            .current_dir(self.sources.join("go")))?;
        self.embed(&core, name)
    }

    fn quickjs(&self, name: &str, options: &[&str]) -> Result<()> {
        run(
            Command::new(self.npm.join("node_modules/.bin/componentize-qjs"))
                .args([
                    "--sync",
                    "-n",
                    WORLD,
                    "--module-root",
                    ".",
                    "-j",
                    "operator.js",
                    "-w",
                ])
                .arg(&self.wit)
                .args(options)
                .arg("-o")
                .arg(self.out(name))
                .current_dir(&self.npm),
        )
    }

    fn spidermonkey(&self, name: &str, without: &[&str]) -> Result<()> {
        run(Command::new("node")
            .arg("spidermonkey.mjs")
            .arg(&self.wit)
            .arg(self.out(name))
            .args(without)
            .current_dir(&self.npm))
    }

    fn python(&self, name: &str, options: &[&str]) -> Result<()> {
        run(self
            .pip_program("componentize-py")
            .arg("-d")
            .arg(&self.wit)
            .args(["-w", WORLD, "componentize"])
            .args(options)
            .args(["app", "-p", ".", "-o"])
            .arg(self.out(name))
            // Nothing is left beside the sources.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(self.sources.join("python")))
    }
}

/// Whether a file is other than its copy.
fn is_new(file: &Path, copied: &Path) -> Result<bool> {
    let wanted = fs::read(file).with_context(|| cannot("read", file))?;
    match fs::read(copied) {
        Ok(had) => Ok(had != wanted),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| cannot("read", copied)),
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("{} to {}", cannot("copy", from), to.display()))?;
    Ok(())
}
