package tidegate

import (
	"encoding/binary"
	"fmt"
)

// The packed arena of a batch, layout 2: see `wit/README.md` of Tidegate. All numbers are little-endian.

var little = binary.LittleEndian

const (
	batchMagic  = "TGB\x02"
	answerMagic = "TGO\x02"

	// Least bytes of a batch's header and of an entry of its record table; later versions may have more of both.
	batchHeader = 64
	recordEntry = 72

	// The length of what is null.
	null = 0xffffffff
	// The event time of a record that has none.
	noTime = -1 << 63

	// Of flags and of kinds of sections: an arena with one that a reader does not know is not to be read.
	criticalFlags = 0xffff0000
	criticalKind  = 0x80000000
	sectionEntry  = 16
)

// batch is an arena, viewed where it lies. It is used again for the next.
type batch struct {
	bytes         []byte
	table, stride int
	count         int
	names         names
}

// view takes an arena. The records are as the host made them: they are looked at when they are asked for.
func (b *batch) view(bytes []byte) *Failure {
	if len(bytes) < batchHeader || string(bytes[:4]) != batchMagic {
		return Permanent("bad-batch", "the batch is no arena of layout 2")
	}
	if stated := little.Uint32(bytes[4:]); int(stated) != len(bytes) {
		return Permanent("bad-batch", fmt.Sprintf("the batch has %d bytes and says %d", len(bytes), stated))
	}
	if unknown := little.Uint32(bytes[12:]) & criticalFlags; unknown != 0 {
		return Permanent("unknown-arena", fmt.Sprintf("the batch has the flags %#x, which this SDK has to know and does not", unknown))
	}
	if failed := knownSections(bytes); failed != nil {
		return failed
	}
	b.bytes = bytes
	b.count = int(little.Uint32(bytes[16:]))
	b.stride = int(little.Uint32(bytes[20:]))
	b.table = int(little.Uint32(bytes[24:]))
	header := int(little.Uint32(bytes[8:]))
	isLaidOut := header >= batchHeader && b.table >= header && b.stride >= recordEntry && (header|b.stride|b.table)%8 == 0
	if !isLaidOut || b.table > len(bytes) || b.count > (len(bytes)-b.table)/b.stride {
		why := fmt.Sprintf("a table of %d records of %d bytes at byte %d is not within the batch of %d bytes", b.count, b.stride, b.table, len(bytes))
		return Permanent("bad-batch", why)
	}
	return nil
}

// knownSections finds a section that this reader does not know and has to.
func knownSections(bytes []byte) *Failure {
	count, table := int(little.Uint32(bytes[28:])), int(little.Uint32(bytes[32:]))
	if table > len(bytes) || count > (len(bytes)-table)/sectionEntry {
		return Permanent("bad-batch", fmt.Sprintf("a table of %d sections at byte %d is not within the batch", count, table))
	}
	for section := range count {
		if kind := little.Uint32(bytes[table+sectionEntry*section:]); kind >= criticalKind {
			return Permanent("unknown-arena", fmt.Sprintf("the batch has a section of kind %#x, which this SDK has to know and does not", kind))
		}
	}
	return nil
}

// record gives a record by its index.
func (b *batch) record(index int) Record {
	return Record{batch: b, at: b.table + b.stride*index}
}

func (b *batch) clock() int64 { return int64(little.Uint64(b.bytes[40:])) }

func (b *batch) seed() (low, high uint64) {
	return little.Uint64(b.bytes[48:]), little.Uint64(b.bytes[56:])
}

// names keeps names of headers and attributes that came before, so that one that comes again costs no memory.
type names struct {
	known map[string]string
}

const (
	// Most names that are kept, and bytes of the longest.
	keptNames = 256
	keptBytes = 64
)

func (n *names) of(name []byte) string {
	if known, ok := n.known[string(name)]; ok {
		return known
	}
	owned := string(name)
	if len(name) <= keptBytes && len(n.known) < keptNames {
		if n.known == nil {
			n.known = make(map[string]string)
		}
		n.known[owned] = owned
	}
	return owned
}
