// Keys and values kept as f32.

alias Kv = vec4<f32>;

fn to_kv(x: vec4<f32>) -> Kv {
    return x;
}

fn from_kv(x: Kv) -> vec4<f32> {
    return x;
}
