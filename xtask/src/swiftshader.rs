//! A second Vulkan driver: SwiftShader, which shares no code with Mesa's drivers. Kernels that compute the same on both
//! stand on what Vulkan promises, not on what one driver happens to do.
//!
//! It is taken out of an npm package that carries Chromium for servers, and stays in `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, output, run};
use crate::{FULL, setup};

const PACKAGE: &str = "@sparticuz/chromium@147.0.0";
/// What `npm pack` calls the package, and its SHA-256.
const ARCHIVE: &str = "sparticuz-chromium-147.0.0.tgz";
const SHA256: &str = "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b";
/// The driver in it: a tar file, compressed with Brotli, which Node.js can undo.
const MEMBER: &str = "package/bin/swiftshader.tar.br";
const MANIFEST: &str = "vk_swiftshader_icd.json";
const DECOMPRESS: &str = "const fs = require('fs'); const [from, to] = process.argv.slice(1); \
    fs.writeFileSync(to, require('zlib').brotliDecompressSync(fs.readFileSync(from)));";
/// The tests of the inference engine that hold kernels against float64.
const KERNELS: [&str; 1] = ["kernels::"];
/// And whole models against transformers, encoders, products and sampling in all their forms: minutes on this driver, which keeps
/// no compiled shaders.
const ALL: [&str; 5] = [
    "encoders::",
    "goldens::",
    "kernels::",
    "matmul::",
    "sampling::tests::",
];

/// Whether there is a build of it for this machine.
pub(crate) fn runs_here() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
}

/// Runs the tests of what a device computes on SwiftShader and on no other driver; `full` adds what takes minutes.
pub(crate) fn test(root: &Path, full: bool) -> Result<()> {
    let manifest = driver(root)?;
    let tests = if full { &ALL[..] } else { &KERNELS[..] };
    let mut command = cargo();
    if full {
        command.env(FULL, "1");
    }
    run(command
        .args(["test", "--release", "--workspace", "--no-fail-fast"])
        .args(["--lib", "--test", "infer", "--"])
        .args(tests)
        // The second name is what loaders before 1.3.207 know.
        .env("VK_DRIVER_FILES", &manifest)
        .env("VK_ICD_FILENAMES", &manifest)
        .current_dir(root))
}

/// The file that tells a Vulkan loader of the driver; fetched if it is not there.
fn driver(root: &Path) -> Result<PathBuf> {
    let place = root.join("target/swiftshader");
    let directory = place.join(&SHA256[..16]);
    let manifest = directory.join(MANIFEST);
    if manifest.exists() {
        return Ok(manifest);
    }
    setup::node()?;
    println!("fetching {PACKAGE} with npm");
    // The directory gets its name when it is complete.
    let partial = place.join(format!("partial-{}", std::process::id()));
    fs::create_dir_all(&partial)?;
    run(Command::new("npm")
        .args(["pack", "--silent", PACKAGE])
        .current_dir(&partial))?;
    let archive = partial.join(ARCHIVE);
    let sum = output(Command::new("sha256sum").arg(&archive)).unwrap_or_default();
    if !sum.starts_with(SHA256) {
        bail!(
            "{PACKAGE} is not what it was: its SHA-256 is {:?}, not {SHA256}",
            sum.split(' ').next().unwrap_or_default()
        );
    }
    let tar = |arguments: &[&str]| run(Command::new("tar").args(arguments).current_dir(&partial));
    tar(&["-xzf", ARCHIVE, MEMBER])?;
    run(Command::new("node")
        .args(["-e", DECOMPRESS, MEMBER, "swiftshader.tar"])
        .current_dir(&partial))?;
    let done = partial.join("driver");
    fs::create_dir(&done)?;
    tar(&["-xf", "swiftshader.tar", "-C", "driver"])?;
    if !done.join(MANIFEST).exists() {
        bail!("{PACKAGE} has no {MANIFEST} in {MEMBER}");
    }
    fs::rename(&done, &directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    fs::remove_dir_all(&partial)?;
    Ok(manifest)
}
