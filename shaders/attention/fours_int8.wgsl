// Four quads in int8, as they are read.

alias Held = Words4;

fn four_of(x: Held) -> Four {
    let words = words4(x);
    return Four(from_kv(words.x), from_kv(words.y), from_kv(words.z), from_kv(words.w));
}
