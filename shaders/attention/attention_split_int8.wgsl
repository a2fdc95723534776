// Keys and values in int8, as attention on GPUs reads them: four quads of a key at once, and of values, which lanes have side by side,
// a quad.

@group(0) @binding(2) var<storage, read> keys: array<vec4<u32>>;   // [blocks, kv_heads, stride / 16, BLOCK], and scales
@group(0) @binding(5) var<storage, read> values: array<vec4<u32>>; // [blocks, BLOCK, kv_heads, stride / 16], and scales

struct FourQuads {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

fn of_key(key: u32, d: u32) -> vec4<f32> {
    return from_kv(keys[key + d / 4u * BLOCK][d % 4u]);
}

// From a multiple of four on.
fn four_of_key(key: u32, d: u32) -> FourQuads {
    let x = keys[key + d / 4u * BLOCK];
    return FourQuads(from_kv(x.x), from_kv(x.y), from_kv(x.z), from_kv(x.w));
}

fn of_value(value: u32, d: u32) -> vec4<f32> {
    return from_kv(values[value + d / 4u][d % 4u]);
}

// Of a key and a value.
fn scales_of(place: u32, head: u32) -> vec2<f32> {
    let at = scales_at(place, head) + place % BLOCK / 4u;
    return vec2<f32>(bitcast<f32>(keys[at][place % 4u]), bitcast<f32>(values[at][place % 4u]));
}

// What goes through workgroup memory: four quads.
alias Staged = vec4<u32>;

const STAGED_QUADS: u32 = 4u;

fn quad_of(x: Staged, i: u32) -> vec4<f32> {
    return from_kv(x[i]);
}
