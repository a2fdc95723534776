// Scales of keys or values in int8, as the software attention reads them: four at once.

// That of a head at a place.
fn scale_of(place: u32, head: u32) -> f32 {
    return bitcast<f32>(words4(cached[scales_at(place, head) + place % BLOCK / UNIT])[place % UNIT]);
}
