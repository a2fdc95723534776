//go:build !wasip1

package tidegate

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// Answer is what became of a record, with the record as the next stage would see it.
type Answer struct {
	// Kind is "pass", "drop", "replace", "split", "route", "retry" or "dead-letter".
	Kind string
	// Record is what goes on, if it passes, is replaced or is routed.
	Record TestRecord
	// Output is where a record is routed to.
	Output string
	// Pieces are the records that a split made.
	Pieces []AnsweredPiece
	// After is when a retry comes again.
	After time.Duration
	// Reason is that of a retry or a dead letter.
	Reason string

	// What was changed, as the operator said it.
	changes *Changes
}

// AnsweredPiece is one record of a split.
type AnsweredPiece struct {
	// Output is where it goes, "" for the main output.
	Output string
	// Record is the piece; its ID is that of the record it came from, and another number as Emit.
	Record TestRecord

	changes *Changes
}

var kinds = [...]string{"pass", "drop", "replace", "split", "route", "retry", "dead-letter"}

type decodedAnswer struct {
	outcomes []Outcome
	samples  []measurement
}

// decodeAnswer takes an answer apart and holds it against the rules of the contract.
func decodeAnswer(bytes []byte, records int, outputs []string, metrics []*metric) (decodedAnswer, error) {
	var decoded decodedAnswer
	if len(bytes) < answerHeader || string(bytes[:4]) != answerMagic {
		return decoded, errors.New("it is no answer of layout 2")
	}
	word := func(at int) int { return int(little.Uint32(bytes[at:])) }
	switch {
	case word(4) != len(bytes):
		return decoded, fmt.Errorf("it has %d bytes and says %d", len(bytes), word(4))
	case word(12)&criticalFlags != 0:
		return decoded, fmt.Errorf("it has the flags %#x", word(12))
	case word(16) != records:
		return decoded, fmt.Errorf("it has %d outcomes for %d records", word(16), records)
	}
	actions := &decoder{bytes: bytes, at: word(20), end: word(20) + records}
	payloads := &decoder{bytes: bytes, at: word(24), end: word(24) + word(28)}
	for index := range records {
		outcome := payloads.outcome(action(actions.byte()), outputs)
		if err := errors.Join(actions.err, payloads.err); err != nil {
			return decoded, fmt.Errorf("outcome %d: %w", index+1, err)
		}
		decoded.outcomes = append(decoded.outcomes, outcome)
	}
	if payloads.at != payloads.end {
		return decoded, fmt.Errorf("%d bytes of payloads belong to no outcome", payloads.end-payloads.at)
	}
	table := &decoder{bytes: bytes, at: word(36), end: word(36) + sectionEntry*word(32)}
	for range word(32) {
		kind, count, at, length := table.u32(), table.u32(), table.u32(), table.u32()
		if table.err != nil {
			return decoded, table.err
		}
		if kind != sectionSamples {
			return decoded, fmt.Errorf("it has a section of kind %d", kind)
		}
		samples, err := decodeSamples(&decoder{bytes: bytes, at: int(at), end: int(at) + int(length)}, int(count), records, metrics)
		if err != nil {
			return decoded, err
		}
		decoded.samples = append(decoded.samples, samples...)
	}
	return decoded, nil
}

func decodeSamples(from *decoder, count, records int, metrics []*metric) ([]measurement, error) {
	var samples []measurement
	perRecord := make(map[int]int)
	for index := range count {
		sample := measurement{record: int(from.u32())}
		number, labels := int(from.u16()), int(from.u16())
		sample.bits = from.u64()
		for range labels {
			sample.labels = append(sample.labels, from.text(int(from.u16())))
		}
		if from.err != nil {
			return nil, fmt.Errorf("sample %d: %w", index+1, from.err)
		}
		perRecord[sample.record]++
		if sample.record >= records || number >= len(metrics) || perRecord[sample.record] > maxSamples {
			return nil, fmt.Errorf("sample %d is of record %d and metric %d, or one too many", index+1, sample.record+1, number)
		}
		sample.metric = metrics[number]
		if labels != len(sample.metric.labels) {
			return nil, fmt.Errorf("sample %d has %d labels, metric %q has %d", index+1, labels, sample.metric.name, len(sample.metric.labels))
		}
		if value := math.Float64frombits(sample.bits); sample.metric.kind != kindCounter && (math.IsNaN(value) || math.IsInf(value, 0)) {
			return nil, fmt.Errorf("sample %d is not finite", index+1)
		}
		samples = append(samples, sample)
	}
	if from.at != from.end {
		return nil, fmt.Errorf("%d bytes belong to no sample", from.end-from.at)
	}
	return samples, nil
}

// decoder reads parts of an answer one after the other; after an error it gives nothing.
type decoder struct {
	bytes   []byte
	at, end int
	err     error
}

func (d *decoder) take(length int) []byte {
	if d.err == nil && (d.at < 0 || d.at > d.end || d.end > len(d.bytes) || length > d.end-d.at) {
		d.err = fmt.Errorf("%d bytes at byte %d are not within %d", length, d.at, min(d.end, len(d.bytes)))
	}
	if d.err != nil {
		return make([]byte, min(length, 8))
	}
	taken := d.bytes[d.at : d.at+length : d.at+length]
	d.at += length
	return taken
}

func (d *decoder) byte() byte  { return d.take(1)[0] }
func (d *decoder) u16() uint16 { return little.Uint16(d.take(2)) }
func (d *decoder) u32() uint32 { return little.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return little.Uint64(d.take(8)) }

func (d *decoder) text(length int) string {
	text := string(d.take(length))
	if d.err == nil && !utf8.ValidString(text) {
		d.err = fmt.Errorf("text before byte %d is not UTF-8", d.at)
	}
	return text
}

func (d *decoder) outcome(what action, outputs []string) Outcome {
	outcome := Outcome{action: what}
	switch what {
	case actionPass, actionDrop:
	case actionReplace:
		outcome.changes = d.changes()
	case actionSplit:
		count := d.u32()
		if count > MaxPieces {
			d.err = errors.Join(d.err, fmt.Errorf("a split of %d pieces, at most %d can be", count, MaxPieces))
			return outcome
		}
		for range count {
			output := d.output(outputs)
			outcome.pieces = append(outcome.pieces, Piece{Output: output, Changes: d.changes()})
		}
	case actionRoute:
		outcome.text = d.output(outputs)
		outcome.changes = d.changes()
	case actionRetry:
		outcome.after = time.Duration(d.u32()) * time.Millisecond
		outcome.text = d.text(int(d.u32()))
	case actionDeadLetter:
		outcome.text = d.text(int(d.u32()))
	default:
		d.err = errors.Join(d.err, fmt.Errorf("unknown action %d", what))
	}
	return outcome
}

func (d *decoder) output(outputs []string) string {
	number := int(d.u16())
	if number > len(outputs) {
		d.err = errors.Join(d.err, fmt.Errorf("output %d of %d", number, len(outputs)))
	}
	if number == 0 || d.err != nil {
		return ""
	}
	return outputs[number-1]
}

func (d *decoder) changes() *Changes {
	changes := &Changes{mask: d.byte()}
	if unknown := changes.mask &^ knownMask; unknown != 0 {
		d.err = errors.Join(d.err, fmt.Errorf("unknown bits %#x of a patch", unknown))
	}
	if changes.mask&maskKey != 0 {
		changes.key = d.field()
	}
	if changes.mask&maskValue != 0 {
		changes.value = d.field()
	}
	if changes.mask&maskHeaders != 0 {
		changes.headers = d.pairs()
	}
	if changes.mask&maskAttributes != 0 {
		changes.attributes = d.pairs()
	}
	if changes.mask&maskTime != 0 {
		changes.time = int64(d.u64())
	}
	return changes
}

func (d *decoder) field() []byte {
	length := d.u32()
	if length == null {
		return nil
	}
	return d.take(int(length))
}

func (d *decoder) pairs() []pairChange {
	var changes []pairChange
	for range d.u16() {
		change := pairChange{operation: d.byte()}
		name, value := int(d.u16()), d.u32()
		change.name = d.text(name)
		if change.isNull = value == null; !change.isNull {
			change.value = string(d.take(int(value)))
		}
		if d.err == nil && change.operation > pairRemove {
			d.err = fmt.Errorf("unknown operation %d on %q", change.operation, change.name)
		}
		if d.err != nil {
			return nil
		}
		changes = append(changes, change)
	}
	return changes
}

// applied says what an outcome makes of a record.
func (o Outcome) applied(to TestRecord) Answer {
	answer := Answer{Kind: kinds[o.action], changes: o.changes}
	switch o.action {
	case actionPass, actionReplace:
		answer.Record = o.changes.applied(to)
	case actionRoute:
		answer.Record, answer.Output = o.changes.applied(to), o.text
	case actionSplit:
		for _, piece := range o.pieces {
			answer.Pieces = append(answer.Pieces, AnsweredPiece{piece.Output, piece.Changes.applied(to), piece.Changes})
		}
	case actionRetry:
		answer.After, answer.Reason = o.after, o.text
	case actionDeadLetter:
		answer.Reason = o.text
	}
	return answer
}

// check finds records that have more headers or attributes than can be counted, which the host makes dead letters.
func (a Answer) check() error {
	made := []TestRecord{a.Record}
	for _, piece := range a.Pieces {
		made = append(made, piece.Record)
	}
	for _, record := range made {
		for _, pairs := range []struct {
			what  string
			count int
		}{{"headers", len(record.Headers)}, {"attributes", len(record.Attributes)}} {
			if pairs.count > maxPairs {
				return fmt.Errorf("with %d %s exceeds the limit of %d", pairs.count, pairs.what, maxPairs)
			}
		}
	}
	return nil
}
