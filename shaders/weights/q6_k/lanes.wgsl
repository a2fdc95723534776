// What a lane of the software matmul reads of a group: 32 elements of each of its four rows, stored as GGUF's q6_K, kinds apart.

const SCALED: bool = true;   // whether a group has factors
const HALVES: u32 = 2u;      // parts of a group with a factor of their own
const MINIMA: bool = false;  // whether a group has a minimum to take from each weight

@group(0) @binding(1) var<storage, read> values: array<Words4>; // the low four bits of q
@group(0) @binding(5) var<storage, read> scales: array<Words2>; // two i8 for each of four rows
@group(0) @binding(6) var<storage, read> supers: array<Words4>; // d of four rows, f16
@group(0) @binding(7) var<storage, read> high: array<Words2>;   // the upper two bits of q

struct Group {
    chunks: array<vec4<u32>, 4>, // of the four rows
    high: array<vec2<u32>, 4>,
    scales: vec2<u32>,
    supers: vec4<u32>,
}

fn load_group(at: u32, lane: u32) -> Group {
    var group: Group;
    for (var i = 0u; i < 4u; i++) {
        group.chunks[i] = words4(values[(at * 4u + i) * 8u + lane]);
        group.high[i] = words2(high[(at * 4u + i) * 8u + lane]);
    }
    group.scales = words2(scales[at * 8u + lane]);
    group.supers = words4(supers[at / 8u * 8u + lane]);
    return group;
}

fn raw4(group: ptr<function, Group>, row: u32, quad: u32) -> vec4<f32> {
    let low = (*group).chunks[row][quad / 2u] >> (quad % 2u * 16u);
    let upper = (*group).high[row][quad / 4u] >> (quad % 4u * 8u);
    let q = ((vec4<u32>(low) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u))
        | (((vec4<u32>(upper) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u)) << vec4<u32>(4u));
    return vec4<f32>(vec4<i32>(q) - vec4<i32>(32));
}

fn factors(group: ptr<function, Group>, half: u32) -> vec4<f32> {
    let words = vec4<u32>((*group).scales.x << 16u, (*group).scales.x, (*group).scales.y << 16u, (*group).scales.y);
    let s = bitcast<vec4<i32>>(words << vec4<u32>(8u - half * 8u)) >> vec4<u32>(24u);
    let d = (*group).supers;
    return vec4<f32>(s) * vec4<f32>(unpack2x16float(d.x).x, unpack2x16float(d.y).x, unpack2x16float(d.z).x, unpack2x16float(d.w).x);
}

fn minima(group: ptr<function, Group>) -> vec4<f32> {
    return vec4<f32>();
}
