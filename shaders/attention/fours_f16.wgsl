// Four quads in f16, as they are read.

alias Held = Words8;

fn four_of(x: Held) -> Four {
    let low = low_words(x);
    let high = high_words(x);
    return Four(from_kv(low.xy), from_kv(low.zw), from_kv(high.xy), from_kv(high.zw));
}
