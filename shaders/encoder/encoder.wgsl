// The texts of an encoder's pass: their rows lie one after another, without padding between them.

struct Tile {
    row: u32,    // first row of up to four of one text
    first: u32,  // first row of the text
    length: u32, // rows of the text
    scores: u32, // where the tile's scores begin, / 4
}

@group(0) @binding(1) var<storage, read> tiles: array<Tile>;

// The score of a key that a row does not see.
const LOWEST: f32 = -3.0e38;

fn tile_rows(tile: Tile) -> u32 {
    return min(4u, tile.first + tile.length - tile.row);
}

// Scores of one head and row of a tile: as many as the text has rows, padded to 4. `index` is head * 4 + row of the tile.
fn scores_at(tile: Tile, index: u32) -> u32 {
    return tile.scores + index * ((tile.length + 3u) / 4u);
}
