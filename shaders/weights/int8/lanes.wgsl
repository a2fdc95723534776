// What a lane of the software matmul reads of a group: 32 elements of each of its four rows, stored as i8, and their scales.

const SCALED: bool = true;   // whether a group has factors
const HALVES: u32 = 1u;      // parts of a group with a factor of their own
const MINIMA: bool = false;  // whether a group has a minimum to take from each weight

@group(0) @binding(1) var<storage, read> values: array<Words4>;
@group(0) @binding(5) var<storage, read> scales: array<Words2>; // four f16

struct Group {
    chunks: array<vec4<u32>, 8>, // [4 rows, 2 chunks]
    scales: vec2<u32>,
}

fn load_group(at: u32, lane: u32) -> Group {
    var group: Group;
    for (var i = 0u; i < 8u; i++) {
        group.chunks[i] = words4(values[(at * 8u + i) * 8u + lane]);
    }
    group.scales = words2(scales[at * 8u + lane]);
    return group;
}

fn raw4(group: ptr<function, Group>, row: u32, quad: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8((*group).chunks[row * 2u + quad / 4u][quad % 4u]));
}

fn factors(group: ptr<function, Group>, half: u32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float((*group).scales.x), unpack2x16float((*group).scales.y));
}

fn minima(group: ptr<function, Group>) -> vec4<f32> {
    return vec4<f32>();
}
