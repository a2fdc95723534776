// What both LayerNorm kernels share: (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias, where x is the stream and an
// addend: the output of a branch, or what a table holds for the row's place. It takes the stream's place, or goes beside it while
// x does.

struct Params {
    width4: u32,      // padded width / 4; the padding of everything is zero
    width: u32,       // true width
    epsilon: f32,
    addend: u32,      // which row of the addends a row takes; 0: its own, 1: that of its place, 2: the first
    rms: u32,         // 1: an RMSNorm, whose mean is taken for 0
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(1) var<storage, read> weights: array<vec4<f32>>;      // [2, width / 4]: weight, then bias
@group(0) @binding(2) var<storage, read> addends: array<vec4<f32>>;      // [rows or places, width / 4]
@group(0) @binding(3) var<storage, read_write> stream: array<vec4<f32>>; // [rows, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

fn addend_row(row: u32) -> u32 {
    switch params.addend {
        case 0u: {
            return row;
        }
        case 1u: {
            return step.entries[row].z;
        }
        default: {
            return 0u;
        }
    }
}

// The mean of a row with this sum.
fn mean_of(sum: f32) -> f32 {
    return select(sum / f32(params.width), 0.0, params.rms == 1u);
}

fn sum4(x: vec4<f32>) -> f32 {
    return dot(x, vec4<f32>(1.0));
}

// x - mean, 0 in the padding.
fn centred(x: vec4<f32>, mean: f32, k: u32) -> vec4<f32> {
    let elements = vec4<u32>(k * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<f32>(), x - vec4<f32>(mean), elements < vec4<u32>(params.width));
}
