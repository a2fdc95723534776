// Both quads of a pair in int8, as they are read.

alias HeldPair = Words2;

fn pair_of(x: HeldPair) -> KvPair {
    return words2(x);
}
