// What the RMSNorm kernels share: x * weight / sqrt(mean(x^2) + epsilon), row by row.
// With `gather` 1, row i of the output comes from the row that sample i comes from.

struct Params {
    width4: u32,  // padded width / 4; the padding of input, weight and output is zero
    width: f32,   // true width
    epsilon: f32,
    gather: u32,
}

@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;       // [width / 4]
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;        // [rows, width / 4]
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows or samples, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

fn source_row(row: u32) -> u32 {
    if (params.gather == 1u) {
        return step.entries[row].w;
    }
    return row;
}

fn norm_store(index: u32, value: vec4<f32>) {
    if (ADD == 1u) {
        output[index] += value;
    } else {
        output[index] = value;
    }
}
