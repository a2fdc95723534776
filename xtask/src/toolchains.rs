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

/// What makes a component.
enum Maker {
    /// clang, with options.
    C(&'static [&'static str]),
    /// Stock Go.
    Go,
    /// componentize-qjs: the module, with options.
    QuickJs(&'static str, &'static [&'static str]),
    /// componentize-js: the module, without features of the engine.
    SpiderMonkey(&'static str, &'static [&'static str]),
    /// componentize-py: the module, with options.
    Python(&'static str, &'static [&'static str]),
}

/// Parts of SpiderMonkey's engine that can be left out.
const FEATURES: &[&str] = &["stdio", "random", "clocks", "http", "fetch-event"];
const NO_WASI: &[&str] = &["--stub-wasi"];
const PACKED: &str = "packed-operator";
const PLAIN: &str = "plain-operator";

/// The version of the contract, the component's name, its world, what makes it.
type Guest = (&'static str, &'static str, &'static str, Maker);

/// Those that are committed.
const SMALL: &[Guest] = &[
    ("0.1.0", "c", PACKED, Maker::C(&[])),
    ("0.1.0", "c-stdio", PACKED, Maker::C(&["-DSTDIO"])),
    ("0.1.0", "go", PACKED, Maker::Go),
    ("0.1.0", "quickjs", PACKED, Maker::QuickJs("operator", &[])),
    (
        "0.1.0",
        "quickjs-stub",
        PACKED,
        Maker::QuickJs("operator", NO_WASI),
    ),
    ("1.0.0", "c", PACKED, Maker::C(&[])),
    ("1.0.0", "c-stdio", PACKED, Maker::C(&["-DSTDIO"])),
    ("1.0.0", "go", PACKED, Maker::Go),
    ("1.0.0", "quickjs", PACKED, Maker::QuickJs("packed", &[])),
    (
        "1.0.0",
        "quickjs-plain",
        PLAIN,
        Maker::QuickJs("plain", NO_WASI),
    ),
];

/// Those that are made where they are needed.
const LARGE: &[Guest] = &[
    ("0.1.0", "python", PACKED, Maker::Python("app", &[])),
    (
        "0.1.0",
        "python-stub",
        PACKED,
        Maker::Python("app", NO_WASI),
    ),
    (
        "0.1.0",
        "spidermonkey",
        PACKED,
        Maker::SpiderMonkey("operator", &[]),
    ),
    (
        "0.1.0",
        "spidermonkey-bare",
        PACKED,
        Maker::SpiderMonkey("operator", FEATURES),
    ),
    ("1.0.0", "python", PACKED, Maker::Python("packed", &[])),
    ("1.0.0", "python-plain", PLAIN, Maker::Python("plain", &[])),
    (
        "1.0.0",
        "spidermonkey",
        PACKED,
        Maker::SpiderMonkey("packed", &[]),
    ),
    (
        "1.0.0",
        "spidermonkey-plain",
        PLAIN,
        Maker::SpiderMonkey("plain", FEATURES),
    ),
];

/// The contract whose WIT is `wit/tidegate.wit`; those before are in `wit/released`.
const CURRENT: &str = "1.0.0";

/// How hard committed files are pressed.
const PRESET: u32 = 9;

/// Unpacks the committed components beside the operators that are built here, and gives their number.
pub(crate) fn unpack(root: &Path) -> Result<usize> {
    for guest in SMALL {
        let path = committed(root, guest);
        let packed = File::open(&path).with_context(|| cannot("open", &path))?;
        let mut bytes = Vec::new();
        LzipReader::new(packed)
            .read_to_end(&mut bytes)
            .with_context(|| cannot("unpack", &path))?;
        write_if_other(&place(root).join(file_name(guest)), &bytes)?;
    }
    Ok(SMALL.len())
}

/// Makes the small components anew, as they are committed.
pub(crate) fn small(root: &Path) -> Result<()> {
    let toolchains = Toolchains::open(root)?;
    for guest in SMALL {
        let bytes = toolchains.make(guest)?;
        let path = committed(root, guest);
        let file = File::create(&path).with_context(|| cannot("make", &path))?;
        let mut writer = LzipWriter::new(file, LzipOptions::with_preset(PRESET));
        let written = writer.write_all(&bytes).and_then(|()| writer.finish());
        written.with_context(|| cannot("write", &path))?;
        write_if_other(&place(root).join(file_name(guest)), &bytes)?;
    }
    Ok(())
}

/// Makes the components of Python and of SpiderMonkey beside the operators.
pub(crate) fn large(root: &Path) -> Result<()> {
    let toolchains = Toolchains::open(root)?;
    for guest in LARGE {
        let bytes = toolchains.make(guest)?;
        write_if_other(&place(root).join(file_name(guest)), &bytes)?;
    }
    Ok(())
}

/// `uppercase-go-1.0.0.wasm`.
fn file_name((contract, name, _, _): &Guest) -> String {
    format!("uppercase-{name}-{contract}.wasm")
}

fn committed(root: &Path, guest: &Guest) -> PathBuf {
    let built = sources(root).join("built");
    built.join(format!("{}.lz", file_name(guest)))
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
    /// `wit`.
    wit: PathBuf,
    /// What pip has installed.
    pip: PathBuf,
    /// A copy of the sources, in which toolchains may leave what they like, with what npm has installed.
    copy: PathBuf,
    out: PathBuf,
}

impl Toolchains {
    fn open(root: &Path) -> Result<Toolchains> {
        let workspace = target_directory(root).join("toolchains");
        let toolchains = Toolchains {
            sources: sources(root),
            wit: root.join("wit"),
            pip: workspace.join("pip"),
            copy: workspace.join("sources"),
            out: workspace.join("made.wasm"),
        };
        copy_all(&toolchains.sources, &toolchains.copy)?;
        let place = place(root);
        fs::create_dir_all(&place).with_context(|| cannot("make", &place))?;
        toolchains.install()?;
        Ok(toolchains)
    }

    fn install(&self) -> Result<()> {
        setup::pip()?;
        setup::node()?;
        let wanted = self.sources.join("requirements.txt");
        let installed = self.pip.join("requirements.txt");
        if is_new(&wanted, &installed)? {
            run(Command::new("python3")
                .args(["-m", "pip", "install", "-q", "--upgrade", "--no-deps"])
                .arg("--target")
                .arg(&self.pip)
                .arg("-r")
                .arg(&wanted))?;
            copy(&wanted, &installed)?;
        }
        let wanted = self.sources.join("package.json");
        let installed = self.copy.join("installed.json");
        if is_new(&wanted, &installed)? {
            run(Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent"])
                .current_dir(&self.copy))?;
            copy(&wanted, &installed)?;
        }
        Ok(())
    }

    /// The bytes of a component.
    fn make(&self, (contract, _, world, maker): &Guest) -> Result<Vec<u8>> {
        let wit = match *contract {
            CURRENT => self.wit.clone(),
            released => self.wit.join("released").join(released),
        };
        let wit = wit.join("tidegate.wit");
        let sources = self.copy.join(contract);
        match maker {
            Maker::C(options) => self.c(&sources.join("c"), &wit, world, options)?,
            Maker::Go => self.go(&sources.join("go"), &wit, world)?,
            Maker::QuickJs(module, options) => {
                let qjs = self.copy.join("node_modules/.bin/componentize-qjs");
                run(Command::new(qjs)
                    .args(["--sync", "--module-root", ".", "-n", world, "-w"])
                    .arg(&wit)
                    .args(*options)
                    .args(["-j", &format!("{module}.js"), "-o"])
                    .arg(&self.out)
                    .current_dir(sources.join("javascript")))?;
            }
            Maker::SpiderMonkey(module, without) => run(Command::new("node")
                .arg("spidermonkey.mjs")
                .arg(sources.join("javascript").join(format!("{module}.js")))
                .arg(&wit)
                .arg(world)
                .arg(&self.out)
                .args(*without)
                .current_dir(&self.copy))?,
            Maker::Python(module, options) => run(self
                .pip_program("componentize-py")
                .arg("-d")
                .arg(&wit)
                .args(["-w", world, "componentize"])
                .args(*options)
                .args([module, "-p", ".", "-o"])
                .arg(&self.out)
                .current_dir(sources.join("python")))?,
        }
        fs::read(&self.out).with_context(|| cannot("read", &self.out))
    }

    fn c(&self, sources: &Path, wit: &Path, world: &str, options: &[&str]) -> Result<()> {
        setup::clang_for_wasi()?;
        let core = self.core();
        run(Command::new("clang")
            .args(["--target=wasm32-wasi", "-O2", "-Wall", "-Wextra", "-Werror"])
            .args(["-mexec-model=reactor", "-Wl,--strip-all"])
            .args(options)
            .args(["operator.c", "-o"])
            .arg(&core)
            .current_dir(sources))?;
        self.embed(&core, wit, world)
    }

    fn go(&self, sources: &Path, wit: &Path, world: &str) -> Result<()> {
        if output(Command::new("go").arg("version")).is_none() {
            bail!("Go is missing: install Go 1.24 or newer as `go` on the PATH");
        }
        let core = self.core();
        // The linker's check is off for one function of the runtime, which the sources name.
        run(Command::new("go")
            .args([
                "build",
                "-buildmode=c-shared",
                "-trimpath",
                "-buildvcs=false",
            ])
            .args(["-ldflags=-s -w -checklinkname=0", "-o"])
            .arg(&core)
            .env("GOOS", "wasip1")
            .env("GOARCH", "wasm")
            .current_dir(sources))?;
        self.embed(&core, wit, world)
    }

    fn core(&self) -> PathBuf {
        self.out.with_extension("core.wasm")
    }

    /// Writes into a core module what it is of: the host makes a component of that.
    fn embed(&self, core: &Path, wit: &Path, world: &str) -> Result<()> {
        run(self
            .pip_program("wasm-tools")
            .args(["component", "embed", "-w", world])
            .arg(wit)
            .arg(core)
            .arg("-o")
            .arg(&self.out))
    }

    /// A program that pip has installed.
    fn pip_program(&self, name: &str) -> Command {
        let mut command = Command::new(self.pip.join("bin").join(name));
        command.env("PYTHONPATH", &self.pip);
        command
    }
}

/// Whether a file is other than its copy.
pub(crate) fn is_new(file: &Path, copied: &Path) -> Result<bool> {
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

/// Copies a directory with all that is below it; what else is there stays.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| cannot("make", to))?;
    for entry in fs::read_dir(from).with_context(|| cannot("list", from))? {
        let path = entry.with_context(|| cannot("list", from))?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        match path.is_dir() {
            true => copy_all(&path, &to.join(name))?,
            false => copy(&path, &to.join(name))?,
        }
    }
    Ok(())
}
