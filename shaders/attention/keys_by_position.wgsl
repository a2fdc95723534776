// Keys as software adapters keep them: [blocks, BLOCK, kv_heads, width], as values are.

// Where what is read at once lies, number `i` of a key head of a place.
fn key_at(place: u32, head: u32, i: u32) -> u32 {
    return head_at(place, head) + i;
}
