// How the lanes of matmul_reduce.wgsl add up: over each subgroup, of whatever size, then through workgroup memory.

var<workgroup> partial: array<vec4<f32>, LANES * ROWS>; // [ROWS, subgroups, the rest unused]
var<private> subgroup: u32;
var<private> subgroups: u32;
var<private> first_of_subgroup: bool;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) own: u32,
    @builtin(num_subgroups) all: u32,
    @builtin(subgroup_invocation_id) place: u32,
) {
    subgroup = own;
    subgroups = all;
    first_of_subgroup = place == 0u;
    matmul(id, lane);
}

fn reduce(lane: u32, sums: ptr<function, array<vec4<f32>, ROWS>>) {
    for (var r = 0u; r < ROWS; r++) {
        let sum = subgroupAdd((*sums)[r]);
        if (first_of_subgroup) {
            partial[r * LANES + subgroup] = sum;
        }
    }
    workgroupBarrier();
}

// The sum of a row, after `reduce`.
fn reduced(row: u32) -> vec4<f32> {
    var sum = partial[row * LANES];
    for (var i = 1u; i < subgroups; i++) {
        sum += partial[row * LANES + i];
    }
    return sum;
}
