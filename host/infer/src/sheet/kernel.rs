//! What a kernel's text says of it.

use std::collections::HashMap;

use naga::front::wgsl;
use naga::{AddressSpace, Block, Function, Handle, Module, Statement};

use super::banks;
use crate::kernels::Kernel;

/// What a kernel's text says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelFacts {
    /// Lanes of a workgroup.
    pub(super) lanes: u32,
    /// Bytes of workgroup memory.
    pub(super) shared: u32,
    /// Barriers of its text outside of loops and within them, each counted once.
    pub(super) barriers: [u32; 2],
    /// Words of one bank of workgroup memory that lanes ask for at once, at most.
    pub(super) bank_conflicts: u32,
}

impl KernelFacts {
    /// Nothing is known of a text that does not parse: those of kernels all do, which a test holds.
    pub(super) fn of(kernel: Kernel) -> KernelFacts {
        let Ok(module) = wgsl::parse_str(&kernel.source()) else {
            return KernelFacts::default();
        };
        let Some(main) = module.entry_points.first() else {
            return KernelFacts::default();
        };
        let [x, y, z] = main.workgroup_size;
        let shared = module
            .global_variables
            .iter()
            .filter(|(_, variable)| variable.space == AddressSpace::WorkGroup)
            .map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx()))
            .sum();
        let mut known = HashMap::new();
        KernelFacts {
            lanes: x * y * z,
            shared,
            barriers: barriers(&module, &main.function.body, false, &mut known),
            bank_conflicts: banks::conflicts(&module),
        }
    }
}

/// Barriers of a block, outside of loops and in them; of functions that it calls, too.
fn barriers(
    module: &Module,
    block: &Block,
    looped: bool,
    known: &mut HashMap<(Handle<Function>, bool), [u32; 2]>,
) -> [u32; 2] {
    let mut sum = [0, 0];
    for statement in block {
        let mut inner = |block: &Block, looped| barriers(module, block, looped, known);
        let found: Vec<[u32; 2]> = match statement {
            Statement::ControlBarrier(_) | Statement::WorkGroupUniformLoad { .. } => {
                vec![if looped { [0, 1] } else { [1, 0] }]
            }
            Statement::Block(block) => vec![inner(block, looped)],
            Statement::If { accept, reject, .. } => {
                vec![inner(accept, looped), inner(reject, looped)]
            }
            Statement::Switch { cases, .. } => {
                cases.iter().map(|case| inner(&case.body, looped)).collect()
            }
            Statement::Loop {
                body, continuing, ..
            } => vec![inner(body, true), inner(continuing, true)],
            Statement::Call { function, .. } => {
                let key = (*function, looped);
                let found = match known.get(&key) {
                    Some(found) => *found,
                    None => {
                        let body = &module.functions[*function].body;
                        let found = barriers(module, body, looped, known);
                        known.insert(key, found);
                        found
                    }
                };
                vec![found]
            }
            _ => Vec::new(),
        };
        for [straight, in_loops] in found {
            sum = [sum[0] + straight, sum[1] + in_loops];
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_says_how_many_lanes_it_has() {
        for kernel in Kernel::in_use() {
            assert!(KernelFacts::of(kernel).lanes > 0, "{kernel:?}");
        }
    }
}
