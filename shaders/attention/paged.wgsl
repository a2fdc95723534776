// Where a position of a sequence lies in the KV blocks, as `tables` says it, and its heads.

const BLOCK: u32 = 16u; // positions of a block

// Place among all positions of all blocks.
fn paged(table: u32, position: u32) -> u32 {
    return tables[table + position / BLOCK] * BLOCK + position % BLOCK;
}

// Where a value head of a place begins; where keys lie in a block says a keys_by_*.wgsl.
fn head_at(place: u32, head: u32) -> u32 {
    return (place * kv_heads() + head) * width_of_head() + place / BLOCK * kv_heads() * SCALES;
}

// Where the scales begin that a head has in the block of a place.
fn scales_at(place: u32, head: u32) -> u32 {
    return head_at((place / BLOCK + 1u) * BLOCK, 0u) - (kv_heads() - head) * SCALES;
}
