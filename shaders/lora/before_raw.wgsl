// What is stored is made of whole sums.

const RAW: bool = true;

@group(0) @binding(5) var<storage, read> raw: array<vec4<f32>>; // [rows, columns / 4]: the product's sums

fn row_of(place: u32) -> u32 {
    return place;
}

fn before(row: u32, column4: u32) -> vec4<f32> {
    return raw[row * params.stride + column4];
}
