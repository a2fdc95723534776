//! The world of a component: with what is granted and handled, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_component::embed;

use super::Build;
use crate::disk;
use crate::language::Grant;
use crate::project::{ProjectError, SDK};
use crate::toolchain::BuildError;

/// The world of an operator with handlers: the contract has one for records and one for each handler, to be put together.
const OWN: &str = "packed-operator-with-handlers";
/// Where the contract with that world is written for toolchains.
const OWN_FILE: &str = "operator.wit";

impl Build<'_> {
    /// Its name.
    pub(super) fn world(&self) -> &'static str {
        match self.project.handlers() {
            [] => self.world_of_records(),
            _ => OWN,
        }
    }

    fn world_of_records(&self) -> &'static str {
        match self.is_granted(Grant::Log) {
            true => "packed-operator",
            false => "packed-operator-alone",
        }
    }

    /// The contract, with that world.
    fn wit(&self) -> Result<String, ProjectError> {
        let file = self.project.wit();
        let mut wit = fs::read_to_string(&file).map_err(ProjectError::disk("read", &file))?;
        let handlers = self.project.handlers();
        if !handlers.is_empty() {
            let handlers = handlers.iter().map(|handler| handler.world());
            let worlds = [self.world_of_records()].into_iter().chain(handlers);
            let included: String = worlds
                .map(|world| format!("    include {world};\n"))
                .collect();
            wit += &format!("\n/// What this operator is.\nworld {OWN} {{\n{included}}}\n");
        }
        Ok(wit)
    }

    /// The file of the contract with that world, named from the project; it is one of the sources.
    pub(super) fn wit_file(&self) -> Result<PathBuf, ProjectError> {
        if self.project.handlers().is_empty() {
            return Ok(Path::new(SDK).join("wit").join("tidegate.wit"));
        }
        let file = Path::new("build").join(OWN_FILE);
        disk::write_if_other(&self.directory, &file, self.wit()?.as_bytes())?;
        Ok(file)
    }

    /// The component of a core module that carries no type: it is of that world.
    pub(super) fn encode_in_world(&self, module: &Path) -> Result<Vec<u8>, BuildError> {
        let mut bytes = fs::read(module).map_err(ProjectError::disk("read", module))?;
        embed(&mut bytes, &self.wit()?, self.world())?;
        self.encoded(bytes)
    }
}
