// What both LayerNorm kernels share: stream = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias, where x is the
// stream and an addend: the output of a branch, or what a table holds for the row's position.

struct Params {
    width4: u32,      // padded width / 4; the padding of everything is zero
    width: u32,       // true width
    epsilon: f32,
    by_position: u32, // 1: the addend of a row is that of its position; 0: its own
}

@group(0) @binding(1) var<storage, read> weights: array<vec4<f32>>;      // [2, width / 4]: weight, then bias
@group(0) @binding(2) var<storage, read> addends: array<vec4<f32>>;      // [rows or positions, width / 4]
@group(0) @binding(3) var<storage, read_write> stream: array<vec4<f32>>; // [rows, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

fn addend_row(row: u32) -> u32 {
    return select(row, step.entries[row].z, params.by_position == 1u);
}

fn sum4(x: vec4<f32>) -> f32 {
    return dot(x, vec4<f32>(1.0));
}

// x - mean, 0 in the padding.
fn centred(x: vec4<f32>, mean: f32, k: u32) -> vec4<f32> {
    let elements = vec4<u32>(k * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<f32>(), x - vec4<f32>(mean), elements < vec4<u32>(params.width));
}
