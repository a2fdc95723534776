// Both quads of a pair in f16, as they are read.

alias HeldPair = Words4;

fn pair_of(x: HeldPair) -> KvPair {
    return words4(x);
}
