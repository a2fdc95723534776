//! `tidegate page`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::Args;

use super::host::{HostArguments, client};
use super::print;
use crate::exit::Failure;

/// Name of the file by which a browser is sent to the page.
const NAME: &str = "tidegate-page.html";

/// Print the link to the page of a running pipeline: what it does, in a browser on this machine.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate page --pipeline pipeline.toml\n  \
    tidegate page --open --pipeline pipeline.toml\n\n\
    The link has the token of the host in it: whoever has it may do all that the host lets its owner do.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// Open it in the browser of this machine.
    #[arg(long)]
    open: bool,
}

/// Prints the link to a running host's page, or opens it.
pub(crate) fn page(arguments: &Arguments) -> Result<(), Failure> {
    let client = client(&arguments.host)?;
    // That nobody answers is better said here than by a browser.
    client.status()?;
    let link = client.page();
    if !arguments.open {
        return print(&format!("{link}\n"));
    }
    let Some(state) = client.state() else {
        return Err(Failure::usage(
            "--open needs --pipeline or --state: the link goes to the browser by a file in the state directory, since \
             every user of a machine can read the command lines of all",
        ));
    };
    let file = written(state, &link)?;
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let opened = Command::new(opener)
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {opener}; the link is what tidegate page prints"))?;
    if !opened.success() {
        return Err(Failure::Run(anyhow::anyhow!(
            "{opener} has opened no browser ({opened}); the link is what tidegate page prints"
        )));
    }
    Ok(())
}

/// A file that only its owner may read, and that leads to the link.
fn written(state: &Path, link: &str) -> Result<PathBuf, Failure> {
    let path = state.join(NAME);
    // An address and a token, each of characters that mean nothing in HTML.
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0;url={link}\"><a href=\"{link}\">The page of the pipeline</a>\n"
    );
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Of an earlier start.
    let _ = fs::remove_file(&path);
    options
        .open(&path)
        .and_then(|mut file| file.write_all(page.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
