package tidegate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	answerHeader = 40
	// The kind of the section that holds samples.
	sectionSamples = 1
	// Memory of an answer that is kept for the next though that one needs far less of it.
	keptAnswer = 4 << 20
)

// answer is written record by record; its memory is used again, since the host has copied it by the time it calls again.
type answer struct {
	bytes   []byte
	samples []byte
	sampled int
	records int
}

// begin takes an answer in which every record passes.
func (a *answer) begin(records int) {
	if cap(a.bytes) > keptAnswer && len(a.bytes) < cap(a.bytes)/4 {
		a.bytes = nil
	}
	if cap(a.samples) > keptAnswer && len(a.samples) < cap(a.samples)/4 {
		a.samples = nil
	}
	fixed := answerHeader + records
	a.bytes = slices.Grow(a.bytes[:0], fixed)[:fixed]
	clear(a.bytes)
	a.samples, a.sampled, a.records = a.samples[:0], 0, records
	copy(a.bytes, answerMagic)
	little.PutUint32(a.bytes[8:], answerHeader)
	little.PutUint32(a.bytes[16:], uint32(records))
	little.PutUint32(a.bytes[20:], answerHeader)
	little.PutUint32(a.bytes[24:], uint32(fixed))
}

// mark is how far an answer had come before a record.
type mark struct{ bytes, samples, sampled int }

func (a *answer) mark() mark { return mark{len(a.bytes), len(a.samples), a.sampled} }

// back undoes what was written since, of the payloads; and of the samples where they are not to count.
func (a *answer) back(to mark, samples bool) {
	a.bytes = a.bytes[:to.bytes]
	if samples {
		a.samples, a.sampled = a.samples[:to.samples], to.sampled
	}
}

// finish gives the bytes of the answer.
func (a *answer) finish() []byte {
	little.PutUint32(a.bytes[28:], uint32(len(a.bytes)-answerHeader-a.records))
	if a.sampled > 0 {
		at := uint32(len(a.bytes))
		length := uint32(len(a.samples))
		a.bytes = append(a.bytes, a.samples...)
		little.PutUint32(a.bytes[32:], 1)
		little.PutUint32(a.bytes[36:], at+length)
		for _, number := range [...]uint32{sectionSamples, uint32(a.sampled), at, length} {
			a.bytes = little.AppendUint32(a.bytes, number)
		}
	}
	little.PutUint32(a.bytes[4:], uint32(len(a.bytes)))
	return a.bytes
}

// write writes an outcome. The error says why it cannot be: without that the record would be another.
func (a *answer) write(record int, outcome *Outcome, outputs []string) error {
	switch outcome.action {
	case actionPass:
		return nil
	case actionReplace:
		if outcome.changes.IsEmpty() {
			return nil
		}
		if err := outcome.changes.check(); err != nil {
			return fmt.Errorf("changes cannot be applied: %w", err)
		}
		a.bytes = outcome.changes.append(a.bytes)
	case actionSplit:
		if err := a.split(outcome.pieces, outputs); err != nil {
			return err
		}
	case actionRoute:
		number, err := outputNumber(outcome.text, outputs)
		if err != nil {
			return err
		}
		if err := outcome.changes.check(); err != nil {
			return fmt.Errorf("changes cannot be applied: %w", err)
		}
		a.bytes = outcome.changes.append(little.AppendUint16(a.bytes, number))
	case actionRetry:
		milliseconds := min(max(outcome.after.Milliseconds(), 0), 1<<32-1)
		a.bytes = little.AppendUint32(a.bytes, uint32(milliseconds))
		a.reason(outcome.text)
	case actionDeadLetter:
		a.reason(outcome.text)
	}
	a.bytes[answerHeader+record] = byte(outcome.action)
	return nil
}

func (a *answer) split(pieces []Piece, outputs []string) error {
	if len(pieces) > MaxPieces {
		return fmt.Errorf("split into %d pieces, at most %d can be", len(pieces), MaxPieces)
	}
	a.bytes = little.AppendUint32(a.bytes, uint32(len(pieces)))
	for index := range pieces {
		piece := &pieces[index]
		var number uint16
		if piece.Output != "" {
			var err error
			if number, err = outputNumber(piece.Output, outputs); err != nil {
				return fmt.Errorf("piece %d: %w", index+1, err)
			}
		}
		if err := piece.Changes.check(); err != nil {
			return fmt.Errorf("changes of piece %d cannot be applied: %w", index+1, err)
		}
		a.bytes = piece.Changes.append(little.AppendUint16(a.bytes, number))
	}
	return nil
}

// deadLetter writes one instead of what has been written of the record.
func (a *answer) deadLetter(record int, reason string) {
	a.bytes[answerHeader+record] = byte(actionDeadLetter)
	a.reason(reason)
}

func (a *answer) reason(reason string) {
	reason = valid(reason)
	a.bytes = little.AppendUint32(a.bytes, uint32(len(reason)))
	a.bytes = append(a.bytes, reason...)
}

// sample writes a measurement of a record.
func (a *answer) sample(record, metric int, bits uint64, labels []string) {
	a.sampled++
	a.samples = little.AppendUint32(a.samples, uint32(record))
	a.samples = little.AppendUint16(a.samples, uint16(metric))
	a.samples = little.AppendUint16(a.samples, uint16(len(labels)))
	a.samples = little.AppendUint64(a.samples, bits)
	for _, label := range labels {
		label = cut(valid(label), maxLabel)
		a.samples = little.AppendUint16(a.samples, uint16(len(label)))
		a.samples = append(a.samples, label...)
	}
}

// outputNumber gives the number of an output in an answer: 0 is the main one, k the k-th that is named.
func outputNumber(name string, outputs []string) (uint16, error) {
	if index := slices.Index(outputs, name); index >= 0 {
		return uint16(index + 1), nil
	}
	if len(outputs) == 0 {
		return 0, fmt.Errorf("there is no output %q, the operator names none", name)
	}
	return 0, fmt.Errorf("there is no output %q, the operator names %s", name, quoted(outputs))
}

func quoted(names []string) string {
	shown := make([]string, len(names))
	for index, name := range names {
		shown[index] = fmt.Sprintf("%q", name)
	}
	return strings.Join(shown, ", ")
}

// valid gives a text that is UTF-8: the host takes no other.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// cut shortens a text to so many bytes, at the border of a character.
func cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	for longest > 0 && !utf8.RuneStart(text[longest]) {
		longest--
	}
	return text[:longest]
}
