// Attention of an encoder, third part: probabilities times values. Invocation: four elements of a head, for the rows of a
// tile. Grid: (tiles, heads * head4 / LANES).

struct Params {
    heads: u32,
    head4: u32,  // elements of a head / 4, padded with zeros
    unused_0: u32,
    before: u32,   // keys before its own that a row sees; at most 2^30
    ahead: u32,    // and behind it
    kv_heads: u32, // value heads, each of as many query heads as the next
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;            // [rows, heads + 2 * kv_heads, head4]
@group(0) @binding(3) var<storage, read_write> attended: array<vec4<f32>>; // [rows, heads, head4]
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<storage, read> scores: array<vec4<f32>>;         // [tiles, heads, 4 rows, keys / 4]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tile = tiles[group.x];
    let width4 = params.heads * params.head4;
    let column = group.y * LANES + lane;
    if (column >= width4) {
        return;
    }
    let keys4 = (tile.length + 3u) / 4u;
    let at = scores_at(tile, column / params.head4 * 4u);
    let last = tile.length - 1u;
    let stride = (params.heads + 2u * params.kv_heads) * params.head4;
    let head = params.heads + params.kv_heads + column / params.head4 / (params.heads / params.kv_heads);
    let values = tile.first * stride + head * params.head4 + column % params.head4;
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    // The shares of keys that no row of the tile sees are 0.
    let row = tile.row - tile.first;
    let begin = select(0u, (row - params.before) / 4u, row > params.before);
    let end = min(keys4, (row + 3u + params.ahead) / 4u + 1u);
    for (var key4 = begin; key4 < end; key4++) {
        // Beyond the text: its last row again, times 0.
        let keys = min(vec4<u32>(key4 * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last)) * stride;
        let v_0 = qkv[values + keys.x];
        let v_1 = qkv[values + keys.y];
        let v_2 = qkv[values + keys.z];
        let v_3 = qkv[values + keys.w];
        let p_0 = scores[at + key4];
        let p_1 = scores[at + keys4 + key4];
        let p_2 = scores[at + 2u * keys4 + key4];
        let p_3 = scores[at + 3u * keys4 + key4];
        sum_0 += v_0 * p_0.x + v_1 * p_0.y + v_2 * p_0.z + v_3 * p_0.w;
        sum_1 += v_0 * p_1.x + v_1 * p_1.y + v_2 * p_1.z + v_3 * p_1.w;
        sum_2 += v_0 * p_2.x + v_1 * p_2.y + v_2 * p_2.z + v_3 * p_2.w;
        sum_3 += v_0 * p_3.x + v_1 * p_3.y + v_2 * p_3.z + v_3 * p_3.w;
    }
    let rows = tile_rows(tile);
    let first = tile.row * width4 + column;
    attended[first] = sum_0;
    if (rows > 1u) {
        attended[first + width4] = sum_1;
    }
    if (rows > 2u) {
        attended[first + 2u * width4] = sum_2;
    }
    if (rows > 3u) {
        attended[first + 3u * width4] = sum_3;
    }
}
