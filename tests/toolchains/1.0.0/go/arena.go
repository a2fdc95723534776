package main

import "encoding/binary"

// The packed arena, layout 2, as far as this operator needs it: see wit/README.md.

const (
	null      = 0xffffffff
	header    = 40
	maskValue = 2

	// Of flags and of kinds of sections: an arena with one that a reader does not know is not to be read.
	criticalFlags = 0xffff0000
	criticalKind  = 0x80000000

	actionDrop       = 1
	actionReplace    = 2
	actionDeadLetter = 6
)

var little = binary.LittleEndian

// isKnown tells whether there is nothing in a batch that this reader does not know and has to.
func isKnown(batch []byte) bool {
	if little.Uint32(batch[12:])&criticalFlags != 0 {
		return false
	}
	for section := range little.Uint32(batch[28:]) {
		if little.Uint32(batch[little.Uint32(batch[32:])+16*section:]) >= criticalKind {
			return false
		}
	}
	return true
}

func records(batch []byte) int { return int(little.Uint32(batch[16:])) }

// value gives the value of a record, nil for what is null or not there.
func value(batch []byte, record int) []byte {
	entry := batch[int(little.Uint32(batch[24:]))+int(little.Uint32(batch[20:]))*record:]
	length := little.Uint32(entry[52:])
	if entry[31]&maskValue == 0 || length == null {
		return nil
	}
	start := little.Uint32(entry[48:])
	return batch[start : start+length : start+length]
}

// answer grows: a record of which nothing is said passes.
type answer []byte

// begin takes the memory of an earlier answer.
func begin(memory []byte, records int) answer {
	a := append(memory[:0], make([]byte, header+records)...)
	copy(a, "TGO\x02")
	little.PutUint32(a[8:], header)
	little.PutUint32(a[16:], uint32(records))
	little.PutUint32(a[20:], header)
	little.PutUint32(a[24:], uint32(header+records))
	return a
}

func (a answer) drop(record int) { a[header+record] = actionDrop }

func (a *answer) replaceValue(record int, value []byte) {
	(*a)[header+record] = actionReplace
	*a = append(*a, maskValue)
	a.put(value)
}

func (a *answer) deadLetter(record int, reason string) {
	(*a)[header+record] = actionDeadLetter
	a.put([]byte(reason))
}

func (a *answer) put(bytes []byte) {
	*a = append(little.AppendUint32(*a, uint32(len(bytes))), bytes...)
}

func (a answer) finish() {
	little.PutUint32(a[4:], uint32(len(a)))
	little.PutUint32(a[28:], uint32(len(a))-little.Uint32(a[24:]))
}
