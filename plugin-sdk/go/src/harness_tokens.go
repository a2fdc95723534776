//go:build !wasip1

package tidegate

import (
	"cmp"
	"slices"
	"strings"
)

// checkHandlers is for components: in tests there is no operator.toml.
func checkHandlers(bool) error { return nil }

// TestLane is a lane that a test opens. What is left out is that of the content of the first choice.
type TestLane struct {
	Identity, Model string
	Choice          uint32
	Kind            LaneKind
	Call            uint32
	Attributes      []Pair
}

// OpenedLane is a lane under test.
type OpenedLane struct {
	harness *Harness
	number  uint64
}

// Open opens a lane of an answer. The operator is told what it reads, as by the host. The error, which is a [Failure], is
// what it refuses the lane with.
func (h *Harness) Open(given TestLane) (*OpenedLane, error) {
	defer h.listen()()
	opened := Lane{
		Identity: cmp.Or(given.Identity, "source 0 partition 0 offset 0"),
		Model:    cmp.Or(given.Model, "model"),
		Choice:   given.Choice,
		Kind:     given.Kind,
		Call:     given.Call,
	}
	if h.program.reads&Attributes != 0 {
		for _, pair := range given.Attributes {
			opened.attributes = append(opened.attributes, attribute{pair.Name, slices.Clone(pair.Value)})
		}
	}
	h.opened++
	if failure := h.running.openLane(h.opened, opened); failure != nil {
		return nil, failure
	}
	return &OpenedLane{h, h.opened}, nil
}

// Step gives the next text of the lane. The error, which is a [Failure], ends it, and with it the answer.
func (l *OpenedLane) Step(text string, last bool) (Through, error) {
	defer l.harness.listen()()
	through, failure := l.harness.running.stepLane(l.number, text, last)
	if failure != nil {
		return Through{}, failure
	}
	return through, nil
}

// Run gives all of the text in these pieces, as far as the answer goes: what went on in sum, and how the answer ended.
func (l *OpenedLane) Run(pieces ...string) (Through, error) {
	each, end, err := l.each(pieces)
	return Through{strings.Join(each, ""), end}, err
}

// each gives what went on of each piece.
func (l *OpenedLane) each(pieces []string) (each []string, end Ending, err error) {
	defer l.harness.running.closeLane(l.number)
	for index, piece := range pieces {
		through, err := l.Step(piece, index == len(pieces)-1)
		if err != nil {
			return each, NoEnd, err
		}
		each = append(each, through.Text)
		if through.End != NoEnd {
			return each, through.End, nil
		}
	}
	return each, NoEnd, nil
}
