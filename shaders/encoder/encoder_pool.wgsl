// One row for each text: the mean of its rows, its first or its last. Invocation: 4 elements of one text. Grid: (width / 4 / LANES, texts).

struct Params {
    width4: u32,
    which: u32, // 0: the first row; 1: the mean; 2: the last row
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(1) var<storage, read> texts: array<vec2<u32>>;        // [texts] (first row, rows)
@group(0) @binding(2) var<storage, read> stream: array<vec4<f32>>;       // [rows, width / 4]
@group(0) @binding(3) var<storage, read_write> pooled: array<vec4<f32>>; // [texts, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * LANES + lane;
    if (column >= params.width4) {
        return;
    }
    let text = texts[group.y];
    let rows = select(1u, text.y, params.which == 1u);
    let first = text.x + select(0u, text.y - 1u, params.which == 2u);
    var sum = vec4<f32>();
    for (var row = 0u; row < rows; row++) {
        sum += stream[(first + row) * params.width4 + column];
    }
    pooled[group.y * params.width4 + column] = sum / f32(rows);
}
