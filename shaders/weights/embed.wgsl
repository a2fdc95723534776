// Embedding: the row of each token, widened to f32, times a factor. A token outside this shard of the table is left to another.
// A token that the host does not know yet is what the step before has drawn: FED, and which of its tokens. Where none was drawn it
// is the last of the table, and nobody asks what comes of it.
// Invocation: 4 elements of one row. Grid: (width / 4 / LANES, rows).

struct Params {
    width4: u32,      // width / 4
    first_token: u32, // first token of this shard
    tokens: u32,      // tokens in this shard
    scale: f32,       // factor of every element
    groups: u32,      // groups of 32 elements in a row of weights
    vocabulary: u32,  // tokens in all shards
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(2) var<storage, read> drawn: array<vec2<u32>>;        // [samples of the step before] of (token, what else)
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * LANES + lane;
    var token = step.entries[group.y].y;
    if ((token & FED) != 0u) {
        token = min(drawn[token - FED].x, params.vocabulary - 1u);
    }
    if (column >= params.width4 || token < params.first_token || token - params.first_token >= params.tokens) {
        return;
    }
    let weight = weight4(token - params.first_token, column / 8u, column % 8u);
    output[group.y * params.width4 + column] = weight * params.scale;
}
