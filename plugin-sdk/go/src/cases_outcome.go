//go:build !wasip1

package tidegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
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
			if p.Changes.headers, err = pairChanges(member); p.Changes.headers != nil {
				p.Changes.mask |= maskHeaders
			}
		case "attributes":
			if p.Changes.attributes, err = pairChanges(member); p.Changes.attributes != nil {
				p.Changes.mask |= maskAttributes
			}
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
