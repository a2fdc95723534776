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

fn share_counts(lane: u32, value: Counts) -> Counts {
    return value;
}

fn share_masses(lane: u32, value: Masses) -> Masses {
    return value;
}
