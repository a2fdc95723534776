// Matmul for software adapters: 8 lanes, each with ROWS rows by 4 columns in registers; no shared memory, no barrier. Weights lie
// in tiles of 32 columns (layout_tiles.wgsl). A sum goes group by group (32 elements), and within a group over the stored numbers
// before the group's factor: in the same order at any number of rows. A rows_*.wgsl says which rows a tile has. Grid: (columns / 32, rows / ROWS).
//
// Quads of a group are written out because these adapters' compilers leave a loop of this size as it is, and then find array
// elements and vector components by search.

// The four sums of each row over a quad of the group.
fn multiply(
    quad: u32,
    group: ptr<function, Group>,
    x: ptr<function, array<vec4<f32>, ROWS>>,
    part: ptr<function, array<vec4<f32>, ROWS>>,
    totals: ptr<function, array<f32, ROWS>>,
) {
    let w0 = raw4(group, 0u, quad);
    let w1 = raw4(group, 1u, quad);
    let w2 = raw4(group, 2u, quad);
    let w3 = raw4(group, 3u, quad);
    for (var r = 0u; r < ROWS; r++) {
        let v = (*x)[r];
        (*part)[r] += vec4<f32>(dot(w0, v), dot(w1, v), dot(w2, v), dot(w3, v));
        if (MINIMA) {
            (*totals)[r] += v.x + v.y + v.z + v.w;
        }
    }
}

// Brings a group's sums, or those of half a group, to scale and adds them up.
fn settle(
    half: u32,
    group: ptr<function, Group>,
    part: ptr<function, array<vec4<f32>, ROWS>>,
    sums: ptr<function, array<vec4<f32>, ROWS>>,
) {
    let factor = factors(group, half);
    for (var r = 0u; r < ROWS; r++) {
        if (SCALED) {
            (*sums)[r] += (*part)[r] * factor;
        } else {
            (*sums)[r] += (*part)[r];
        }
        (*part)[r] = vec4<f32>();
    }
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = end_row(id.y);
    // In the loop these adapters would read them once for each lane.
    let width4 = params.width4;
    let groups = params.groups;
    let first = first_row(id.y);
    if (ROUTED && first >= rows) {
        return;
    }
    let tile = tiles_before(id.y) + id.x;
    // A tile that hangs over the last row computes that row again and does not store it.
    var starts: array<u32, ROWS>;
    var sums: array<vec4<f32>, ROWS>;
    var part: array<vec4<f32>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        starts[r] = input_row(id.y, min(first + r, rows - 1u)) * width4;
        sums[r] = vec4<f32>();
        part[r] = vec4<f32>();
    }
    for (var g = 0u; g < groups; g++) {
        var group = load_group(tile * groups + g, lane);
        var totals: array<f32, ROWS>;
        var x: array<vec4<f32>, ROWS>;
        var own: array<vec4<f32>, ROWS>;
        for (var r = 0u; r < ROWS; r++) {
            totals[r] = 0.0;
        }
        load_rows(g, lane, width4 - 1u, &starts, &own);
        spread_0(g, &starts, &own, &x);
        multiply(0u, &group, &x, &part, &totals);
        spread_1(g, &starts, &own, &x);
        multiply(1u, &group, &x, &part, &totals);
        spread_2(g, &starts, &own, &x);
        multiply(2u, &group, &x, &part, &totals);
        spread_3(g, &starts, &own, &x);
        multiply(3u, &group, &x, &part, &totals);
        if (HALVES == 2u) {
            settle(0u, &group, &part, &sums);
        }
        spread_4(g, &starts, &own, &x);
        multiply(4u, &group, &x, &part, &totals);
        spread_5(g, &starts, &own, &x);
        multiply(5u, &group, &x, &part, &totals);
        spread_6(g, &starts, &own, &x);
        multiply(6u, &group, &x, &part, &totals);
        spread_7(g, &starts, &own, &x);
        multiply(7u, &group, &x, &part, &totals);
        settle(HALVES - 1u, &group, &part, &sums);
        if (MINIMA) {
            let least = minima(&group);
            for (var r = 0u; r < ROWS; r++) {
                sums[r] -= least * totals[r];
            }
        }
    }
    let column4 = id.x * 8u + lane;
    for (var r = 0u; r < ROWS; r++) {
        if (first + r < rows && column4 < params.columns4) {
            store(output_row(id.y, first + r), column4, sums[r]);
        }
    }
}
