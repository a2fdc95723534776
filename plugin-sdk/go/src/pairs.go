package tidegate

import "iter"

// pairKind says which of the two lists of pairs of a record is meant, by the places of its numbers in the entry.
type pairKind struct {
	present   Fields
	count, at int
}

var (
	headerPairs    = pairKind{Headers, 32, 56}
	attributePairs = pairKind{Attributes, 34, 64}
)

// block is a run of pairs: length of the name (2), length of the value (4), name, value.
type block []byte

func (r Record) pairs(kind pairKind) block {
	entry := r.entry()
	if Fields(entry[31])&kind.present == 0 {
		return nil
	}
	return r.batch.within(little.Uint32(entry[kind.at:]), little.Uint32(entry[kind.at+4:]))
}

func (r Record) count(kind pairKind) int {
	entry := r.entry()
	if Fields(entry[31])&kind.present == 0 {
		return 0
	}
	return int(little.Uint16(entry[kind.count:]))
}

// next takes the first pair of the block off. The value of a null is nil.
func (b block) next() (name, value []byte, rest block) {
	start := 6 + int(little.Uint16(b))
	length := little.Uint32(b[2:])
	name = b[6:start:start]
	if length == null {
		return name, nil, b[start:]
	}
	end := start + int(length)
	return name, b[start:end:end], b[end:]
}

// last gives the value of the last pair of this name, as in all SDKs: nil if it is null or there is none.
func (b block) last(wanted string) (found []byte) {
	for len(b) > 0 {
		name, value, rest := b.next()
		if string(name) == wanted {
			found = value
		}
		b = rest
	}
	return found
}

func (r Record) all(kind pairKind) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for pairs := r.pairs(kind); len(pairs) > 0; {
			name, value, rest := pairs.next()
			if !yield(r.batch.names.of(name), value) {
				return
			}
			pairs = rest
		}
	}
}
