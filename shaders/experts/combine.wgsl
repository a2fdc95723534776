// The outputs of a row's experts, each times its weight, added up in the order in which they were chosen; to the output where
// that is a residual stream (ADD). With SHARED 1 the output of the shared expert comes last; with BIASED 1 each
// output has a bias.
// Invocation: 4 elements of one row. Grid: (width / 4 / LANES, rows).

struct Params {
    width4: u32,
    chosen: u32, // experts of a row
    slots: u32,  // routes of a row
    unused: u32,
}

@group(0) @binding(1) var<storage, read> routes: array<vec2<u32>>;       // [rows, slots] of (expert, weight)
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;        // [rows, chosen, width / 4]
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * LANES + lane;
    if (column >= params.width4) {
        return;
    }
    let row = group.y;
    var sum = vec4<f32>();
    for (var s = 0u; s < params.chosen; s++) {
        let route = routes[row * params.slots + s];
        let weight = bitcast<f32>(route.y);
        let x = input[(row * params.chosen + s) * params.width4 + column];
        if (BIASED == 1u) {
            sum += weight * (x + bias_of(route.x, column));
        } else {
            sum += weight * x;
        }
    }
    let index = row * params.width4 + column;
    if (SHARED == 1u) {
        sum += bitcast<f32>(routes[row * params.slots + params.chosen].y) * shared_output(index);
    }
    if (ADD == 1u) {
        output[index] += sum;
    } else {
        output[index] = sum;
    }
}
