// The activation of a head's inner rows, in place: that of an activated_*.wgsl. Invocation: 4 elements of one text. Grid: (width / 4 / LANES, texts).

struct Params {
    width4: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(3) var<storage, read_write> inner: array<vec4<f32>>; // [texts, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * LANES + lane;
    if (column >= params.width4) {
        return;
    }
    let index = group.y * params.width4 + column;
    inner[index] = activated(inner[index]);
}
