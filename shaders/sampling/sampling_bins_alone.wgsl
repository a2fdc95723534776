// Bins that a lane counts by itself.

var<private> bins: array<u32, BINS>;

fn clear_bins(lane: u32) {
    for (var bin = 0u; bin < BINS; bin++) {
        bins[bin] = 0u;
    }
}

fn count_bin(bin: u32) {
    bins[bin] += 1u;
}

// How many bins from the first hold at most so many together.
fn bins_within(lane: u32, most: u32) -> u32 {
    var sum = 0u;
    var bin = 0u;
    for (; bin < BINS; bin++) {
        sum += bins[bin];
        if (sum > most) {
            break;
        }
    }
    return bin;
}
