// Bins that the lanes of a workgroup count together, one for each lane.

var<workgroup> shared_bins: array<atomic<u32>, BINS>;

fn clear_bins(lane: u32) {
    atomicStore(&shared_bins[lane], 0u);
    workgroupBarrier();
}

fn count_bin(bin: u32) {
    atomicAdd(&shared_bins[bin], 1u);
}

// How many bins from the first hold at most so many together.
fn bins_within(lane: u32, most: u32) -> u32 {
    workgroupBarrier();
    let own = atomicLoad(&shared_bins[lane]);
    let within = share_before(lane, own).x + own <= most;
    return share_most(lane, select(0u, lane + 1u, within));
}
