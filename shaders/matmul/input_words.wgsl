// The input of a matmul in f32, as software adapters read it.

@group(0) @binding(2) var<storage, read> input: array<Words4>; // [rows, width / 4]

fn input4(at: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(words4(input[at]));
}
