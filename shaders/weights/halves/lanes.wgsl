// What a lane of the software matmul reads of a group: 32 elements of each of its four rows, stored as floats of 16 bits, two in a word
// (halves_f16.wgsl, halves_bf16.wgsl).

const SCALED: bool = false;  // whether a group has factors
const HALVES: u32 = 1u;      // parts of a group with a factor of their own
const MINIMA: bool = false;  // whether a group has a minimum to take from each weight

@group(0) @binding(1) var<storage, read> values: array<Words4>;

struct Group {
    chunks: array<vec4<u32>, 16>, // [4 rows, 4 chunks]
}

fn load_group(at: u32, lane: u32) -> Group {
    var group: Group;
    for (var i = 0u; i < 16u; i++) {
        group.chunks[i] = words4(values[(at * 16u + i) * 8u + lane]);
    }
    return group;
}

fn raw4(group: ptr<function, Group>, row: u32, quad: u32) -> vec4<f32> {
    let chunk = (*group).chunks[row * 4u + quad / 2u];
    return from_halves(select(chunk.xy, chunk.zw, quad % 2u == 1u));
}

fn factors(group: ptr<function, Group>, half: u32) -> vec4<f32> {
    return vec4<f32>(1.0);
}

fn minima(group: ptr<function, Group>) -> vec4<f32> {
    return vec4<f32>();
}
