package tidegate

import "math/bits"

// Random gives random numbers of one record, drawn from the seed of its slot and its id: a record that comes again, after
// a retry, in smaller batches, or when the host is started again, draws the same. Two records, and two slots, draw
// differently. The SDKs of all languages draw the same numbers.
//
// It is a source of math/rand/v2: rand.New(record.Random()). Not for secrets: who knows the slot's name and the record's
// id knows what is drawn.
type Random struct {
	state [4]uint64
}

const golden = 0x9e3779b97f4a7c15

func newRandom(low, high uint64, id ID) *Random {
	place := uint64(id.Partition)<<32 | uint64(id.Source)<<8 | uint64(id.Origin)
	var hash uint64
	for _, part := range [...]uint64{low, high, place, id.Offset, id.Emit} {
		hash = mix(hash ^ part)
	}
	var random Random
	for index := range random.state {
		hash += golden
		random.state[index] = mix(hash)
	}
	return &random
}

// Uint64 gives 64 random bits: xoshiro256++ (Blackman, Vigna: Scrambled linear pseudorandom number generators, 2021).
func (r *Random) Uint64() uint64 {
	s := &r.state
	drawn := bits.RotateLeft64(s[0]+s[3], 23) + s[0]
	shifted := s[1] << 17
	s[2] ^= s[0]
	s[3] ^= s[1]
	s[1] ^= s[2]
	s[0] ^= s[3]
	s[2] ^= shifted
	s[3] = bits.RotateLeft64(s[3], 45)
	return drawn
}

// Float64 gives a number from 0 to 1, without 1.
func (r *Random) Float64() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// Below gives a whole number below this; 0 below 0.
func (r *Random) Below(end uint64) uint64 {
	// Lemire: Fast random integer generation in an interval, 2019. What would favour some numbers is drawn again.
	high, low := bits.Mul64(r.Uint64(), end)
	if low < end {
		for favoured := -end % end; low < favoured; {
			high, low = bits.Mul64(r.Uint64(), end)
		}
	}
	return high
}

// Chance tells whether something happens that has this probability.
func (r *Random) Chance(probability float64) bool { return r.Float64() < probability }

// mix is a step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
func mix(number uint64) uint64 {
	number += golden
	number = (number ^ number>>30) * 0xbf58476d1ce4e5b9
	number = (number ^ number>>27) * 0x94d049bb133111eb
	return number ^ number>>31
}
