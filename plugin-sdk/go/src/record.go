package tidegate

import (
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"
)

// Fields are parts of a record that an operator reads. Of the others nothing is copied in: they look like null or like
// an empty list.
type Fields uint8

// What there is beside a record's id, event time and clock, which are always there.
const (
	Key Fields = 1 << iota
	Value
	Headers
	Attributes
)

// Record is one record of the stream, viewed where it lies in the batch: small, cheap to copy, and read when it is asked
// for. It and the bytes it gives are valid until Process returns; text and names are copies and may be kept. The bytes
// are not to be changed.
type Record struct {
	batch *batch
	at    int
}

// ErrNull says that the value is null.
var ErrNull = errors.New("value is null")

// Key gives the key, nil for null. A key that is empty is not nil.
func (r Record) Key() []byte { return r.field(Key, 40) }

// Value gives the value, nil for null (a tombstone). A value that is empty is not nil.
func (r Record) Value() []byte { return r.field(Value, 48) }

// Text gives the value as text, a copy. The error says that it is null or at which byte it is not UTF-8.
func (r Record) Text() (string, error) {
	value := r.Value()
	if value == nil {
		return "", ErrNull
	}
	if at := invalidAt(value); at >= 0 {
		return "", fmt.Errorf("value is not UTF-8 at byte %d", at)
	}
	return string(value), nil
}

// JSON reads the value as JSON into what target points to, by the rules of encoding/json, and three more: it is UTF-8, it
// is at most 128 deep, and a whole number is an integer also if it is written as 1.0 or 1e3.
func (r Record) JSON(target any) error {
	value := r.Value()
	if value == nil {
		return ErrNull
	}
	return readJSON(value, target)
}

// Header gives the value of the last header of this name, nil if there is none or it is null.
func (r Record) Header(name string) []byte { return r.pairs(headerPairs).last(name) }

// HeaderText gives the same as text, a copy, and whether there is any: not if it is not UTF-8.
func (r Record) HeaderText(name string) (string, bool) { return text(r.Header(name)) }

// Headers gives all headers in order; a name may repeat, and the value of a null is nil.
//
//	for name, value := range record.Headers() { ... }
func (r Record) Headers() iter.Seq2[string, []byte] { return r.all(headerPairs) }

// CountHeaders tells how many headers there are, without looking at them.
func (r Record) CountHeaders() int { return r.count(headerPairs) }

// Attribute gives the value of the last private attribute of this name, nil if there is none or it is null. Attributes
// are seen by later operators, never by a sink.
func (r Record) Attribute(name string) []byte { return r.pairs(attributePairs).last(name) }

// AttributeText gives the same as text, a copy, and whether there is any: not if it is not UTF-8.
func (r Record) AttributeText(name string) (string, bool) { return text(r.Attribute(name)) }

// Attributes gives all private attributes in order.
func (r Record) Attributes() iter.Seq2[string, []byte] { return r.all(attributePairs) }

// CountAttributes tells how many private attributes there are, without looking at them.
func (r Record) CountAttributes() int { return r.count(attributePairs) }

// EventTime tells when it happened, to the microsecond and in UTC, and whether that is known.
func (r Record) EventTime() (time.Time, bool) {
	micros := int64(little.Uint64(r.entry()))
	if micros == noTime {
		return time.Time{}, false
	}
	return time.UnixMicro(micros).UTC(), true
}

// Origin is what made a record.
type Origin uint8

// What makes records.
const (
	Source Origin = iota
	Timer
)

func (o Origin) String() string {
	if o == Timer {
		return "timer"
	}
	return "source"
}

// ID tells where a record comes from. No two records of a pipeline have the same, and it is the same after a restart.
type ID struct {
	Origin Origin
	// Source is the index of the source in the pipeline.
	Source    uint16
	Partition uint32
	// Offset is that in the partition.
	Offset uint64
	// Emit is 0 for a record as it was read, and another number for each piece of a split.
	Emit uint64
}

// ID tells where it comes from.
func (r Record) ID() ID {
	entry := r.entry()
	return ID{
		Origin:    Origin(entry[30]),
		Source:    little.Uint16(entry[28:]),
		Partition: little.Uint32(entry[24:]),
		Offset:    little.Uint64(entry[8:]),
		Emit:      little.Uint64(entry[16:]),
	}
}

// Random gives random numbers, the same whenever this record comes to this stage.
func (r Record) Random() *Random {
	low, high := r.batch.seed()
	return newRandom(low, high, r.ID())
}

func (r Record) entry() []byte { return r.batch.bytes[r.at : r.at+recordEntry] }

// field gives a key or a value, whose place is at these bytes of the entry.
func (r Record) field(present Fields, at int) []byte {
	entry := r.entry()
	length := little.Uint32(entry[at+4:])
	if Fields(entry[31])&present == 0 || length == null {
		return nil
	}
	return r.batch.within(little.Uint32(entry[at:]), length)
}

func (b *batch) within(at, length uint32) []byte {
	end := int(at) + int(length)
	return b.bytes[at:end:end]
}

func text(bytes []byte) (string, bool) {
	if bytes == nil || !utf8.Valid(bytes) {
		return "", false
	}
	return string(bytes), true
}

// invalidAt gives the first byte that is not UTF-8, -1 if there is none.
func invalidAt(bytes []byte) int {
	if utf8.Valid(bytes) {
		return -1
	}
	at := 0
	for at < len(bytes) {
		letter, size := utf8.DecodeRune(bytes[at:])
		if letter == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}
