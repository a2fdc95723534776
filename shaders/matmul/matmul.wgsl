// What every matmul kernel shares: output = input · weightsᵀ over one shard of the weights' rows (the output's columns).
// How the four neighbouring sums of a row end up in the output is said by a store_*.wgsl.

struct Params {
    columns4: u32, // columns of this shard that are stored / 4
    width4: u32,   // padded width of an input row / 4
    stride: u32,   // output row, in elements of the output array
    first: u32,    // where this shard's columns begin in an output row, in elements of the output array
    samples: u32,  // 1: there are as many rows as samples; 0: as many as the step has
    groups: u32,   // groups of 32 elements in a row of weights; what of them lies beyond the input's width is zero
    parts: u32,    // to which units of the width are dealt out in turn, and which are summed by themselves (matmul_columns.wgsl)
    share: u32,    // pairs of a row and an expert that have a row of the input together (rows_routed.wgsl)
    norm_width: f32,   // true width of the rows whose norm is in the input (columns_normed.wgsl)
    norm_epsilon: f32,
    first_expert: u32, // of this shard (rows_routed.wgsl); columns are then those of each expert
    experts: u32,      // in this shard
}

@group(0) @binding(4) var<uniform> params: Params;

fn row_count() -> u32 {
    return select(step.rows, step.samples, params.samples == 1u);
}
