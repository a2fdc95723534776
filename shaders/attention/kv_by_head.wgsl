// Keys and values as software adapters keep them: [kv_heads, blocks, BLOCK, width], and after what a head has of a block its scales. Blocks
// of a sequence mostly lie beside each other, so that what it has of a head does too: a CPU fetches ahead what is read in order, and
// waits for what is read in pieces.

// Where a head begins at a place that is counted among the places of all heads.
fn head_of(place: u32, width: u32) -> u32 {
    return place * width + place / BLOCK * SCALES;
}

// Where the scales begin that a head has in the block of such a place.
fn scales_from(place: u32, width: u32) -> u32 {
    return head_of((place / BLOCK + 1u) * BLOCK, width) - SCALES;
}

// Where a head of a place begins.
fn head_at(place: u32, head: u32) -> u32 {
    return head_of(head * all_places() + place, width_of_head());
}

// Where the scales begin that a head has in the block of a place.
fn scales_at(place: u32, head: u32) -> u32 {
    return scales_from(head * all_places() + place, width_of_head());
}

// Where what is read at once lies, number `i` of a key head of a place.
fn key_at(place: u32, head: u32, i: u32) -> u32 {
    return head_at(place, head) + i;
}
