//go:build !wasip1

package tidegate

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// Harness runs an operator natively, in `go test`, through the same encoding as in WebAssembly: records are packed into
// a batch with the fields that the operator reads, and no others, as the host does, and its answer is taken apart and
// applied as the host does. What an operator forgets to declare is missing here too.
type Harness struct {
	test     testing.TB
	program  *program
	running  *running
	clock    time.Time
	seed     [16]byte
	lines    []LogLine
	measured []measurement
	// Lanes that were opened.
	opened uint64
}

// NewHarness starts the operator with a configuration, JSON text; "" is an empty one. It fails the test if the operator
// does not start.
func NewHarness[Config any](t testing.TB, operator Operator[Config], config string) *Harness {
	t.Helper()
	harness, err := StartHarness(operator, config)
	if err != nil {
		t.Fatalf("operator %s does not start: %s", operator.Name, err)
	}
	harness.test = t
	return harness
}

// StartHarness starts the operator; the error, which is a [Failure], is what the user would see.
func StartHarness[Config any](operator Operator[Config], config string) (*Harness, error) {
	harness := &Harness{
		program: operator.program(),
		clock:   time.Unix(1_700_000_000, 0).UTC(),
		seed:    [16]byte([]byte("a seed for tests")),
	}
	defer harness.listen()()
	running, failure := harness.program.startWith(config)
	if failure != nil {
		return nil, failure
	}
	harness.running = running
	return harness, nil
}

// SetClock sets the clock that the next batches carry.
func (h *Harness) SetClock(clock time.Time) { h.clock = clock }

// SetSeed sets what the records of the next batches draw random numbers from.
func (h *Harness) SetSeed(seed [16]byte) { h.seed = seed }

// Outputs are the names of the outputs that the operator has under its configuration.
func (h *Harness) Outputs() []string { return h.running.outputs }

// Run runs one batch and says what became of each record. It fails the test if the operator fails the batch, or answers
// with something that the host would refuse.
func (h *Harness) Run(records ...TestRecord) []Answer {
	answers, err := h.Try(records...)
	if err != nil {
		if h.test == nil {
			panic(err)
		}
		h.test.Helper()
		h.test.Fatalf("the operator failed the batch: %s", err)
	}
	return answers
}

// RunOne runs a batch of one record.
func (h *Harness) RunOne(record TestRecord) Answer {
	if h.test != nil {
		h.test.Helper()
	}
	return h.Run(record)[0]
}

// Try runs one batch; an error that is a [Failure] is what the operator failed it with. A record without an ID gets that
// of its index as offset.
func (h *Harness) Try(records ...TestRecord) ([]Answer, error) {
	records = slices.Clone(records)
	for index := range records {
		if records[index].ID == (ID{}) {
			records[index].ID.Offset = uint64(index)
		}
	}
	return h.try(records)
}

func (h *Harness) try(records []TestRecord) ([]Answer, error) {
	batch, err := EncodeBatch(records, h.program.reads, h.clock, h.seed)
	if err != nil {
		return nil, err
	}
	answer, err := h.Process(batch)
	if err != nil {
		return nil, err
	}
	return h.Decode(answer, records)
}

// Process gives the operator a packed batch, as the host does, and gives its packed answer. Afterwards the memory of the
// batch has something else in it, as it has for the host's next call.
func (h *Harness) Process(batch []byte) ([]byte, error) {
	defer h.listen()()
	lent := slices.Clone(batch)
	answer, failure := h.running.answerTo(lent)
	if failure != nil {
		return nil, failure
	}
	if !bytes.Equal(lent, batch) {
		return nil, errors.New("the operator has changed bytes of a record, which it is only lent")
	}
	answer = slices.Clone(answer)
	for at := range lent {
		lent[at] = overwritten
	}
	return answer, nil
}

// overwritten is what is in the memory of a batch that is done with.
const overwritten = '#'

// Decode takes a packed answer for these records, and counts what was measured. The error says what the host would
// refuse.
func (h *Harness) Decode(answer []byte, records []TestRecord) ([]Answer, error) {
	decoded, err := decodeAnswer(answer, len(records), h.running.outputs, h.program.metrics)
	if err != nil {
		return nil, fmt.Errorf("the host would refuse the answer: %w", err)
	}
	answers := make([]Answer, len(records))
	for index, outcome := range decoded.outcomes {
		answers[index] = outcome.applied(records[index])
		if err := answers[index].check(); err != nil {
			return nil, fmt.Errorf("the host would refuse the answer: record %d %w", index+1, err)
		}
	}
	for _, sample := range decoded.samples {
		// What belongs to a record that comes again does not count.
		if answers[sample.record].Kind != "retry" {
			h.measured = append(h.measured, sample)
		}
	}
	return answers, nil
}

// Logged are the lines that were logged since the operator was started.
func (h *Harness) Logged() []LogLine { return h.lines }

// Counted is the sum of a counter since the operator was started, under these values of its labels.
func (h *Harness) Counted(counter *Counter, labels ...string) uint64 {
	var sum uint64
	for _, sample := range h.measured {
		if sample.is(&counter.declared, labels) {
			sum += sample.bits
		}
	}
	return sum
}

// Values are what a gauge or a histogram was given since the operator was started, under these values of its labels.
func (h *Harness) Values(metric Metric, labels ...string) []float64 {
	var values []float64
	for _, sample := range h.measured {
		if sample.is(metric.metric(), labels) {
			values = append(values, math.Float64frombits(sample.bits))
		}
	}
	return values
}

// listen takes what is logged until the function that it gives is called; harnesses take turns.
func (h *Harness) listen() (end func()) {
	turn.Lock()
	h.hear(&h.lines)
	return func() {
		h.hear(nil)
		turn.Unlock()
	}
}

func (h *Harness) hear(lines *[]LogLine) {
	logged.Lock()
	defer logged.Unlock()
	logged.lines = lines
}

// measurement is a sample that was taken.
type measurement struct {
	record int
	metric *metric
	bits   uint64
	labels []string
}

func (m measurement) is(metric *metric, labels []string) bool {
	shown := make([]string, len(labels))
	for index, label := range labels {
		shown[index] = cut(valid(label), maxLabel)
	}
	return m.metric == metric && slices.Equal(m.labels, shown)
}

func (a Answer) String() string {
	switch a.Kind {
	case "retry":
		return fmt.Sprintf("retry after %s: %s", a.After, a.Reason)
	case "dead-letter":
		return "dead-letter: " + a.Reason
	case "route":
		return "route to " + a.Output
	case "split":
		return fmt.Sprintf("split into %d", len(a.Pieces))
	}
	return a.Kind
}
