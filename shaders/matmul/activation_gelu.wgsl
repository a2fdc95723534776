// Activation: GELU by the error function, in the approximation 7.1.26 of Abramowitz and Stegun, which is within 1.5e-7.

fn activate(x: vec2<f32>) -> vec2<f32> {
    let z = abs(x) * 0.7071067812;
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    let erf = 1.0 - series * exp(-z * z);
    return 0.5 * x * (1.0 + sign(x) * erf);
}
