// Keys and values kept as f16, two in a u32; what f16 cannot hold is kept as the largest it can. UNIT quads of a head are read at once.

alias Kv = vec2<u32>;

const SCALED: bool = false;  // whether a head has a scale at each position
const SCALES: u32 = 0u;      // what a block has of scales for a head, in what is read at once
const KEY_QUADS: u32 = 1u;     // quads of a key that GPUs read at once

fn to_kv(x: vec4<f32>, greatest: f32) -> Kv {
    let held = clamp(x, vec4<f32>(-65504.0), vec4<f32>(65504.0));
    return vec2<u32>(pack2x16float(held.xy), pack2x16float(held.zw));
}

fn magnitude(x: vec4<f32>) -> f32 {
    return 0.0;
}

fn scale_to_kv(greatest: f32) -> Kv {
    return Kv();
}

fn from_kv(x: Kv) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(x.x), unpack2x16float(x.y));
}

// What is read at once of a head, in all.
fn width_of_head() -> u32 {
    return quads_of_head() / UNIT;
}
