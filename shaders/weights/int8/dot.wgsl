// A group of int8 weights times a group of int8 activations, exact.

const CHUNKS: u32 = 2u; // of 16 bytes in a group of 32 elements

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;

fn dot_group(row: u32, group: u32, x: array<u32, 8>) -> i32 {
    let low = values[chunk_at(row, group, 0u)];
    let high = values[chunk_at(row, group, 1u)];
    return dot4I8Packed(low.x, x[0]) + dot4I8Packed(low.y, x[1]) + dot4I8Packed(low.z, x[2]) + dot4I8Packed(low.w, x[3])
        + dot4I8Packed(high.x, x[4]) + dot4I8Packed(high.y, x[5]) + dot4I8Packed(high.z, x[6]) + dot4I8Packed(high.w, x[7]);
}
