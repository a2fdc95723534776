// Matmul of int8 or int4 weights with activations in int8 (quantize.wgsl). Workgroup: ROWS rows by 4 columns; its lanes share the
// groups, whose products are exact, and add up at the end. Grid: (columns / 4, rows / ROWS).

@group(0) @binding(5) var<storage, read> scales: array<u32>;            // two f16 in a word
@group(0) @binding(2) var<storage, read> input: array<u32>;             // [rows, groups, 8], four elements in a word
@group(0) @binding(9) var<storage, read> input_scales: array<f32>;      // [rows, groups]

var<workgroup> partial: array<vec4<f32>, LANES * ROWS>; // [ROWS, LANES]

fn weight_scale(row: u32, group: u32) -> f32 {
    let at = scale_at(row, group);
    return unpack2x16float(scales[at / 2u] >> (at % 2u * 16u)).x;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = row_count();
    let first = id.y * ROWS;
    let column = id.x * 4u;
    var sums: array<vec4<f32>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        sums[r] = vec4<f32>();
    }
    for (var group = lane; group < params.groups; group += LANES) {
        let scale = vec4<f32>(
            weight_scale(column, group),
            weight_scale(column + 1u, group),
            weight_scale(column + 2u, group),
            weight_scale(column + 3u, group),
        );
        for (var r = 0u; r < ROWS; r++) {
            // A tile that hangs over the last row computes that row again and does not store it.
            let place = min(first + r, rows - 1u) * params.groups + group;
            var x: array<u32, 8>;
            for (var i = 0u; i < 8u; i++) {
                x[i] = input[place * 8u + i];
            }
            let products = vec4<i32>(
                dot_group(column, group, x),
                dot_group(column + 1u, group, x),
                dot_group(column + 2u, group, x),
                dot_group(column + 3u, group, x),
            );
            sums[r] += vec4<f32>(products) * scale * input_scales[place];
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        partial[r * LANES + lane] = sums[r];
    }
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            for (var r = 0u; r < ROWS; r++) {
                partial[r * LANES + lane] += partial[r * LANES + lane + half];
            }
        }
        workgroupBarrier();
    }
    if (lane < ROWS && first + lane < rows) {
        store(first + lane, id.x, partial[lane * LANES]);
    }
}
