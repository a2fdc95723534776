// Scales of keys or values in int8, as the software attention reads them: four at once.

// That of a head at a place that is counted among those of all heads.
fn scale_of(place: u32, width: u32) -> f32 {
    return bitcast<f32>(words4(cached[scales_from(place, width) + place % BLOCK / UNIT])[place % UNIT]);
}
