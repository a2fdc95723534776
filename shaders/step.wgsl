// The rows of a step, as the host uploads them; every kernel that works on rows begins with this file.

struct Step {
    rows: u32,      // rows in this step
    samples: u32,   // rows among them from which something is sampled
    positions: u32, // the highest position, plus 1
    alone: u32,     // rows that attention takes one by one
    // [rows] of (where the block table of the row's sequence begins, token, position, row that sample i comes from). Then, for
    // attention alone, what attention_software.wgsl says, or attention_split.wgsl and attention_tile.wgsl.
    entries: array<vec4<u32>>,
}

@group(0) @binding(0) var<storage, read> step: Step;
