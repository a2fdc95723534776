// What every matmul kernel shares: output = input · weightsᵀ over one shard of the weights' rows (the output's columns).
// How the four neighbouring sums of a row end up in the output is said by a store_*.wgsl.

struct Params {
    columns4: u32, // columns of this shard / 4, padded with zero rows of weights
    width4: u32,   // padded width of a row / 4; the padding of input and weights is zero
    stride: u32,   // output row, in elements of the output array
    first: u32,    // where this shard's columns begin in an output row, in elements of the output array
    logits: u32,   // 1: there are as many rows as logits are wanted; 0: as many as the step has
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>; // [rows, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

fn row_count() -> u32 {
    return select(step.rows, step.logit_rows, params.logits == 1u);
}
