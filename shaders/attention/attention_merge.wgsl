// Merges the parts of rows that see several.
// Workgroup: one head of one row; a lane has 4 elements. Grid: (heads, rows).

@group(0) @binding(2) var<storage, read> parts: array<vec4<f32>>;        // [rows, heads, parts_of_head(), stride / 4 + 1]
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    let all = parts_of_row(step.entries[row].z);
    if (all == 1u || lane >= params.stride4) {
        return;
    }
    let head = row * params.heads + group.x;
    output[head * params.stride4 + lane] = merged(head, all, lane);
}
