//! The contract 0.1.0: `wit/released/0.1.0`.

use wasmtime::component::{ComponentType, Lift, Linker, WasmStr};
use wasmtime::{Result, StoreContextMut};

use super::version1::log;
use super::{Said, fields};
use crate::host::Host;

/// `description` of the WIT.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitDescription {
    name: String,
    version: String,
    #[component(name = "config-schema")]
    config_schema: String,
    reads: Vec<String>,
    outputs: Vec<String>,
}

impl WitDescription {
    pub(crate) fn said(self) -> Result<Said, String> {
        let reads = self.reads.len();
        if reads > crate::limits::READS {
            let limit = crate::limits::READS;
            return Err(format!(
                "it has {reads} fields that it reads, limit {limit}"
            ));
        }
        Ok(Said {
            reads: fields(&self.reads)?,
            name: self.name,
            version: self.version,
            config_schema: self.config_schema,
            outputs: self.outputs,
            metrics: Vec::new(),
            handlers: Vec::new(),
            extensions: Vec::new(),
        })
    }
}

/// Adds `log`, `config` and `metrics`.
pub(crate) fn link(linker: &mut Linker<Host>) -> Result<()> {
    linker
        .instance("tidegate:operator/log@0.1.0")?
        .func_wrap("write", log)?;
    linker
        .instance("tidegate:operator/config@0.1.0")?
        .func_wrap("get", |store: StoreContextMut<'_, Host>, (): ()| {
            Ok((store.data().config.to_string(),))
        })?;
    linker
        .instance("tidegate:operator/metrics@0.1.0")?
        .func_wrap(
            "add",
            |mut store: StoreContextMut<'_, Host>, (name, amount): (WasmStr, u64)| {
                // Looked at where it lies: a name that is none is neither copied nor written out as a whole.
                let name = name.to_str(&store)?;
                if store.data().is_counter(&name) {
                    let name = name.into_owned();
                    store.data_mut().add(name, amount);
                }
                Ok(())
            },
        )
}
