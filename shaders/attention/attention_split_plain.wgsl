// Keys and values without scales, as attention on GPUs reads them: a quad of a head at a time.

@group(0) @binding(2) var<storage, read> keys: array<Kv>;   // [blocks, kv_heads, stride / 4, BLOCK]
@group(0) @binding(5) var<storage, read> values: array<Kv>; // [blocks, BLOCK, kv_heads, stride / 4]

struct FourQuads {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

fn of_key(key: u32, d: u32) -> vec4<f32> {
    return from_kv(keys[key + d * BLOCK]);
}

fn four_of_key(key: u32, d: u32) -> FourQuads {
    return FourQuads(of_key(key, d), of_key(key, d + 1u), of_key(key, d + 2u), of_key(key, d + 3u));
}

fn of_value(value: u32, d: u32) -> vec4<f32> {
    return from_kv(values[value + d]);
}

// Of a key and a value.
fn scales_of(place: u32, head: u32) -> vec2<f32> {
    return vec2<f32>(1.0);
}

// What goes through workgroup memory: a quad.
alias Staged = Kv;

const STAGED_QUADS: u32 = 1u;

fn quad_of(x: Staged, i: u32) -> vec4<f32> {
    return from_kv(x);
}
