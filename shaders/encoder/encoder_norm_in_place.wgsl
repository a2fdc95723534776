// The norm takes the stream's place.

fn put(index: u32, x: vec4<f32>) {
    stream[index] = x;
}
