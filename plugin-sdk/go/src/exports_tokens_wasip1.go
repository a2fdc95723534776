//go:build tidegate_tokens

package tidegate

import (
	"errors"
	"strings"
	"unsafe"
)

// The interface `tidegate:operator/tokens@1.0.0`. The component exports it because `tidegate build` set the tag:
// operator.toml has the handler.

func checkHandlers(handlesTokens bool) error {
	if handlesTokens {
		return nil
	}
	return errors.New(`operator.toml has handlers = ["tokens"], and it has no Tokens`)
}

type abiAttribute struct{ name, value abiText }

type abiPiece struct {
	lane uint64
	text abiText
	last bool
}

type abiVerdict struct {
	text   abiText
	hasEnd bool
	end    uint8
}

//go:wasmexport tidegate:operator/tokens@1.0.0#open
func exportOpen(number uint64, identity unsafe.Pointer, identityLength uint32, model unsafe.Pointer, modelLength uint32,
	choice, kind, call uint32, attributes unsafe.Pointer, attributeCount uint32) unsafe.Pointer {
	opened := Lane{
		Identity: taken(identity, identityLength),
		Model:    taken(model, modelLength),
		Choice:   choice,
		Kind:     LaneKind(kind),
		Call:     call,
	}
	for _, one := range unsafe.Slice((*abiAttribute)(attributes), attributeCount) {
		value := []byte(one.value.taken())
		opened.attributes = append(opened.attributes, attribute{one.name.taken(), value})
	}
	if instance == nil {
		return answerFailure(Permanent("not-started", "`open` was called before `init`"))
	}
	if failure := instance.openLane(number, opened); failure != nil {
		return answerFailure(failure)
	}
	return answerOf(abiText{})
}

//go:wasmexport tidegate:operator/tokens@1.0.0#step
func exportStep(pieces unsafe.Pointer, count uint32) unsafe.Pointer {
	held, passed.used = held[:0], 0
	if instance == nil {
		return answerFailure(Permanent("not-started", "`step` was called before `init`"))
	}
	verdicts := make([]abiVerdict, count)
	for index, piece := range unsafe.Slice((*abiPiece)(pieces), count) {
		through, failure := instance.stepLane(piece.lane, piece.text.taken(), piece.last)
		if failure != nil {
			return answerFailure(failure)
		}
		verdicts[index] = abiVerdict{text: abiString(through.Text)}
		if through.End != NoEnd {
			verdicts[index].hasEnd, verdicts[index].end = true, uint8(through.End-EndStop)
		}
	}
	return answerOf(abiList(verdicts))
}

//go:wasmexport tidegate:operator/tokens@1.0.0#close
func exportClose(number uint64) {
	if instance != nil {
		instance.closeLane(number)
	}
}

// taken copies a text that the host has passed.
func (t abiText) taken() string {
	return strings.Clone(unsafe.String((*byte)(unsafe.Pointer(uintptr(t.at))), t.length))
}
