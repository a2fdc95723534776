// The rows of a step, as the host uploads them; every kernel begins with this file.
// The host joins: constants, this file, one weights_*.wgsl and one store_*.wgsl where the kernel needs them, the kernel.

struct Step {
    rows: u32,       // rows in this step
    logit_rows: u32, // rows among them whose logits are wanted
    unused_0: u32,
    unused_1: u32,
    // [max_rows] of (slot, token, position, row that logit row i comes from)
    entries: array<vec4<u32>>,
}

@group(0) @binding(0) var<storage, read> step: Step;
