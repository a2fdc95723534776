// What is no number stays none.
fn activated(x: vec4<f32>) -> vec4<f32> {
    return select(x, vec4<f32>(), x < vec4<f32>());
}
