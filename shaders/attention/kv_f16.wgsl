// Keys and values kept as f16, two in a u32; what f16 cannot hold is kept as the largest it can.

alias Kv = vec2<u32>;

fn to_kv(x: vec4<f32>) -> Kv {
    let held = clamp(x, vec4<f32>(-65504.0), vec4<f32>(65504.0));
    return vec2<u32>(pack2x16float(held.xy), pack2x16float(held.zw));
}

fn from_kv(x: Kv) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(x.x), unpack2x16float(x.y));
}
