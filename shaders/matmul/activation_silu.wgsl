// Activation: x * sigmoid(x).

fn activate(x: vec2<f32>) -> vec2<f32> {
    return x / (1.0 + exp(-x));
}
