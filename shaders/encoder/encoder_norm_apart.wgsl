// The norm goes beside the stream, which keeps the sum.

@group(0) @binding(5) var<storage, read_write> normed: array<vec4<f32>>; // [rows, width / 4]

fn put(index: u32, x: vec4<f32>) {
    normed[index] = x;
}
