// Keys and values as software adapters keep them: [kv_heads, blocks, BLOCK, width], and after what a head has of a block its scales. Blocks
// of a sequence mostly lie beside each other, so that what it has of a head does too: a CPU fetches ahead what is read in order, and
// waits for what is read in pieces.

// Where a head of a place begins.
fn head_at(place: u32, head: u32) -> u32 {
    let own = head * all_places() + place;
    return own * width_of_head() + own / BLOCK * SCALES;
}

// Where the scales begin that a head has in the block of a place.
fn scales_at(place: u32, head: u32) -> u32 {
    return head_at((place / BLOCK + 1u) * BLOCK, head) - SCALES;
}

// Where what is read at once lies, number `i` of a key head of a place.
fn key_at(place: u32, head: u32, i: u32) -> u32 {
    return head_at(place, head) + i;
}
