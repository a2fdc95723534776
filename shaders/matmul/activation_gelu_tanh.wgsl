// Activation: GELU by its tanh approximation (Hendrycks and Gimpel 2016). Beyond 9.02 tanh is 1 in f32, and some drivers
// overflow there.

fn activate(x: vec2<f32>) -> vec2<f32> {
    let inner = 0.7978845608 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, vec2<f32>(-10.0), vec2<f32>(10.0))));
}
