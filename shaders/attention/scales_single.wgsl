// Scales of keys or values, as the software attention reads them where it reads a quad at once.

// Those that a head has at four places from a multiple of four on.
fn scales_of(place: u32, head: u32) -> vec4<f32> {
    let at = scales_at(place, head) + place % BLOCK;
    return bitcast<vec4<f32>>(vec4<u32>(cached[at], cached[at + 1u], cached[at + 2u], cached[at + 3u]));
}
