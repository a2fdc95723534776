// For GPUs: the lanes of a workgroup share a task (a chunk, or a row). What they share comes back to all of them. Whether
// they come to share something must not hang on scratch memory that they write: some compilers refuse barriers under what
// others may write.

var<workgroup> shared_pairs: array<vec2<u32>, LANES>;
var<workgroup> shared_words: array<u32, LANES>;

fn task_of(group: u32, lane: u32) -> u32 {
    return group;
}

fn first_of(lane: u32) -> u32 {
    return lane;
}

const STEP: u32 = LANES;
const ALONE: bool = false;

fn speaks(lane: u32) -> bool {
    return lane == 0u;
}

fn share_greatest(lane: u32, value: vec2<u32>) -> vec2<u32> {
    workgroupBarrier();
    shared_pairs[lane] = value;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            shared_pairs[lane] = greater(shared_pairs[lane], shared_pairs[lane + half]);
        }
        workgroupBarrier();
    }
    return shared_pairs[0];
}

fn share_sum(lane: u32, value: f32) -> f32 {
    workgroupBarrier();
    shared_words[lane] = bitcast<u32>(value);
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            let sum = bitcast<f32>(shared_words[lane]) + bitcast<f32>(shared_words[lane + half]);
            shared_words[lane] = bitcast<u32>(sum);
        }
        workgroupBarrier();
    }
    return bitcast<f32>(shared_words[0]);
}

fn share_most(lane: u32, value: u32) -> u32 {
    workgroupBarrier();
    shared_words[lane] = value;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            shared_words[lane] = max(shared_words[lane], shared_words[lane + half]);
        }
        workgroupBarrier();
    }
    return shared_words[0];
}

// The sum of the lanes before, and that of all.
fn share_before(lane: u32, value: u32) -> vec2<u32> {
    workgroupBarrier();
    shared_words[lane] = value;
    workgroupBarrier();
    for (var reach = 1u; reach < LANES; reach = reach * 2u) {
        var sum = shared_words[lane];
        if (lane >= reach) {
            sum += shared_words[lane - reach];
        }
        workgroupBarrier();
        shared_words[lane] = sum;
        workgroupBarrier();
    }
    return vec2<u32>(shared_words[lane] - value, shared_words[LANES - 1u]);
}

// What lanes have written to the logits is read by others.
fn share_logits() {
    storageBarrier();
}
