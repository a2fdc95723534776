package tests

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tidegate "tidegate-sdk/src"
)

const everything = tidegate.Key | tidegate.Value | tidegate.Headers | tidegate.Attributes

// golden reads a file of `wit/golden`: an offset, bytes in hexadecimal digits, and after # what they are.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../wit/golden/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	var read []byte
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if place := fmt.Sprintf("%04x", len(read)); place != fields[0] {
			t.Fatalf("%s: line at %s stands at %s", name, fields[0], place)
		}
		digits, err := hex.DecodeString(strings.Join(fields[1:], ""))
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, digits...)
	}
	return read
}

// shown are the lines that an operator says of each record.
var shown []string

var shows = tidegate.Operator[tidegate.NoConfig]{
	Name:    "show",
	Version: "1.0.0",
	Reads:   everything,
	Process: func(ctx *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		at, known := record.EventTime()
		line := fmt.Sprintf("%v key=%v value=%v", record.ID(), field(record.Key()), field(record.Value()))
		if known {
			line += fmt.Sprintf(" time=%d", at.UnixMicro())
		}
		for name, value := range record.Headers() {
			line += fmt.Sprintf(" header %q=%v", name, field(value))
		}
		for name, value := range record.Attributes() {
			line += fmt.Sprintf(" attribute %q=%v", name, field(value))
		}
		shown = append(shown, fmt.Sprintf("%s clock=%d counts=%d,%d", line, ctx.Now().UnixMicro(), record.CountHeaders(), record.CountAttributes()))
		return tidegate.Pass(), nil
	},
}

func field(bytes []byte) string {
	if bytes == nil {
		return "null"
	}
	return fmt.Sprintf("%q", bytes)
}

func TestGoldenBatchesAreReadAsTheyAreDescribed(t *testing.T) {
	all := []string{
		`{source 1 2 42 0} key="k" value="värde" time=1700000000000000 header "h"="1" header "h"=null header ""="" attribute "pii"="\x00\xff" clock=1700000000250432 counts=3,1`,
		`{source 1 2 43 0} key="" value=null clock=1700000000250432 counts=0,0`,
		`{timer 0 7 44 4097} key=null value="" time=-1 clock=1700000000250432 counts=0,0`,
	}
	key := []string{
		`{source 1 2 42 0} key="k" value=null time=1700000000000000 clock=1700000000250432 counts=0,0`,
		`{source 1 2 43 0} key="" value=null clock=1700000000250432 counts=0,0`,
		`{timer 0 7 44 4097} key=null value=null time=-1 clock=1700000000250432 counts=0,0`,
	}
	for name, expected := range map[string][]string{"batch-all": all, "batch-grown": all, "batch-key": key, "batch-none": nil} {
		shown = nil
		answer, err := tidegate.NewHarness(t, shows, "").Process(golden(t, name))
		if err != nil {
			t.Fatalf("%s: %s", name, err)
		}
		clock := fmt.Sprintf("clock=%d", goldenClock(t))
		for index := range expected {
			expected[index] = strings.Replace(expected[index], "clock=1700000000250432", clock, 1)
			expected[index] = strings.Replace(expected[index], "time=1700000000000000", fmt.Sprintf("time=%d", goldenTime(t)), 1)
		}
		if !slices.Equal(shown, expected) {
			t.Errorf("%s: expected\n%s\ncame\n%s", name, strings.Join(expected, "\n"), strings.Join(shown, "\n"))
		}
		if name == "batch-none" && !bytes.Equal(answer, golden(t, "answer-none")) {
			t.Errorf("the answer to no records is %x", answer)
		}
	}
}

func goldenNumber(t *testing.T, at int) int64 {
	number := int64(0)
	for index, one := range golden(t, "batch-all")[at : at+8] {
		number |= int64(one) << (8 * index)
	}
	return number
}

func goldenClock(t *testing.T) int64 { return goldenNumber(t, 0x28) }
func goldenTime(t *testing.T) int64  { return goldenNumber(t, 0x68) }

func TestTheHarnessPacksARecordAsTheHostDoes(t *testing.T) {
	records := []tidegate.TestRecord{
		{
			Key:        []byte("k"),
			Value:      []byte("värde"),
			Headers:    []tidegate.Pair{{Name: "h", Value: []byte("1")}, {Name: "h"}, {Name: "", Value: []byte{}}},
			Attributes: []tidegate.Pair{{Name: "pii", Value: []byte{0, 255}}},
			EventTime:  time.UnixMicro(goldenTime(t)),
			ID:         tidegate.ID{Source: 1, Partition: 2, Offset: 42},
		},
		{Key: []byte{}, ID: tidegate.ID{Source: 1, Partition: 2, Offset: 43}},
		{Value: []byte{}, EventTime: time.UnixMicro(-1), ID: tidegate.ID{Origin: tidegate.Timer, Partition: 7, Offset: 44, Emit: 4097}},
	}
	seed := [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	for name, reads := range map[string]tidegate.Fields{"batch-all": everything, "batch-key": tidegate.Key} {
		packed, err := tidegate.EncodeBatch(records, reads, time.UnixMicro(goldenClock(t)), seed)
		if err != nil || !bytes.Equal(packed, golden(t, name)) {
			t.Errorf("%s: %v, packed\n%x\nexpected\n%x", name, err, packed, golden(t, name))
		}
	}
}

func TestABatchThatItHasToUnderstandAndDoesNotIsRefused(t *testing.T) {
	grown := func(change func([]byte)) []byte {
		batch := golden(t, "batch-grown")
		change(batch)
		return batch
	}
	cases := map[string]struct {
		batch []byte
		code  string
	}{
		"a flag of the upper sixteen":  {grown(func(b []byte) { b[14] = 1 }), "unknown-arena"},
		"a section that is critical":   {grown(func(b []byte) { b[0x168+3] = 0x80 }), "unknown-arena"},
		"another layout":               {golden(t, "batch-layout-1"), "bad-batch"},
		"a batch that is cut short":    {golden(t, "batch-all")[:100], "bad-batch"},
		"a batch that is no batch":     {[]byte("TG"), "bad-batch"},
		"a table beyond the end":       {grown(func(b []byte) { b[18] = 1 }), "bad-batch"},
		"sections beyond the end":      {grown(func(b []byte) { b[30] = 1 }), "bad-batch"},
		"more records than it has":     {grown(func(b []byte) { b[19] = 1 }), "bad-batch"},
		"a stride that is too small":   {grown(func(b []byte) { b[20] = 8 }), "bad-batch"},
		"a stride that is odd":         {grown(func(b []byte) { b[20]++ }), "bad-batch"},
		"a header that is too short":   {grown(func(b []byte) { b[8] = 56 }), "bad-batch"},
		"a table in the header":        {grown(func(b []byte) { b[24], b[25] = 8, 0 }), "bad-batch"},
		"more records than can be had": {grown(func(b []byte) { b[16], b[17], b[18], b[19] = 255, 255, 255, 255 }), "bad-batch"},
	}
	for name, one := range cases {
		_, err := tidegate.NewHarness(t, shows, "").Process(one.batch)
		failure, ok := err.(*tidegate.Failure)
		if !ok || failure.Code != one.code || failure.Class != tidegate.ClassPermanent {
			t.Errorf("%s: expected a permanent failure %s, came %v", name, one.code, err)
		}
	}
}

func TestGoldenAnswersAreTakenApart(t *testing.T) {
	operator := shows
	operator.Outputs = []string{"first", "second"}
	harness := tidegate.NewHarness(t, operator, "")
	answers, err := harness.Decode(golden(t, "answer-every"), make([]tidegate.TestRecord, 12))
	if err != nil {
		t.Fatal(err)
	}
	kinds := make([]string, len(answers))
	for index, answer := range answers {
		kinds[index] = answer.String()
	}
	expected := []string{
		"pass", "drop", "replace", "replace", "replace", "split into 0", "split into 3", "route to first", "route to ",
		"retry after 250ms: later", "retry after 1193h2m47.295s: ", "dead-letter: nicht für mich",
	}
	if !slices.Equal(kinds, expected) {
		t.Errorf("expected %q, came %q", expected, kinds)
	}
	changed := answers[4].Record
	if got, _ := changed.Attribute("ä"); got != "" || changed.Value != nil || !bytes.Equal(changed.Key, []byte{0, 255}) || len(changed.Headers) != 2 || changed.EventTime.UnixMicro() != -7 {
		t.Errorf("the change of everything came as %+v", changed)
	}
	outputs := []string{answers[6].Pieces[0].Output, answers[6].Pieces[1].Output, answers[6].Pieces[2].Output}
	if !slices.Equal(outputs, []string{"", "second", "first"}) {
		t.Errorf("the pieces go to %q", outputs)
	}
}

func TestGoldenAnswersAreWritten(t *testing.T) {
	expected := golden(t, "answer-every")
	everyChange := func() *tidegate.Changes {
		return tidegate.Change().SetKey([]byte{0, 255}).NullValue().
			SetHeader("h", "new").AddNullHeader("h").RemoveHeader("gone").
			SetAttribute("ä", "").SetEventTime(time.UnixMicro(-7))
	}
	outcomes := []tidegate.Outcome{
		tidegate.Pass(),
		tidegate.Drop(),
		tidegate.Replace(tidegate.Change().NullKey().SetText("").NoEventTime()),
		tidegate.Replace(everyChange()),
		tidegate.Split(),
		tidegate.Split(
			tidegate.Piece{},
			tidegate.Piece{Output: "second", Changes: tidegate.Change().SetText("two")},
			tidegate.Piece{Output: "first", Changes: everyChange()},
		),
		tidegate.Route("first", tidegate.Change().SetText("routed")),
		tidegate.Retry(250*time.Millisecond, "later"),
		tidegate.Retry(1<<62, ""),
		tidegate.DeadLetter("nicht für mich"),
	}
	harness := tidegate.NewHarness(t, says(outcomes, "first", "second"), "")
	answer, err := harness.Process(numbered(t, len(outcomes)))
	if err != nil {
		t.Fatal(err)
	}
	// The golden answer has two outcomes more, which this SDK says otherwise: a replace without changes is a pass, and a
	// route to the main output a replace.
	actions, payloads := answer[40:50], answer[50:]
	if expectedActions := []byte{0, 1, 2, 2, 3, 3, 4, 5, 5, 6}; !bytes.Equal(actions, expectedActions) {
		t.Errorf("the actions are %v, expected %v", actions, expectedActions)
	}
	expectedPayloads := slices.Concat(expected[0x35:0xe6], expected[0xe9:])
	if !bytes.Equal(payloads, expectedPayloads) {
		t.Errorf("the payloads are\n%x\nexpected\n%x", payloads, expectedPayloads)
	}
}

func TestGoldenSamplesAreWritten(t *testing.T) {
	counter := tidegate.NewCounter("a_total", "")
	gauge := tidegate.NewGauge("b", "", "one")
	histogram := tidegate.NewHistogram("c", "", nil, "one", "two")
	operator := shows
	operator.Metrics = []tidegate.Metric{counter, gauge, histogram}
	operator.Process = func(ctx *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		if record.ID().Offset == 0 {
			counter.Add(ctx, 2)
		} else {
			gauge.Set(ctx, -1.5, "dé")
			histogram.Observe(ctx, 0.75, "a", "")
		}
		return tidegate.Pass(), nil
	}
	answer, err := tidegate.NewHarness(t, operator, "").Process(numbered(t, 2))
	if expected := golden(t, "answer-samples"); err != nil || !bytes.Equal(answer, expected) {
		t.Errorf("%v, the answer is\n%x\nexpected\n%x", err, answer, expected)
	}
}

// says makes an operator that answers the n-th record with the n-th outcome.
func says(outcomes []tidegate.Outcome, outputs ...string) tidegate.Operator[tidegate.NoConfig] {
	return tidegate.Operator[tidegate.NoConfig]{
		Name:    "say",
		Version: "1.0.0",
		Outputs: outputs,
		Process: func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
			return outcomes[record.ID().Offset], nil
		},
	}
}

// numbered packs records whose offsets are their indices.
func numbered(t *testing.T, count int) []byte {
	t.Helper()
	records := make([]tidegate.TestRecord, count)
	for index := range records {
		records[index].ID.Offset = uint64(index)
	}
	batch, err := tidegate.EncodeBatch(records, everything, time.UnixMicro(0), [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	return batch
}
