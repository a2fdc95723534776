// Where a position of a sequence lies in the KV blocks, as `tables` says it.

const BLOCK: u32 = 16u; // positions of a block

// Place among all positions of all blocks.
fn paged(table: u32, position: u32) -> u32 {
    return tables[table + position / BLOCK] * BLOCK + position % BLOCK;
}
