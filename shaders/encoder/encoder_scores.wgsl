// Attention of an encoder, first part: queries times keys. Workgroup: a tile of four rows and one head; an invocation takes
// four keys at a time. A row sees the rows of its text within reach. Grid: (tiles, heads).

struct Params {
    heads: u32,
    head4: u32,  // elements of a head / 4, padded with zeros
    scale: f32,  // 1 / sqrt(elements of a head)
    before: u32,   // keys before its own that a row sees; at most 2^30
    ahead: u32,    // and behind it
    kv_heads: u32, // key heads, each of as many query heads as the next
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;          // [rows, heads + 2 * kv_heads, head4]
@group(0) @binding(3) var<storage, read_write> scores: array<vec4<f32>>; // [tiles, heads, 4 rows, keys / 4]
@group(0) @binding(4) var<uniform> params: Params;

// The scores of four keys of a row, which both count in their text.
fn seen(scores: vec4<f32>, row: u32, key4: u32) -> vec4<f32> {
    let keys = vec4<i32>(i32(key4 * 4u)) + vec4<i32>(0, 1, 2, 3);
    let from_row = keys - vec4<i32>(i32(row));
    let far = (from_row < vec4<i32>(-i32(params.before))) | (from_row > vec4<i32>(i32(params.ahead)));
    return select(scores, vec4<f32>(LOWEST), far);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tile = tiles[group.x];
    let head = group.y;
    let stride = (params.heads + 2u * params.kv_heads) * params.head4;
    let key_head = params.heads + head / (params.heads / params.kv_heads);
    let keys4 = (tile.length + 3u) / 4u;
    // Rows and keys beyond the text are its last row again: what comes of them is not used.
    let last = tile.first + tile.length - 1u;
    let rows = min(vec4<u32>(tile.row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
    let queries = rows * stride + vec4<u32>(head * params.head4);
    let row = tile.row - tile.first;
    for (var key4 = lane; key4 < keys4; key4 += LANES) {
        let at = scores_at(tile, head * 4u) + key4;
        // No row of the tile sees any of the four.
        if (key4 * 4u > row + 3u + params.ahead || key4 * 4u + 3u + params.before < row) {
            scores[at] = vec4<f32>(LOWEST);
            scores[at + keys4] = vec4<f32>(LOWEST);
            scores[at + 2u * keys4] = vec4<f32>(LOWEST);
            scores[at + 3u * keys4] = vec4<f32>(LOWEST);
            continue;
        }
        let key_rows = min(vec4<u32>(tile.first + key4 * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
        let keys = key_rows * stride + vec4<u32>(key_head * params.head4);
        var sum_0 = vec4<f32>();
        var sum_1 = vec4<f32>();
        var sum_2 = vec4<f32>();
        var sum_3 = vec4<f32>();
        for (var d = 0u; d < params.head4; d++) {
            let k_0 = qkv[keys.x + d];
            let k_1 = qkv[keys.y + d];
            let k_2 = qkv[keys.z + d];
            let k_3 = qkv[keys.w + d];
            let q_0 = qkv[queries.x + d];
            let q_1 = qkv[queries.y + d];
            let q_2 = qkv[queries.z + d];
            let q_3 = qkv[queries.w + d];
            sum_0 += vec4<f32>(dot(q_0, k_0), dot(q_0, k_1), dot(q_0, k_2), dot(q_0, k_3));
            sum_1 += vec4<f32>(dot(q_1, k_0), dot(q_1, k_1), dot(q_1, k_2), dot(q_1, k_3));
            sum_2 += vec4<f32>(dot(q_2, k_0), dot(q_2, k_1), dot(q_2, k_2), dot(q_2, k_3));
            sum_3 += vec4<f32>(dot(q_3, k_0), dot(q_3, k_1), dot(q_3, k_2), dot(q_3, k_3));
        }
        scores[at] = seen(sum_0 * params.scale, rows.x - tile.first, key4);
        scores[at + keys4] = seen(sum_1 * params.scale, rows.y - tile.first, key4);
        scores[at + 2u * keys4] = seen(sum_2 * params.scale, rows.z - tile.first, key4);
        scores[at + 3u * keys4] = seen(sum_3 * params.scale, rows.w - tile.first, key4);
    }
}
