//go:build !wasip1

package tidegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// caseOutcome is an outcome that is expected.
type caseOutcome struct {
	kind string
	// Of a replace or a route, and of each piece.
	changes *Changes
	output  string
	pieces  []Piece
	after   time.Duration
	reason  *caseText
}

func (o *caseOutcome) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		if err := json.Unmarshal(text, &o.kind); err != nil {
			return err
		}
		if o.kind != "pass" && o.kind != "drop" {
			return fmt.Errorf("unknown outcome %q", o.kind)
		}
		return nil
	}
	var said map[string]json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	if len(said) != 1 {
		return fmt.Errorf("%s is no outcome: expected one member", text)
	}
	for kind, payload := range said {
		o.kind = kind
		return o.payload(payload)
	}
	return nil
}

func (o *caseOutcome) payload(text []byte) (err error) {
	switch o.kind {
	case "replace", "route":
		var piece casePiece
		err = json.Unmarshal(text, &piece)
		o.output, o.changes = piece.Output, piece.Changes
	case "split":
		o.pieces, err = casePieces(text)
	case "retry":
		var said struct {
			After  int64     `json:"after-ms"`
			Reason *caseText `json:"reason"`
		}
		err = strictly(text, &said)
		o.after, o.reason = time.Duration(said.After)*time.Millisecond, said.Reason
	case "dead-letter", "raised":
		o.reason = new(caseText)
		err = o.reason.UnmarshalJSON(text)
	default:
		err = fmt.Errorf("unknown outcome %q, or one that only a sandbox can run", o.kind)
		if o.kind == "poison" {
			err = nil
		}
	}
	return err
}

// casePieces are the pieces of a split: a list, or one that is repeated.
func casePieces(text []byte) ([]Piece, error) {
	var repeated struct {
		Repeat *casePiece `json:"repeat"`
		Times  int        `json:"times"`
	}
	var list []casePiece
	if text[0] == '{' {
		if err := strictly(text, &repeated); err != nil || repeated.Repeat == nil {
			return nil, errors.Join(err, fmt.Errorf("%s are no pieces: expected a list, or repeat with times", text))
		}
		list = slices.Repeat([]casePiece{*repeated.Repeat}, min(max(repeated.Times, 0), MaxPieces+1))
	} else if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	pieces := make([]Piece, len(list))
	for index, piece := range list {
		pieces[index] = Piece(piece)
	}
	return pieces, nil
}

// casePiece is a patch with the output that it goes to.
type casePiece Piece

func (p *casePiece) UnmarshalJSON(text []byte) error {
	var said map[string]json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	p.Changes = Change()
	for name, member := range said {
		var err error
		var bytes caseBytes
		switch name {
		case "to":
			err = json.Unmarshal(member, &p.Output)
		case "key":
			err = bytes.UnmarshalJSON(member)
			p.Changes.SetKey(bytes.bytes)
		case "value":
			err = bytes.UnmarshalJSON(member)
			p.Changes.SetValue(bytes.bytes)
		case "headers":
			p.Changes.mask |= maskHeaders
			p.Changes.headers, err = pairChanges(member)
		case "attributes":
			p.Changes.mask |= maskAttributes
			p.Changes.attributes, err = pairChanges(member)
		case "event-time":
			var at *int64
			err = json.Unmarshal(member, &at)
			p.Changes.NoEventTime()
			if at != nil {
				p.Changes.time = *at
			}
		default:
			err = fmt.Errorf("unknown member %q of a patch", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func pairChanges(text []byte) ([]pairChange, error) {
	var said [][]json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	var changes []pairChange
	for _, one := range said {
		var operation string
		change := pairChange{isNull: true}
		var value caseBytes
		if len(one) < 2 || len(one) > 3 || json.Unmarshal(one[0], &operation) != nil || json.Unmarshal(one[1], &change.name) != nil {
			return nil, fmt.Errorf("%s: a change is an operation, a name, and a value", text)
		}
		change.operation = byte(slices.Index([]string{"set", "add", "remove"}, operation))
		if change.operation > pairRemove || (change.operation == pairRemove) != (len(one) == 2) {
			return nil, fmt.Errorf("%s: a change is set or add with a value, or remove without", text)
		}
		if len(one) == 3 {
			if err := value.UnmarshalJSON(one[2]); err != nil {
				return nil, err
			}
			change.isNull, change.value = value.bytes == nil, string(value.bytes)
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func compareOutcomes(expected []caseOutcome, came []Answer) error {
	if len(expected) != len(came) {
		return fmt.Errorf("it expects %d outcomes, there are %d records", len(expected), len(came))
	}
	var wrong []error
	for index, one := range expected {
		if err := one.compare(came[index]); err != nil {
			wrong = append(wrong, fmt.Errorf("record %d: %w", index, err))
		}
	}
	return errors.Join(wrong...)
}

func (o caseOutcome) compare(came Answer) error {
	kind := o.kind
	if kind == "raised" {
		kind = "dead-letter"
	}
	if kind == "replace" && o.changes.IsEmpty() {
		kind = "pass"
	}
	if kind != came.Kind {
		return fmt.Errorf("expected %s, came %s", o.kind, came)
	}
	switch kind {
	case "replace", "route":
		if o.output != came.Output {
			return fmt.Errorf("expected the output %q, came %q", o.output, came.Output)
		}
		return compareChanges(o.changes, came.changes)
	case "split":
		if len(o.pieces) != len(came.Pieces) {
			return fmt.Errorf("expected %d pieces, came %d", len(o.pieces), len(came.Pieces))
		}
		for index, piece := range o.pieces {
			if piece.Output != came.Pieces[index].Output {
				return fmt.Errorf("piece %d: expected the output %q, came %q", index, piece.Output, came.Pieces[index].Output)
			}
			if err := compareChanges(piece.Changes, came.Pieces[index].changes); err != nil {
				return fmt.Errorf("piece %d: %w", index, err)
			}
		}
	case "retry":
		if o.after != came.After {
			return fmt.Errorf("expected a retry after %s, came %s", o.after, came.After)
		}
	}
	if o.reason != nil {
		return o.reason.compare("reason", came.Reason)
	}
	return nil
}

func compareChanges(expected, came *Changes) error {
	return errors.Join(
		compareField("key", expected.mask&maskKey != 0, expected.key, came.mask&maskKey != 0, came.key),
		compareField("value", expected.mask&maskValue != 0, expected.value, came.mask&maskValue != 0, came.value),
		comparePairs("headers", expected.headers, came.headers),
		comparePairs("attributes", expected.attributes, came.attributes),
		compareTime(expected, came),
	)
}

func compareField(what string, isExpected bool, expected []byte, is bool, came []byte) error {
	if isExpected == is && (expected == nil) == (came == nil) && string(expected) == string(came) {
		return nil
	}
	return fmt.Errorf("%s: expected %s, came %s", what, shownField(isExpected, expected), shownField(is, came))
}

// Bytes of a field that a difference shows.
const shownBytesOfField = 256

func shownField(is bool, field []byte) string {
	switch {
	case !is:
		return "no change"
	case field == nil:
		return "null"
	case len(field) > shownBytesOfField:
		return fmt.Sprintf("%s... (%d bytes)", shownField(true, field[:shownBytesOfField]), len(field))
	case utf8.Valid(field):
		return strconv.Quote(string(field))
	}
	return fmt.Sprintf("bytes %x", field)
}

func comparePairs(what string, expected, came []pairChange) error {
	if slices.Equal(expected, came) {
		return nil
	}
	return fmt.Errorf("%s: expected %s, came %s", what, shownPairs(expected), shownPairs(came))
}

func shownPairs(changes []pairChange) []string {
	shown := make([]string, len(changes))
	for index, change := range changes {
		operation := [...]string{"set", "add", "remove"}[change.operation]
		value := shownField(true, []byte(change.value))
		if change.isNull {
			value = "null"
		}
		shown[index] = fmt.Sprintf("%s %q %s", operation, change.name, value)
	}
	return shown
}

func compareTime(expected, came *Changes) error {
	if expected.mask&maskTime == came.mask&maskTime && expected.time == came.time {
		return nil
	}
	shown := func(changes *Changes) string {
		switch {
		case changes.mask&maskTime == 0:
			return "no change"
		case changes.time == noTime:
			return "none"
		}
		return strconv.FormatInt(changes.time, 10)
	}
	return fmt.Errorf("event-time: expected %s, came %s", shown(expected), shown(came))
}

// caseLine is a line of the log that is expected: its level and its text.
type caseLine struct {
	level string
	text  caseText
}

func (l *caseLine) UnmarshalJSON(text []byte) error {
	var said [2]json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	if err := json.Unmarshal(said[0], &l.level); err != nil {
		return err
	}
	return l.text.UnmarshalJSON(orNull(said[1]))
}

func compareLog(expected *[]caseLine, came []LogLine) error {
	if expected == nil {
		return nil
	}
	if len(*expected) != len(came) {
		return fmt.Errorf("log: expected %d lines, came %v", len(*expected), came)
	}
	for index, line := range *expected {
		if line.level != came[index].Level.String() {
			return fmt.Errorf("log: line %d: expected the level %s, came %s", index, line.level, came[index].Level)
		}
		if err := line.text.compare(fmt.Sprintf("log: line %d", index), came[index].Text); err != nil {
			return err
		}
	}
	return nil
}

// caseMetric is what a metric is expected to be after the case.
type caseMetric struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Value  caseValue         `json:"value"`
}

// caseValue is a number, or what a histogram has.
type caseValue struct {
	Count *uint64 `json:"count,omitempty"`
	Sum   float64 `json:"sum"`
}

func (v *caseValue) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, &v.Sum)
	}
	type plain caseValue
	return strictly(text, (*plain)(v))
}

func (v caseValue) String() string {
	if v.Count != nil {
		return fmt.Sprintf("%d of the sum %v", *v.Count, v.Sum)
	}
	return fmt.Sprint(v.Sum)
}

func compareMetrics(expected *[]caseMetric, came []measurement) error {
	if expected == nil {
		return nil
	}
	var wanted, found []string
	for _, one := range *expected {
		wanted = append(wanted, fmt.Sprintf("%s%v = %s", one.Name, one.Labels, one.Value))
	}
	values := make(map[string]caseValue)
	for _, sample := range came {
		labels := make(map[string]string)
		for index, label := range sample.metric.labels {
			labels[label] = sample.labels[index]
		}
		place := fmt.Sprintf("%s%v", sample.metric.name, labels)
		value := values[place]
		switch sample.metric.kind {
		case kindCounter:
			value.Sum += float64(sample.bits)
		case kindGauge:
			value.Sum = math.Float64frombits(sample.bits)
		case kindHistogram:
			count := uint64(1)
			if value.Count != nil {
				count += *value.Count
			}
			value.Count, value.Sum = &count, value.Sum+math.Float64frombits(sample.bits)
		}
		values[place] = value
	}
	for place, value := range values {
		found = append(found, fmt.Sprintf("%s = %s", place, value))
	}
	slices.Sort(wanted)
	slices.Sort(found)
	if !slices.Equal(wanted, found) {
		return fmt.Errorf("metrics: expected %v, came %v", wanted, found)
	}
	return nil
}
