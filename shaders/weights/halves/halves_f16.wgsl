// Floats of 16 bits, two in a word: f16.

fn from_halves(pair: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(pair.x), unpack2x16float(pair.y));
}
