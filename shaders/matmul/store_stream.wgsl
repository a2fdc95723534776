// Epilogue: the sums are added to the residual stream. Beside it goes what the norm that is next needs, which the product that reads it
// does itself (columns_normed.wgsl).

@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>;    // [rows, columns / 4]
@group(0) @binding(11) var<storage, read> norm: array<vec4<f32>>;           // [columns / 4]: weights
@group(0) @binding(12) var<storage, read_write> weighted: array<vec4<f32>>; // [rows, columns / 4]
@group(0) @binding(13) var<storage, read_write> squares: array<f32>;        // [rows, columns / 4, padded to 4]

fn store(row: u32, column4: u32, sums: vec4<f32>) {
    let place = params.first + column4;
    let index = row * params.stride + place;
    let stream = output[index] + sums;
    output[index] = stream;
    weighted[index] = stream * norm[place];
    squares[row * ((params.stride + 3u) / 4u * 4u) + place] = dot(stream, stream);
}
