//go:build !wasip1

package tidegate

import (
	"fmt"
	"slices"
	"time"
)

// TestRecord is a record that owns its fields: what goes into a test, and what comes out.
type TestRecord struct {
	// Key and Value are null if they are nil.
	Key, Value          []byte
	Headers, Attributes []Pair
	// EventTime is none if it is zero.
	EventTime time.Time
	ID        ID
}

// Pair is a header or a private attribute; a Value that is nil is null.
type Pair struct {
	Name  string
	Value []byte
}

// Text makes a record of a text.
func Text(value string) TestRecord { return TestRecord{Value: append([]byte{}, value...)} }

// WithHeader gives the record with one more header.
func (r TestRecord) WithHeader(name, value string) TestRecord {
	r.Headers = append(slices.Clone(r.Headers), Pair{name, append([]byte{}, value...)})
	return r
}

// WithAttribute gives the record with one more private attribute.
func (r TestRecord) WithAttribute(name, value string) TestRecord {
	r.Attributes = append(slices.Clone(r.Attributes), Pair{name, append([]byte{}, value...)})
	return r
}

// Header gives the value of the last header of this name, and whether there is one that is not null.
func (r TestRecord) Header(name string) (string, bool) { return last(r.Headers, name) }

// Attribute gives the value of the last private attribute of this name, and whether there is one that is not null.
func (r TestRecord) Attribute(name string) (string, bool) { return last(r.Attributes, name) }

func last(pairs []Pair, name string) (string, bool) {
	for _, pair := range slices.Backward(pairs) {
		if pair.Name == name {
			return string(pair.Value), pair.Value != nil
		}
	}
	return "", false
}

// EncodeBatch packs records into an arena with the fields that are read, and no others, as the host does.
func EncodeBatch(records []TestRecord, reads Fields, clock time.Time, seed [16]byte) ([]byte, error) {
	arena := make([]byte, batchHeader)
	entries := make([]byte, recordEntry*len(records))
	for index, record := range records {
		entry := entries[recordEntry*index:][:recordEntry]
		if record.EventTime.IsZero() {
			little.PutUint64(entry, 1<<63)
		} else {
			little.PutUint64(entry, uint64(micros(record.EventTime)))
		}
		little.PutUint64(entry[8:], record.ID.Offset)
		little.PutUint64(entry[16:], record.ID.Emit)
		little.PutUint32(entry[24:], record.ID.Partition)
		little.PutUint16(entry[28:], record.ID.Source)
		entry[30], entry[31] = byte(record.ID.Origin), byte(reads)
		arena = putField(arena, entry[40:], record.Key, reads&Key != 0)
		arena = putField(arena, entry[48:], record.Value, reads&Value != 0)
		var err error
		if arena, err = putPairs(arena, entry, headerPairs, record.Headers, reads); err != nil {
			return nil, fmt.Errorf("record %d: %w", index+1, err)
		}
		if arena, err = putPairs(arena, entry, attributePairs, record.Attributes, reads); err != nil {
			return nil, fmt.Errorf("record %d: %w", index+1, err)
		}
	}
	for len(arena)%8 != 0 {
		arena = append(arena, 0)
	}
	table := len(arena)
	arena = append(arena, entries...)
	copy(arena, batchMagic)
	little.PutUint32(arena[4:], uint32(len(arena)))
	little.PutUint32(arena[8:], batchHeader)
	little.PutUint32(arena[16:], uint32(len(records)))
	little.PutUint32(arena[20:], recordEntry)
	little.PutUint32(arena[24:], uint32(table))
	little.PutUint64(arena[40:], uint64(micros(clock)))
	copy(arena[48:], seed[:])
	return arena, nil
}

func putField(arena, entry, field []byte, isRead bool) []byte {
	switch {
	case !isRead:
		little.PutUint32(entry[4:], null)
		return arena
	case field == nil:
		little.PutUint32(entry[4:], null)
	default:
		little.PutUint32(entry[4:], uint32(len(field)))
	}
	little.PutUint32(entry, uint32(len(arena)))
	return append(arena, field...)
}

func putPairs(arena, entry []byte, kind pairKind, pairs []Pair, reads Fields) ([]byte, error) {
	if reads&kind.present == 0 {
		return arena, nil
	}
	if len(pairs) > maxPairs {
		return nil, fmt.Errorf("there are %d headers or attributes, at most %d can be", len(pairs), maxPairs)
	}
	start := len(arena)
	for _, pair := range pairs {
		if len(pair.Name) > maxName {
			return nil, fmt.Errorf("a name has %d bytes, at most %d can be", len(pair.Name), maxName)
		}
		arena = little.AppendUint16(arena, uint16(len(pair.Name)))
		if pair.Value == nil {
			arena = little.AppendUint32(arena, null)
		} else {
			arena = little.AppendUint32(arena, uint32(len(pair.Value)))
		}
		arena = append(append(arena, pair.Name...), pair.Value...)
	}
	little.PutUint16(entry[kind.count:], uint16(len(pairs)))
	little.PutUint32(entry[kind.at:], uint32(start))
	little.PutUint32(entry[kind.at+4:], uint32(len(arena)-start))
	return arena, nil
}

// applied gives the record with changes made, as the host makes them.
func (c *Changes) applied(to TestRecord) TestRecord {
	if c == nil {
		return to
	}
	if c.mask&maskKey != 0 {
		to.Key = slices.Clone(c.key)
	}
	if c.mask&maskValue != 0 {
		to.Value = slices.Clone(c.value)
	}
	if c.mask&maskTime != 0 {
		to.EventTime = time.Time{}
		if c.time != noTime {
			to.EventTime = time.UnixMicro(c.time).UTC()
		}
	}
	to.Headers = appliedPairs(to.Headers, c.headers)
	to.Attributes = appliedPairs(to.Attributes, c.attributes)
	return to
}

func appliedPairs(pairs []Pair, changes []pairChange) []Pair {
	if len(changes) == 0 {
		return pairs
	}
	pairs = slices.Clone(pairs)
	for _, change := range changes {
		if change.operation != pairAdd {
			pairs = slices.DeleteFunc(pairs, func(pair Pair) bool { return pair.Name == change.name })
		}
		if change.operation == pairRemove {
			continue
		}
		pair := Pair{Name: change.name}
		if !change.isNull {
			pair.Value = append([]byte{}, change.value...)
		}
		pairs = append(pairs, pair)
	}
	return pairs
}
