package main

import "encoding/binary"

// The packed arena, version 1, as far as this operator needs it. The layout is in wit/released/0.1.0/tidegate.wit.

const (
	null      = 0xffffffff
	header    = 16
	maskValue = 2

	actionDrop       = 1
	actionReplace    = 2
	actionDeadLetter = 6
)

var little = binary.LittleEndian

func records(batch []byte) int { return int(little.Uint32(batch[8:])) }

// value gives the value of a record, nil for what is null or not there.
func value(batch []byte, record int) []byte {
	entry := batch[int(little.Uint32(batch[12:]))+64*record:]
	length := little.Uint32(entry[44:])
	if entry[30]&maskValue == 0 || length == null {
		return nil
	}
	start := little.Uint32(entry[40:])
	return batch[start : start+length : start+length]
}

// answer grows: a record of which nothing is said passes.
type answer []byte

// begin takes the memory of an earlier answer.
func begin(memory []byte, records int) answer {
	a := append(memory[:0], 'T', 'G', 'O', 1)
	a = little.AppendUint32(a, 0)
	a = little.AppendUint32(a, uint32(records))
	a = little.AppendUint32(a, uint32(header+records))
	return append(a, make([]byte, records)...)
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

func (a answer) finish() { little.PutUint32(a[4:], uint32(len(a))) }
