package tidegate

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Changes say how a record differs from the one it came from; what is not mentioned stays as it was. Make them with
// [Change]. They can be kept and used for many records. Bytes are not copied: leave them alone until Process has
// returned. The zero value changes nothing.
type Changes struct {
	mask       byte
	key, value []byte
	headers    []pairChange
	attributes []pairChange
	time       int64
}

// What a patch has.
const (
	maskKey byte = 1 << iota
	maskValue
	maskHeaders
	maskAttributes
	maskTime

	knownMask = maskTime<<1 - 1
)

// Operations on headers and attributes.
const (
	pairSet byte = iota
	pairAdd
	pairRemove
)

// Limits of a patch.
const (
	maxPairs = 65535
	maxName  = 65535
)

type pairChange struct {
	operation   byte
	isNull      bool
	name, value string
}

// Change begins changes: tidegate.Change().SetText("new").SetHeader("a", "1").
func Change() *Changes { return &Changes{} }

// SetKey replaces the key; nil makes it null.
func (c *Changes) SetKey(key []byte) *Changes {
	c.mask |= maskKey
	c.key = key
	return c
}

// NullKey makes the key null.
func (c *Changes) NullKey() *Changes { return c.SetKey(nil) }

// SetValue replaces the value; nil makes it null.
func (c *Changes) SetValue(value []byte) *Changes {
	c.mask |= maskValue
	c.value = value
	return c
}

// SetText replaces the value by a text, which is never null.
func (c *Changes) SetText(value string) *Changes { return c.SetValue(append([]byte{}, value...)) }

// NullValue makes the value null: a tombstone.
func (c *Changes) NullValue() *Changes { return c.SetValue(nil) }

// SetHeader replaces all headers of this name by one. The value may be any bytes.
func (c *Changes) SetHeader(name, value string) *Changes {
	return c.header(pairChange{operation: pairSet, name: name, value: value})
}

// AddHeader appends a header; others of the name stay.
func (c *Changes) AddHeader(name, value string) *Changes {
	return c.header(pairChange{operation: pairAdd, name: name, value: value})
}

// NullHeader replaces all headers of this name by one that is null.
func (c *Changes) NullHeader(name string) *Changes {
	return c.header(pairChange{operation: pairSet, isNull: true, name: name})
}

// AddNullHeader appends a header that is null; others of the name stay.
func (c *Changes) AddNullHeader(name string) *Changes {
	return c.header(pairChange{operation: pairAdd, isNull: true, name: name})
}

// RemoveHeader removes all headers of this name.
func (c *Changes) RemoveHeader(name string) *Changes {
	return c.header(pairChange{operation: pairRemove, isNull: true, name: name})
}

// SetAttribute replaces all private attributes of this name by one. Attributes are seen by later operators, never by a
// sink. The value may be any bytes.
func (c *Changes) SetAttribute(name, value string) *Changes {
	return c.attribute(pairChange{operation: pairSet, name: name, value: value})
}

// AddAttribute appends a private attribute; others of the name stay.
func (c *Changes) AddAttribute(name, value string) *Changes {
	return c.attribute(pairChange{operation: pairAdd, name: name, value: value})
}

// NullAttribute replaces all private attributes of this name by one that is null.
func (c *Changes) NullAttribute(name string) *Changes {
	return c.attribute(pairChange{operation: pairSet, isNull: true, name: name})
}

// AddNullAttribute appends a private attribute that is null; others of the name stay.
func (c *Changes) AddNullAttribute(name string) *Changes {
	return c.attribute(pairChange{operation: pairAdd, isNull: true, name: name})
}

// RemoveAttribute removes all private attributes of this name.
func (c *Changes) RemoveAttribute(name string) *Changes {
	return c.attribute(pairChange{operation: pairRemove, isNull: true, name: name})
}

// SetEventTime replaces the event time, to the microsecond. A time that microseconds of 64 bits cannot say becomes the
// nearest that they can.
func (c *Changes) SetEventTime(at time.Time) *Changes {
	c.mask |= maskTime
	c.time = micros(at)
	return c
}

// NoEventTime takes the event time away.
func (c *Changes) NoEventTime() *Changes {
	c.mask |= maskTime
	c.time = noTime
	return c
}

// IsEmpty tells whether nothing changes.
func (c *Changes) IsEmpty() bool { return c == nil || c.mask == 0 }

func (c *Changes) header(change pairChange) *Changes {
	c.mask |= maskHeaders
	c.headers = append(c.headers, change)
	return c
}

func (c *Changes) attribute(change pairChange) *Changes {
	c.mask |= maskAttributes
	c.attributes = append(c.attributes, change)
	return c
}

// check finds what a patch cannot say; without it the record would be another.
func (c *Changes) check() error {
	if c == nil {
		return nil
	}
	if err := checkPairs("headers", c.headers); err != nil {
		return err
	}
	return checkPairs("attributes", c.attributes)
}

func checkPairs(field string, changes []pairChange) error {
	if len(changes) > maxPairs {
		return fmt.Errorf("%d changes of %s exceed the limit of %d", len(changes), field, maxPairs)
	}
	for _, change := range changes {
		if len(change.name) > maxName {
			return fmt.Errorf("name of %d bytes among the %s of a record exceeds the limit of %d bytes", len(change.name), field, maxName)
		}
		if !utf8.ValidString(change.name) {
			return fmt.Errorf("name %q among the %s of a record is not UTF-8", change.name, field)
		}
	}
	return nil
}

// append writes the patch.
func (c *Changes) append(to []byte) []byte {
	if c == nil {
		return append(to, 0)
	}
	to = append(to, c.mask)
	if c.mask&maskKey != 0 {
		to = appendField(to, c.key)
	}
	if c.mask&maskValue != 0 {
		to = appendField(to, c.value)
	}
	if c.mask&maskHeaders != 0 {
		to = appendPairs(to, c.headers)
	}
	if c.mask&maskAttributes != 0 {
		to = appendPairs(to, c.attributes)
	}
	if c.mask&maskTime != 0 {
		to = little.AppendUint64(to, uint64(c.time))
	}
	return to
}

func appendField(to, field []byte) []byte {
	if field == nil {
		return little.AppendUint32(to, null)
	}
	return append(little.AppendUint32(to, uint32(len(field))), field...)
}

func appendPairs(to []byte, changes []pairChange) []byte {
	to = little.AppendUint16(to, uint16(len(changes)))
	for _, change := range changes {
		to = append(to, change.operation)
		to = little.AppendUint16(to, uint16(len(change.name)))
		length := uint32(len(change.value))
		if change.isNull {
			length = null
		}
		to = little.AppendUint32(to, length)
		to = append(append(to, change.name...), change.value...)
	}
	return to
}

// micros counts from the Unix epoch, within what 64 bits can say; the smallest is none.
func micros(at time.Time) int64 {
	const most = 1<<63/1_000_000 - 1
	switch seconds := at.Unix(); {
	case seconds > most:
		return 1<<63 - 1
	case seconds < -most:
		return noTime + 1
	}
	return at.UnixMicro()
}
