// A group of int4 weights times a group of int8 activations, exact. Of the activations' eights the even elements stand first.

const CHUNKS: u32 = 1u; // of 16 bytes in a group of 32 elements

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;

// Four bits in each byte, to eight with their sign: 8 times 30 is 240, the upper four bits.
fn widen(nibbles: u32) -> u32 {
    let low = nibbles & 0x0f0f0f0fu;
    return low | ((low & 0x08080808u) * 30u);
}

fn dot_word(word: u32, even: u32, odd: u32) -> i32 {
    return dot4I8Packed(widen(word), even) + dot4I8Packed(widen(word >> 4u), odd);
}

fn dot_group(row: u32, group: u32, x: array<u32, 8>) -> i32 {
    let chunk = values[chunk_at(row, group, 0u)];
    return dot_word(chunk.x, x[0], x[1]) + dot_word(chunk.y, x[2], x[3])
        + dot_word(chunk.z, x[4], x[5]) + dot_word(chunk.w, x[6], x[7]);
}
