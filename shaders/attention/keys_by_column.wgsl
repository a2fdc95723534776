// Keys as GPUs keep them: [blocks, kv_heads, width, BLOCK]. A lane has a position of its own there, and lanes beside each other read
// positions beside each other: what they read at once lies together. KEY_QUADS of a head are read at once.

// Where what is read at once lies, number `i` of a key head of a place.
fn key_at(place: u32, head: u32, i: u32) -> u32 {
    let together = KEY_QUADS / UNIT;
    let column = head * width_of_head() + i / together * together;
    return head_at(place / BLOCK * BLOCK, 0u) + column * BLOCK + place % BLOCK * together + i % together;
}
