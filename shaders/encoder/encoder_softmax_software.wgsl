// For software adapters. Invocation: one row of a tile and one head. Grid: (tiles, heads * 4 / LANES).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tile = tiles[group.x];
    let index = group.y * LANES + lane;
    if (index >= params.heads * 4u || index % 4u >= tile_rows(tile)) {
        return;
    }
    let keys4 = (tile.length + 3u) / 4u;
    let at = scores_at(tile, index);
    var highest = LOWEST;
    for (var key4 = 0u; key4 < keys4; key4++) {
        highest = max(highest, highest4(scores_or(tile, at, key4, LOWEST)));
    }
    var total = 0.0;
    for (var key4 = 0u; key4 < keys4; key4++) {
        let shares = exp(scores_or(tile, at, key4, LOWEST) - vec4<f32>(highest));
        scores[at + key4] = shares;
        total += dot(shares, vec4<f32>(1.0));
    }
    for (var key4 = 0u; key4 < keys4; key4++) {
        scores[at + key4] = scores_or(tile, at, key4, 0.0) / total;
    }
}
