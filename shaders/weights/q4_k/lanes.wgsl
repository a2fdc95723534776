// What a lane of the software matmul reads of a group: 32 elements of each of its four rows, stored as GGUF's q4_K, kinds apart.

const SCALED: bool = true;   // whether a group has factors
const HALVES: u32 = 1u;      // parts of a group with a factor of their own
const MINIMA: bool = true;   // whether a group has a minimum to take from each weight

@group(0) @binding(1) var<storage, read> values: array<Words4>;
@group(0) @binding(5) var<storage, read> scales: array<Words2>; // (s, m) of four rows, a byte each
@group(0) @binding(6) var<storage, read> supers: array<Words4>; // (d, dmin) of four rows, f16 each

struct Group {
    chunks: array<vec4<u32>, 4>, // of the four rows
    scales: vec2<u32>,
    supers: vec4<u32>,
}

fn load_group(at: u32, lane: u32) -> Group {
    var group: Group;
    for (var i = 0u; i < 4u; i++) {
        group.chunks[i] = words4(values[(at * 4u + i) * 8u + lane]);
    }
    group.scales = words2(scales[at * 8u + lane]);
    group.supers = words4(supers[at / 8u * 8u + lane]);
    return group;
}

fn raw4(group: ptr<function, Group>, row: u32, quad: u32) -> vec4<f32> {
    let word = (*group).chunks[row][quad / 2u] >> (quad % 2u * 16u);
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u));
}

fn factors(group: ptr<function, Group>, half: u32) -> vec4<f32> {
    let s = vec4<u32>((*group).scales.x, (*group).scales.x >> 16u, (*group).scales.y, (*group).scales.y >> 16u) & vec4<u32>(255u);
    let d = (*group).supers;
    return vec4<f32>(s) * vec4<f32>(unpack2x16float(d.x).x, unpack2x16float(d.y).x, unpack2x16float(d.z).x, unpack2x16float(d.w).x);
}

fn minima(group: ptr<function, Group>) -> vec4<f32> {
    let m = vec4<u32>((*group).scales.x >> 8u, (*group).scales.x >> 24u, (*group).scales.y >> 8u, (*group).scales.y >> 24u) & vec4<u32>(255u);
    let d = (*group).supers;
    return vec4<f32>(m) * vec4<f32>(unpack2x16float(d.x).y, unpack2x16float(d.y).y, unpack2x16float(d.z).y, unpack2x16float(d.w).y);
}
