// Floats of 16 bits, two in a word: bf16, the upper half of an f32 each, so that widening is exact.

fn from_halves(pair: vec2<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(pair.x << 16u, pair.x & 0xffff0000u, pair.y << 16u, pair.y & 0xffff0000u));
}
