// The order in which the values of a split are summed up, whether for one row (attention_split.wgsl) or for many
// (attention_tile.wgsl): by shares of so many positions beside each other, each in order, and these in order onto what the splits
// before have left. Weights are summed up by every eighth position, and these eight at the end.

// Lanes that a head has: a power of two, of which each has a quad, and positions of a share. LANES of them make up a split.
fn share_size() -> u32 {
    return max(8u, 1u << (32u - countLeadingZeros(params.stride4 - 1u)));
}
