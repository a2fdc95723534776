//! What stands in for an import that a slot does not grant, where its pipeline lets the component start: every function
//! of it traps. Of this package's interfaces and of WASI, that is: nothing can stand in for what this host does not know.

use std::collections::HashSet;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, ResourceType};
use wasmtime::{Engine, Result, bail};

use crate::host::Host;

/// Most resources that a component may import where something stands in: all of WASI 0.2 has some thirty.
const RESOURCES: usize = 256;

/// Gives a linker what stands in for these imports of a component.
pub(crate) fn link(
    linker: &mut Linker<Host>,
    engine: &Engine,
    component: &Component,
    ungranted: &HashSet<&str>,
) -> Result<()> {
    linker.allow_shadowing(true);
    // An interface may name a resource of one before it again: it is that one's to provide.
    let mut resources: Vec<ResourceType> = Vec::new();
    for (import, item) in component.component_type().imports(engine) {
        let is_granted = !ungranted.contains(import);
        let ComponentItem::ComponentInstance(instance) = item.ty else {
            match is_granted {
                true => continue,
                false => bail!("{import} is no interface"),
            }
        };
        for (name, item) in instance.exports(engine) {
            match item.ty {
                ComponentItem::Resource(resource) => {
                    if resources.contains(&resource) {
                        continue;
                    }
                    if resources.len() == RESOURCES {
                        bail!("it imports more than {RESOURCES} resources");
                    }
                    resources.push(resource);
                    if !is_granted {
                        let stub = ResourceType::host::<()>();
                        linker
                            .instance(import)?
                            .resource(name, stub, |_, _| Ok(()))?;
                    }
                }
                ComponentItem::ComponentFunc(_) if !is_granted => {
                    let called = format!("{import}#{name}");
                    linker.instance(import)?.func_new(name, move |_, _, _, _| {
                        bail!("{called} is not granted to this slot")
                    })?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}
