// No activation.

fn activate(x: vec2<f32>) -> vec2<f32> {
    return x;
}
