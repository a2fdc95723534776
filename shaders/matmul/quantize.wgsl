// Activations in int8: a scale for each group of 32 elements of a row, which takes its largest to 127. With SPREAD 1 the elements of
// each eight are stored even ones first, as int4 weights are taken apart.
// Invocation: one group of one row. Grid: (groups / LANES, rows).

struct Params {
    width4: u32,  // padded width of an input row / 4
    groups: u32,  // groups in a row; what of them lies beyond the width is zero
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;        // [rows, width / 4]
@group(0) @binding(3) var<storage, read_write> output: array<u32>;       // [rows, groups, 8], four elements in a word
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(9) var<storage, read_write> output_scales: array<f32>; // [rows, groups]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let group = id.x * LANES + lane;
    if (group >= params.groups) {
        return;
    }
    let start = id.y * params.width4;
    var x: array<vec4<f32>, 8>;
    var largest = vec4<f32>();
    for (var quad = 0u; quad < 8u; quad++) {
        let at = group * 8u + quad;
        let inside = select(0.0, 1.0, at < params.width4);
        x[quad] = input[start + min(at, params.width4 - 1u)] * inside;
        largest = max(largest, abs(x[quad]));
    }
    let most = max(max(largest.x, largest.y), max(largest.z, largest.w));
    let inverse = select(0.0, 127.0 / most, most > 0.0);
    let place = id.y * params.groups + group;
    output_scales[place] = most / 127.0;
    for (var pair = 0u; pair < 4u; pair++) {
        let a = vec4<i32>(round(x[2u * pair] * inverse));
        let b = vec4<i32>(round(x[2u * pair + 1u] * inverse));
        if (SPREAD == 1u) {
            output[place * 8u + 2u * pair] = pack4xI8(vec4<i32>(a.x, a.z, b.x, b.z));
            output[place * 8u + 2u * pair + 1u] = pack4xI8(vec4<i32>(a.y, a.w, b.y, b.w));
        } else {
            output[place * 8u + 2u * pair] = pack4xI8(a);
            output[place * 8u + 2u * pair + 1u] = pack4xI8(b);
        }
    }
}
