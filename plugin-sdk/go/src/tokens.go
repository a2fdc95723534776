package tidegate

import (
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"
)

// LaneKind says which text of an answer a lane is.
type LaneKind uint8

// The kinds of lanes.
const (
	// LaneContent is what is said.
	LaneContent LaneKind = iota
	// LaneReasoning is what is thought before.
	LaneReasoning
	// LaneArguments are those of a call: JSON text, which may be cut anywhere. What is put into a string there has to be
	// escaped as JSON is.
	LaneArguments
)

func (k LaneKind) String() string {
	if names := [...]string{"content", "reasoning", "arguments"}; int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("LaneKind(%d)", uint8(k))
}

// Lane is one text of an answer, as a model makes it.
type Lane struct {
	// Identity is that of the record that the answer is for, as it stands in logs.
	Identity string
	// Model is its name in the pipeline.
	Model string
	// Choice says which of the answers that were asked for it is, counted from 0.
	Choice uint32
	Kind   LaneKind
	// Call is the index of the call that the arguments are of, counted from 0; 0 for other kinds.
	Call       uint32
	attributes []attribute
}

type attribute struct {
	name  string
	value []byte
}

// Attribute gives the value of the record's last private attribute of this name; nil if there is none, or if the operator
// does not read attributes.
func (l Lane) Attribute(name string) []byte {
	for _, attribute := range slices.Backward(l.attributes) {
		if attribute.name == name {
			return attribute.value
		}
	}
	return nil
}

// AttributeText gives the same as text, and whether there is one that is UTF-8.
func (l Lane) AttributeText(name string) (string, bool) { return text(l.Attribute(name)) }

// Attributes gives all private attributes of the record in order; a name may repeat.
func (l Lane) Attributes() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, attribute := range l.attributes {
			if !yield(attribute.name, attribute.value) {
				return
			}
		}
	}
}

// Ending says how an answer ends.
type Ending uint8

// How an answer ends.
const (
	// NoEnd: it goes on.
	NoEnd Ending = iota
	// EndStop: at a word, as by a stop string.
	EndStop
	// EndFiltered: because it may not be said.
	EndFiltered
)

func (e Ending) String() string {
	if names := [...]string{"none", "stop", "filtered"}; int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("Ending(%d)", uint8(e))
}

// Through is what goes on of a lane.
type Through struct {
	// Text goes on: of this piece, and of what was held back before.
	Text string
	// End says whether the answer ends behind it.
	End Ending
}

// OpenLane begins a lane: it gives the function that gets its text. An error refuses the lane, and with it the answer.
type OpenLane func(lane Lane) (Step, error)

// Step gets the next text of a lane and says what of it goes on. With last nothing comes after it: what is held back goes
// on now, or never. What goes on depends on the text and on the lane alone, however the text is cut into pieces: there is
// no clock and no chance. An error, and a panic, ends the lane, and with it the answer.
type Step func(text string, last bool) (Through, error)

// lane is one that is open.
type lane struct {
	step Step
	// The first bytes of a character that the operator has cut: they wait for the others.
	half string
}

// openLane begins a lane under this number.
func (r *running) openLane(number uint64, opened Lane) (failure *Failure) {
	defer failPanic(&failure)
	if r.open == nil {
		return Permanent("no-handler", "the operator handles no tokens")
	}
	step, err := r.open(opened)
	if err == nil && step == nil {
		err = Permanent("no-step", "Tokens gave neither a function for text nor an error")
	}
	if err != nil {
		return stepFailure(err)
	}
	r.lanes[number] = &lane{step: step}
	return nil
}

// stepLane gives the next text of a lane.
func (r *running) stepLane(number uint64, text string, last bool) (through Through, failure *Failure) {
	defer failPanic(&failure)
	lane := r.lanes[number]
	if lane == nil {
		return Through{}, Permanent("unknown-lane", fmt.Sprintf("lane %d is not open", number))
	}
	through, err := lane.step(text, last)
	if err != nil {
		return Through{}, stepFailure(err)
	}
	through.Text, lane.half = whole(lane.half+through.Text, last || through.End != NoEnd)
	return through, nil
}

func (r *running) closeLane(number uint64) { delete(r.lanes, number) }

// whole gives the text that the host can take, which is UTF-8, and the first bytes of a last character that is not whole
// yet.
func whole(text string, isLast bool) (through, half string) {
	end := len(text)
	for at := end - 1; !isLast && at >= 0 && at > end-utf8.UTFMax; at-- {
		if utf8.RuneStart(text[at]) {
			if !utf8.FullRuneInString(text[at:]) {
				end = at
			}
			break
		}
	}
	return valid(text[:end]), text[end:]
}

// stepFailure takes an error as the failure that it is or wraps, else as one for good.
func stepFailure(err error) *Failure {
	if failure := asFailure(err); failure != nil {
		return failure
	}
	return Permanent("error", err.Error())
}
