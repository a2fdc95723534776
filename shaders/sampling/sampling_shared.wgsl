// For GPUs: the lanes of a workgroup share a task (a chunk, or a row). What they share comes back to all of them. Whether
// they come to share something must not hang on scratch memory: some compilers refuse barriers under what others may write.

var<workgroup> shared_pairs: array<vec2<u32>, LANES>;
var<workgroup> shared_sums: array<f32, LANES>;
var<workgroup> shared_counts: array<Counts, LANES>;
var<workgroup> shared_masses: array<Masses, LANES>;

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
    shared_sums[lane] = value;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            shared_sums[lane] += shared_sums[lane + half];
        }
        workgroupBarrier();
    }
    return shared_sums[0];
}

fn share_counts(lane: u32, value: Counts) -> Counts {
    workgroupBarrier();
    shared_counts[lane] = value;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            shared_counts[lane].a += shared_counts[lane + half].a;
            shared_counts[lane].b += shared_counts[lane + half].b;
            shared_counts[lane].c += shared_counts[lane + half].c;
            shared_counts[lane].d += shared_counts[lane + half].d;
        }
        workgroupBarrier();
    }
    return shared_counts[0];
}

fn share_masses(lane: u32, value: Masses) -> Masses {
    workgroupBarrier();
    shared_masses[lane] = value;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        if (lane < half) {
            shared_masses[lane].a += shared_masses[lane + half].a;
            shared_masses[lane].b += shared_masses[lane + half].b;
            shared_masses[lane].c += shared_masses[lane + half].c;
            shared_masses[lane].d += shared_masses[lane + half].d;
        }
        workgroupBarrier();
    }
    return shared_masses[0];
}
