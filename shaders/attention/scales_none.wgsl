// Keys or values without scales, as the software attention takes them.

fn scales_of(place: u32, head: u32) -> vec4<f32> {
    return vec4<f32>(1.0);
}
