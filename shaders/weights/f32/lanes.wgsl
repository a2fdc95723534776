// What a lane of the software matmul reads of a group: 32 elements of each of its four rows, stored as f32.

const SCALED: bool = false;  // whether a group has factors
const HALVES: u32 = 1u;      // parts of a group with a factor of their own
const MINIMA: bool = false;  // whether a group has a minimum to take from each weight

@group(0) @binding(1) var<storage, read> values: array<Words4>;

struct Group {
    at: u32,
}

fn load_group(at: u32, lane: u32) -> Group {
    return Group(at * 256u + lane);
}

fn raw4(group: ptr<function, Group>, row: u32, quad: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(words4(values[(*group).at + (row * 8u + quad) * 8u]));
}

fn factors(group: ptr<function, Group>, half: u32) -> vec4<f32> {
    return vec4<f32>(1.0);
}

fn minima(group: ptr<function, Group>) -> vec4<f32> {
    return vec4<f32>();
}
