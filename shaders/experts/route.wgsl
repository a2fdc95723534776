// The experts of a row, and what their outputs count for: the highest of its logits, of equal ones the first, with their shares
// of the softmax over all logits or over those of the chosen.

struct Params {
    experts: u32,
    stride: u32,     // logits of a row, padded; behind those of the experts the gate of the shared expert, if there is one
    chosen: u32,
    slots: u32,      // chosen, and one for the shared expert, if there is one
    normalized: u32, // 1: shares are of the chosen
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(2) var<storage, read> logits: array<f32>;                // [rows, stride]
@group(0) @binding(3) var<storage, read_write> routes: array<vec2<u32>>;    // [rows, slots] of (expert, weight)
@group(0) @binding(4) var<uniform> params: Params;

// A number that is the higher the higher x is. What is no number has its place too, so that an expert is always one of those
// that there are.
fn key_of(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

// What the shared expert's output counts for.
fn write_shared(row: u32) {
    if (params.slots > params.chosen) {
        let gate = logits[row * params.stride + params.experts];
        let weight = 1.0 / (1.0 + exp(-gate));
        routes[row * params.slots + params.chosen] = vec2<u32>(params.experts, bitcast<u32>(weight));
    }
}
