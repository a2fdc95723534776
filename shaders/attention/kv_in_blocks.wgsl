// Keys and values as GPUs keep them: blocks of all heads. Values are [blocks, BLOCK, kv_heads, width], keys [blocks, kv_heads, width,
// BLOCK]: a lane has a position of its own there, and lanes beside each other read positions beside each other, so that what they read at
// once lies together. KEY_QUADS of a head are read at once. The scales of a block come after it.

// Where a value head of a place begins.
fn head_at(place: u32, head: u32) -> u32 {
    return (place * kv_heads() + head) * width_of_head() + place / BLOCK * kv_heads() * SCALES;
}

// Where the scales begin that a head has in the block of a place.
fn scales_at(place: u32, head: u32) -> u32 {
    return head_at((place / BLOCK + 1u) * BLOCK, 0u) - (kv_heads() - head) * SCALES;
}

// Where what is read at once lies, number `i` of a key head of a place.
fn key_at(place: u32, head: u32, i: u32) -> u32 {
    let together = KEY_QUADS / UNIT;
    let column = head * width_of_head() + i / together * together;
    return head_at(place / BLOCK * BLOCK, 0u) + column * BLOCK + place % BLOCK * together + i % together;
}
