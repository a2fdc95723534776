// Splits of one head that there is scratch for in this step: what its rows may see, not all that a sequence may come to.
fn splits_of_head() -> u32 {
    return min(params.scratch, (step.positions + SPLIT - 1u) / SPLIT);
}
