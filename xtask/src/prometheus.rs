//! Prometheus and promtool, with which metrics, alerts and dashboards are tested: Debian's package, unpacked and not
//! installed, so that no service is started. They stay in `target/prometheus`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::operators::target_directory;
use crate::setup;
use crate::steps::run;

const PACKAGE: &str = "prometheus";
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// Fetches them if they are not there. Where there is no Debian they are taken from the path, if they are on it.
pub(crate) fn fetch(root: &Path) -> Result<()> {
    let place = target_directory(root).join("prometheus");
    let there = |directory: &Path| PROGRAMS.iter().all(|name| directory.join(name).exists());
    if there(&place) {
        return Ok(());
    }
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    if !setup::is_debian() {
        return link(&place);
    }
    println!("fetching Debian's {PACKAGE}");
    let unpacked = place.join("unpacked");
    let download = || {
        run(Command::new("apt-get")
            .args(["download", "-q", PACKAGE])
            .current_dir(&place))
    };
    if download().is_err() {
        setup::apt_update()?;
        download()?;
    }
    let package = package(&place)?;
    run(Command::new("dpkg").arg("-x").arg(&package).arg(&unpacked))?;
    for name in PROGRAMS {
        let from = unpacked.join("usr/bin").join(name);
        fs::rename(&from, place.join(name))
            .with_context(|| format!("the package has no {}", from.display()))?;
    }
    fs::remove_file(&package).with_context(|| format!("cannot remove {}", package.display()))?;
    fs::remove_dir_all(&unpacked).with_context(|| format!("cannot remove {}", unpacked.display()))
}

/// The package that was downloaded.
fn package(place: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(place).with_context(|| format!("cannot read {}", place.display()))?;
    for file in files {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            return Ok(path);
        }
    }
    bail!("apt-get has downloaded no package into {}", place.display());
}

#[cfg(unix)]
fn link(place: &Path) -> Result<()> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    for name in PROGRAMS {
        let mut found = std::env::split_paths(&paths).map(|directory| directory.join(name));
        let Some(program) = found.find(|path| path.exists()) else {
            bail!(
                "{name} is missing: tests of metrics, alerts and dashboards run it; install Prometheus"
            );
        };
        let link = place.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(&program, &link)
                .with_context(|| format!("cannot make {}", link.display()))?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn link(_place: &Path) -> Result<()> {
    bail!("Prometheus is fetched on Debian, and taken from the path on other Unix systems");
}
