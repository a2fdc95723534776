// The output of the shared expert.

@group(0) @binding(5) var<storage, read> of_shared: array<vec4<f32>>; // [rows, width / 4]

fn shared_output(index: u32) -> vec4<f32> {
    return of_shared[index];
}

fn bias_of(expert: u32, column: u32) -> vec4<f32> {
    return vec4<f32>();
}
