//! A program that is started with what its environment has, and with more said in its log.

use std::fs::File;
use std::process::Stdio;

use tidegate_tests::{Running, Workspace, until};

use crate::client::{PATIENCE, Served};

impl Served {
    /// Runs `tidegate ARGUMENTS` with these variables until it listens, by TLS or without.
    pub(crate) fn said(
        workspace: Workspace,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Served {
        let mut command = workspace.command(arguments);
        let log = File::create(workspace.path("stderr.log")).unwrap();
        command
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(log);
        let mut running = Running::spawn(command);
        let mut address = None;
        until("the gateway", PATIENCE, || {
            let said = String::from_utf8_lossy(&workspace.read("stderr.log")).into_owned();
            assert_eq!(running.ended(), None, "{said}");
            let line = said
                .lines()
                .find_map(|line| line.split_once("gateway listens on "));
            let url = line.and_then(|(_, url)| url.trim().split_once("://"));
            address = url.map(|(_, address)| address.to_owned());
            address.is_some()
        });
        Served {
            workspace,
            running,
            address: address.unwrap(),
        }
    }
}
