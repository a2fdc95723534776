//go:build !wasip1

package tidegate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

func compareOutcomes(expected []caseOutcome, came []Answer) error {
	if len(expected) != len(came) {
		return fmt.Errorf("it expects %d outcomes, there are %d records", len(expected), len(came))
	}
	var wrong []error
	for index, one := range expected {
		if err := one.compare(came[index]); err != nil {
			wrong = append(wrong, fmt.Errorf("record %d: %w", index+1, err))
		}
	}
	return errors.Join(wrong...)
}

func (o caseOutcome) compare(came Answer) error {
	kind := simplest(o.kind, o.changes, len(o.pieces))
	if kind == "raised" {
		kind = "dead-letter"
	}
	if kind != simplest(came.Kind, came.changes, len(came.Pieces)) {
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
				return fmt.Errorf("piece %d: expected the output %q, came %q", index+1, piece.Output, came.Pieces[index].Output)
			}
			if err := compareChanges(piece.Changes, came.Pieces[index].changes); err != nil {
				return fmt.Errorf("piece %d: %w", index+1, err)
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

// simplest is the outcome that means the same, as for the host: a replace without changes passes, a split into nothing
// drops.
func simplest(kind string, changes *Changes, pieces int) string {
	switch {
	case kind == "replace" && changes.IsEmpty():
		return "pass"
	case kind == "split" && pieces == 0:
		return "drop"
	}
	return kind
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
