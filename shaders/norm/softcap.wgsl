// Logits held within a cap, smoothly: cap * tanh(logit / cap), in place.
// Invocation: 4 logits of one sample. Grid: (vocabulary / 4 / LANES, samples).

struct Params {
    width4: u32, // vocabulary, padded / 4
    cap: f32,
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(3) var<storage, read_write> logits: array<vec4<f32>>; // [samples, vocabulary / 4]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * LANES + lane;
    if (column >= params.width4) {
        return;
    }
    let index = group.y * params.width4 + column;
    // Beyond 15 tanh is 1, and the way some drivers compute it overflows far out. What is no number stays none.
    let x = logits[index] / params.cap;
    logits[index] = params.cap * select(tanh(x), sign(x), abs(x) > vec4<f32>(15.0));
}
