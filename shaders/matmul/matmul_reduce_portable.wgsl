// How the lanes of matmul_reduce.wgsl add up: through workgroup memory, with no optional feature.

var<workgroup> partial: array<vec4<f32>, LANES * ROWS>; // [ROWS, LANES]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    matmul(id, lane);
}

fn reduce(lane: u32, sums: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        partial[r * LANES + lane] = (*sums)[r];
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
}

// The sum of a row, after `reduce`.
fn reduced(row: u32) -> vec4<f32> {
    return partial[row * LANES];
}
