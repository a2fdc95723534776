//! Whose a state directory is: the user's whose commit log is in it.
//!
//! Whoever is above permissions (root, of a service that has a user of its own) would make files there that the owner may
//! not read: a start of the service would fail, or would find nothing where something is.

use std::path::Path;

use tidegate_contract::CommitLogError;

/// Refuses a directory whose commit log is another user's than what this process makes there. That is asked of a file, not
/// of the system: a shared disk may give all that is written the one owner.
#[cfg(unix)]
pub(crate) fn check(directory: &Path, log: &Path) -> Result<(), CommitLogError> {
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::MetadataExt;

    let error = |why: String| CommitLogError::Write {
        path: log.display().to_string(),
        why,
    };
    let owner = match fs::metadata(log) {
        Ok(facts) => facts.uid(),
        Err(missing) if missing.kind() == ErrorKind::NotFound => return Ok(()),
        Err(other) => return Err(error(other.to_string())),
    };
    let probe = directory.join(format!(".probe.{}", std::process::id()));
    // Of a process of the same number that ended in between.
    let _ = fs::remove_file(&probe);
    let made = fs::File::create_new(&probe).and_then(|file| file.metadata());
    let _ = fs::remove_file(&probe);
    match made {
        Ok(facts) if facts.uid() == owner => Ok(()),
        Err(other) if other.kind() != ErrorKind::PermissionDenied => Err(error(other.to_string())),
        _ => Err(error(format!(
            "it is user {owner}'s, who could not read what another user makes beside it; {}",
            way(directory, owner)
        ))),
    }
}

#[cfg(not(unix))]
pub(crate) fn check(_directory: &Path, _log: &Path) -> Result<(), CommitLogError> {
    Ok(())
}

/// The command that would work.
#[cfg(unix)]
fn way(directory: &Path, owner: u32) -> String {
    let real = crate::real_path(directory);
    // Where systemd keeps what is of users that it makes for a service: nobody else but root gets there.
    match real.strip_prefix("/var/lib/private") {
        Ok(name) => format!(
            "put `systemd-run --pipe --wait --same-dir -p DynamicUser=yes -p StateDirectory={}` before the command, or start \
             the service first",
            name.display()
        ),
        Err(_) => format!("put `sudo -u '#{owner}'` before the command"),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use super::way;

    #[test]
    fn the_command_that_would_work_is_said() {
        assert_eq!(
            way(Path::new("/srv/tidegate"), 993),
            "put `sudo -u '#993'` before the command"
        );
        let dynamic = way(Path::new("/var/lib/private/tidegate"), 61184);
        assert!(dynamic.contains("-p DynamicUser=yes -p StateDirectory=tidegate`"));
    }
}
