// For GPUs. Workgroup: a tile and one head, its rows one after another. Grid: (tiles, heads).

@compute @workgroup_size(LANES)
fn main(place: Place) {
    let tile = tiles[place.group.x];
    let keys4 = (tile.length + 3u) / 4u;
    for (var row = 0u; row < 4u; row++) {
        let at = scores_at(tile, place.group.y * 4u + row);
        var highest = LOWEST;
        for (var key4 = place.lane; key4 < keys4; key4 += LANES) {
            highest = max(highest, highest4(scores_or(tile, at, key4, LOWEST)));
        }
        highest = workgroup_max(place, highest);
        var total = 0.0;
        for (var key4 = place.lane; key4 < keys4; key4 += LANES) {
            total += dot(exp(scores_or(tile, at, key4, LOWEST) - vec4<f32>(highest)), vec4<f32>(1.0));
        }
        total = workgroup_sum(place, total);
        for (var key4 = place.lane; key4 < keys4; key4 += LANES) {
            scores[at + key4] = exp(scores_or(tile, at, key4, LOWEST) - vec4<f32>(highest)) / total;
        }
    }
}
