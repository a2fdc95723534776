// The results of rows, none of which is searched. Task: a row. Grid: (tasks).

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = task_of(group.x, lane);
    if (row >= params.samples) {
        return;
    }
    let greatest = row_greatest(row, lane);
    finish(row, lane, greatest, token_of_chunks(row, lane, greatest));
}
