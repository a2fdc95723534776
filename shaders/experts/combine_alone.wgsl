// There is no shared expert.

fn shared_output(index: u32) -> vec4<f32> {
    return vec4<f32>();
}
