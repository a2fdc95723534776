//go:build !wasip1

package tidegate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// Most bytes that a case may make by repeating.
const mostRepeated = 256 << 20

// caseBytes are bytes in a case: a text, null, {"base64": ...}, {"repeat": ..., "times": ...} or {"json": ...}.
type caseBytes struct{ bytes []byte }

func (b *caseBytes) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		b.bytes = nil
		return nil
	}
	if text[0] == '"' {
		var said string
		err := json.Unmarshal(text, &said)
		b.bytes = append([]byte{}, said...)
		return err
	}
	var said struct {
		Base64 *string         `json:"base64"`
		Repeat *string         `json:"repeat"`
		Times  int             `json:"times"`
		JSON   json.RawMessage `json:"json"`
	}
	var err error
	switch {
	case strictly(text, &said) != nil:
		err = notBytes(text)
	case said.Base64 != nil:
		b.bytes, err = base64.StdEncoding.DecodeString(*said.Base64)
	case said.JSON != nil:
		var compact bytes.Buffer
		err = json.Compact(&compact, said.JSON)
		b.bytes = compact.Bytes()
	case said.Repeat != nil && said.Times >= 0 && said.Times*len(*said.Repeat) <= mostRepeated:
		b.bytes = append([]byte{}, strings.Repeat(*said.Repeat, said.Times)...)
	default:
		err = notBytes(text)
	}
	return err
}

func notBytes(text []byte) error {
	return fmt.Errorf("%s is no bytes: expected a text, null, base64, repeat with times, or json", text)
}

// casePairs are headers or attributes: a list of pairs, an object, or one pair that is repeated.
type casePairs []Pair

func (p *casePairs) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		var list [][2]json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		for _, one := range list {
			if err := p.add(one); err != nil {
				return err
			}
		}
		return nil
	}
	var repeated struct {
		Repeat *[2]json.RawMessage `json:"repeat"`
		Times  int                 `json:"times"`
	}
	if strictly(text, &repeated) == nil && repeated.Repeat != nil {
		for range min(max(repeated.Times, 0), maxPairs+1) {
			if err := p.add(*repeated.Repeat); err != nil {
				return err
			}
		}
		return nil
	}
	return p.object(text)
}

// object takes the members of an object in their order.
func (p *casePairs) object(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var value caseBytes
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		*p = append(*p, Pair{fmt.Sprint(name), value.bytes})
	}
	return nil
}

func (p *casePairs) add(said [2]json.RawMessage) error {
	var name string
	var value caseBytes
	if err := json.Unmarshal(said[0], &name); err != nil {
		return err
	}
	if err := value.UnmarshalJSON(orNull(said[1])); err != nil {
		return err
	}
	*p = append(*p, Pair{name, value.bytes})
	return nil
}

func orNull(text json.RawMessage) []byte {
	if len(text) == 0 {
		return []byte("null")
	}
	return text
}

// caseText is a text that is expected: exactly this, or one that contains these.
type caseText struct {
	exact    string
	contains []string
}

func (e *caseText) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &e.exact)
	}
	var said struct {
		Contains *[]string `json:"contains"`
	}
	err := strictly(text, &said)
	if err == nil && said.Contains == nil {
		err = fmt.Errorf("%s is no text: expected one, or contains with a list of them", text)
	}
	if err == nil {
		e.contains = append([]string{}, *said.Contains...)
	}
	return err
}

func (e *caseText) compare(what, came string) error {
	if e.contains == nil && e.exact != came {
		return fmt.Errorf("%s: expected %q, came %q", what, e.exact, came)
	}
	for _, part := range e.contains {
		if !strings.Contains(came, part) {
			return fmt.Errorf("%s: expected one that contains %q, came %q", what, part, came)
		}
	}
	return nil
}

type caseFailure struct {
	Class   string    `json:"class"`
	Code    string    `json:"code"`
	Message *caseText `json:"message"`
}

func (e *caseFailure) compare(err error) error {
	failure := asFailure(err)
	switch {
	case failure == nil:
		return fmt.Errorf("expected a failure of the operator, came: %w", err)
	case e.Class != "" && e.Class != failure.Class.String():
		return fmt.Errorf("class: expected %s, came %s (%w)", e.Class, failure.Class, err)
	case e.Code != "" && e.Code != failure.Code:
		return fmt.Errorf("code: expected %s, came %s (%w)", e.Code, failure.Code, err)
	case e.Message != nil:
		return e.Message.compare("message", failure.Message)
	}
	return nil
}
