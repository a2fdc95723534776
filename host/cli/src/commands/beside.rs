//! A run that begins while `tidegate dead-letters send` has its state directory, which is soon over.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tidegate_contract::InUse;
use tidegate_state::StateDirectory;

use crate::exit::{Failure, tell};

/// How long it is waited for. Whoever supervises a run starts it again.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);

/// Waits until nobody sends dead letters from there.
pub(super) fn after_senders(state: &Path) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    let mut told = false;
    while let Some(InUse {
        process: Some(process),
    }) = StateDirectory::in_use(state)?
    {
        if !sends_letters(process) {
            break;
        }
        let sender = format!(
            "state directory {} is in use by `tidegate dead-letters send` (process {process})",
            state.display()
        );
        if Instant::now() >= until {
            return Err(Failure::Run(anyhow!(
                "{sender}; run again when it has ended"
            )));
        }
        if !told {
            let seconds = PATIENCE.as_secs();
            tell(format_args!(
                "{sender}; waiting up to {seconds} s for its end\n"
            ));
            told = true;
        }
        sleep(LOOK);
    }
    Ok(())
}

/// Whether a process is that command, where the system tells.
fn sends_letters(process: u32) -> bool {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    words.any(|word| word == b"dead-letters") && words.any(|word| word == b"send")
}
