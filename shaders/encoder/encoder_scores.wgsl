// Attention of an encoder, first part: queries times keys. Workgroup: a tile of four rows and one head; an invocation takes
// four keys at a time. Every row sees all rows of its text. Grid: (tiles, heads).

struct Params {
    heads: u32,
    head4: u32,  // elements of a head / 4, padded with zeros
    scale: f32,  // 1 / sqrt(elements of a head)
    unused: u32,
}

@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;          // [rows, 3 * heads, head4]
@group(0) @binding(3) var<storage, read_write> scores: array<vec4<f32>>; // [tiles, heads, 4 rows, keys / 4]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tile = tiles[group.x];
    let head = group.y;
    let stride = 3u * params.heads * params.head4;
    let keys4 = (tile.length + 3u) / 4u;
    // Rows and keys beyond the text are its last row again: what comes of them is not used.
    let last = tile.first + tile.length - 1u;
    let rows = min(vec4<u32>(tile.row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
    let queries = rows * stride + vec4<u32>(head * params.head4);
    for (var key4 = lane; key4 < keys4; key4 += LANES) {
        let key_rows = min(vec4<u32>(tile.first + key4 * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
        let keys = key_rows * stride + vec4<u32>((params.heads + head) * params.head4);
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
        let at = scores_at(tile, head * 4u) + key4;
        scores[at] = sum_0 * params.scale;
        scores[at + keys4] = sum_1 * params.scale;
        scores[at + 2u * keys4] = sum_2 * params.scale;
        scores[at + 3u * keys4] = sum_3 * params.scale;
    }
}
