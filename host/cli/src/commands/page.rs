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
    let cannot = || format!("cannot write {}", path.display());
    let mut file = options.open(&path).with_context(cannot)?;
    if !is_owners(&file, state).with_context(cannot)? {
        let _ = fs::remove_file(&path);
        return Err(Failure::usage(format_args!(
            "--open leaves a file in {}, which is another user's: run it as that user, or open what tidegate page prints",
            state.display()
        )));
    }
    file.write_all(page.as_bytes()).with_context(cannot)?;
    Ok(path)
}

/// Whether a file that was made in a directory belongs to whom the directory does.
#[cfg(unix)]
fn is_owners(file: &fs::File, directory: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(file.metadata()?.uid() == fs::metadata(directory)?.uid())
}

#[cfg(not(unix))]
fn is_owners(_: &fs::File, _: &Path) -> std::io::Result<bool> {
    Ok(true)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_left_for_the_owner_of_the_directory_alone() {
        let state = tempfile::tempdir().unwrap();
        let page = written(state.path(), "http://127.0.0.1:1/#token=abc").unwrap();
        assert!(fs::read_to_string(&page).unwrap().contains("token=abc"));
        // Only who is above permissions can give it to somebody else, and can then still write there.
        if std::os::unix::fs::chown(state.path(), Some(12_345), None).is_ok() {
            let refused = written(state.path(), "http://127.0.0.1:1/#token=abc").unwrap_err();
            let Failure::Usage(why) = refused else {
                panic!("it is a mistake of whoever asks");
            };
            assert!(why.contains("another user's"), "{why}");
            assert!(!page.exists());
        }
    }
}
