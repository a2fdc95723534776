// What a lane of the software matmul reads of a group: 32 elements of each of its four rows, stored as four-bit integers in two's
// complement, and their scales.

const SCALED: bool = true;   // whether a group has factors
const HALVES: u32 = 1u;      // parts of a group with a factor of their own
const MINIMA: bool = false;  // whether a group has a minimum to take from each weight

@group(0) @binding(1) var<storage, read> values: array<Words4>;
@group(0) @binding(5) var<storage, read> scales: array<Words2>; // four f16

struct Group {
    chunks: array<vec4<u32>, 4>, // of the four rows
    scales: vec2<u32>,
}

fn load_group(at: u32, lane: u32) -> Group {
    var group: Group;
    for (var i = 0u; i < 4u; i++) {
        group.chunks[i] = words4(values[(at * 4u + i) * 8u + lane]);
    }
    group.scales = words2(scales[at * 8u + lane]);
    return group;
}

fn raw4(group: ptr<function, Group>, row: u32, quad: u32) -> vec4<f32> {
    let word = (*group).chunks[row][quad / 2u];
    let shift = vec4<u32>(28u, 24u, 20u, 16u) - vec4<u32>(quad % 2u * 16u);
    return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word) << shift) >> vec4<u32>(28u));
}

fn factors(group: ptr<function, Group>, half: u32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float((*group).scales.x), unpack2x16float((*group).scales.y));
}

fn minima(group: ptr<function, Group>) -> vec4<f32> {
    return vec4<f32>();
}
