// For software adapters: an invocation does a whole task (a chunk, or a row) by itself.

fn task_of(group: u32, lane: u32) -> u32 {
    return group * LANES + lane;
}

fn first_of(lane: u32) -> u32 {
    return 0u;
}

const STEP: u32 = 1u;
const ALONE: bool = true;

fn speaks(lane: u32) -> bool {
    return true;
}

fn share_greatest(lane: u32, value: vec2<u32>) -> vec2<u32> {
    return value;
}

fn share_sum(lane: u32, value: f32) -> f32 {
    return value;
}

fn share_most(lane: u32, value: u32) -> u32 {
    return value;
}

// The sum of the lanes before, and that of all; see ALONE.
fn share_before(lane: u32, value: u32) -> vec2<u32> {
    return vec2<u32>(0u, value);
}

// What lanes have written to the logits is read by others.
fn share_logits() {
}
