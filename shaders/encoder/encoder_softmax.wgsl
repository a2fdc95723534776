// Attention of an encoder, second part: scores to probabilities, in place; those of keys beyond the text become 0.

struct Params {
    heads: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
    unused_3: u32,
    unused_4: u32,
    unused_5: u32,
    unused_6: u32,
}

@group(0) @binding(3) var<storage, read_write> scores: array<vec4<f32>>; // [tiles, heads, 4 rows, keys / 4]
@group(0) @binding(4) var<uniform> params: Params;

// The four scores from key 4 * `key4`, `other` beyond the text.
fn scores_or(tile: Tile, at: u32, key4: u32, other: f32) -> vec4<f32> {
    let keys = vec4<u32>(key4 * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<f32>(other), scores[at + key4], keys < vec4<u32>(tile.length));
}

fn highest4(x: vec4<f32>) -> f32 {
    return max(max(x.x, x.y), max(x.z, x.w));
}
