// Scales of keys or values, as the software attention reads them where it reads two quads at once.

// Those that a head has at four places from a multiple of four on.
fn scales_of(place: u32, head: u32) -> vec4<f32> {
    let at = scales_at(place, head) + place % BLOCK / UNIT;
    return bitcast<vec4<f32>>(vec4<u32>(pair_of(cached[at]), pair_of(cached[at + 1u])));
}
