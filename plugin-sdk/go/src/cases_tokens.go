//go:build !wasip1

package tidegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// caseTokens is a text that a model makes, in pieces, and what is to go on of it.
type caseTokens struct {
	Lane       caseLane     `json:"lane"`
	Model      string       `json:"model"`
	Choice     uint32       `json:"choice"`
	Record     string       `json:"record"`
	Attributes casePairs    `json:"attributes"`
	Pieces     []string     `json:"pieces"`
	Through    *caseThrough `json:"through"`
	End        string       `json:"end"`
}

// caseLane is content, reasoning or {"arguments": 0}.
type caseLane struct {
	kind LaneKind
	call uint32
}

func (l *caseLane) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"content"`:
		l.kind = LaneContent
		return nil
	case `"reasoning"`:
		l.kind = LaneReasoning
		return nil
	}
	var said struct {
		Arguments *uint32 `json:"arguments"`
	}
	if strictly(text, &said) != nil || said.Arguments == nil {
		return fmt.Errorf("%s is no lane: expected content, reasoning or {\"arguments\": 0}", text)
	}
	l.kind, l.call = LaneArguments, *said.Arguments
	return nil
}

// caseThrough is what goes on in sum, or of each piece.
type caseThrough struct {
	texts  []string
	isEach bool
}

func (t *caseThrough) UnmarshalJSON(text []byte) error {
	t.isEach = text[0] == '['
	if t.isEach {
		return json.Unmarshal(text, &t.texts)
	}
	t.texts = make([]string, 1)
	return json.Unmarshal(text, &t.texts[0])
}

// run says how what came differs from what the case expects.
func (t *caseTokens) run(harness *Harness, one caseOf) error {
	each, end, err := t.given(harness, t.Pieces)
	lines := slices.Clone(harness.lines)
	switch {
	case one.Failure != nil && err == nil:
		return errors.New("the text was to fail, it was handled")
	case one.Failure != nil:
		return one.Failure.compare(err)
	case err != nil:
		return fmt.Errorf("it fails: %w", err)
	case t.Through == nil:
		return errors.New("it expects neither what goes through nor a failure")
	}
	sum := strings.Join(each, "")
	came := []string{sum}
	if t.Through.isEach {
		came = each
	}
	var wrong []error
	if !slices.Equal(t.Through.texts, came) {
		wrong = append(wrong, fmt.Errorf("through: expected %q, came %q", t.Through.texts, came))
	}
	if shown := shownEnd(end); shown != t.End {
		wrong = append(wrong, fmt.Errorf("end: expected %q, came %q", t.End, shown))
	}
	whole := strings.Join(t.Pieces, "")
	wrong = append(wrong, t.again(harness, "in one piece", []string{whole}, sum, end))
	characters := strings.Split(whole, "")
	if len(characters) == 0 {
		characters = []string{""}
	}
	wrong = append(wrong, t.again(harness, "character by character", characters, sum, end))
	// As every lane of a pipeline ends: it is known late that nothing more comes.
	wrong = append(wrong, t.again(harness, "with its end apart", []string{whole, ""}, sum, end), compareLog(one.Log, lines))
	return errors.Join(wrong...)
}

// again says how the same text in other pieces differs.
func (t *caseTokens) again(harness *Harness, cut string, pieces []string, sum string, end Ending) error {
	each, ended, err := t.given(harness, pieces)
	if err != nil {
		return fmt.Errorf("the same text %s: it fails: %w", cut, err)
	}
	if other := strings.Join(each, ""); other != sum || ended != end {
		return fmt.Errorf("the same text %s: expected %q and the end %q, came %q and %q", cut, sum, shownEnd(end), other, shownEnd(ended))
	}
	return nil
}

func (t *caseTokens) given(harness *Harness, pieces []string) ([]string, Ending, error) {
	lane, err := harness.Open(TestLane{
		Identity:   t.Record,
		Model:      t.Model,
		Choice:     t.Choice,
		Kind:       t.Lane.kind,
		Call:       t.Lane.call,
		Attributes: t.Attributes,
	})
	if err != nil {
		return nil, NoEnd, err
	}
	return lane.each(pieces)
}

// shownEnd is how an answer ended as a case has it.
func shownEnd(end Ending) string {
	if end == NoEnd {
		return ""
	}
	return end.String()
}
