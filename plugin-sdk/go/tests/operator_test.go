package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	tidegate "tidegate-sdk/src"
)

type noted = tidegate.Operator[tidegate.NoConfig]

// runs makes an operator that reads values.
func runs(process tidegate.Process) noted {
	return noted{Name: "run", Version: "1.0.0", Reads: tidegate.Value, Process: process}
}

func TestAPanicIsADeadLetterWithItsLineAndCostsItsNeighboursNothing(t *testing.T) {
	counter := tidegate.NewCounter("seen_total", "")
	operator := runs(func(ctx *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		text, err := record.Text()
		if err != nil {
			return tidegate.Outcome{}, err
		}
		counter.Add(ctx, 1)
		switch text {
		case "text":
			panic("boom")
		case "error":
			panic(errors.New("broken"))
		case "index":
			return tidegate.DeadLetter(text[len(text)+1:]), nil
		case "within":
			strings.Repeat(text, -1)
		case "nil":
			var changes *tidegate.Changes
			changes.SetText("a")
		}
		return tidegate.Replace(tidegate.Change().SetText(text + "!")), nil
	})
	operator.Metrics = []tidegate.Metric{counter}
	harness := tidegate.NewHarness(t, operator, "")
	asked := []string{"a", "text", "error", "index", "b", "within", "nil", "c", "text"}
	records := make([]tidegate.TestRecord, len(asked))
	for index, text := range asked {
		records[index] = tidegate.Text(text)
	}
	expected := []string{
		`^replace$`,
		`^dead-letter: panic: boom \(operator_test.go:\d+\)$`,
		`^dead-letter: panic: \*errors.errorString: broken \(operator_test.go:\d+\)$`,
		`^dead-letter: panic: runtime error: slice bounds out of range \[6:5\] \(operator_test.go:\d+\)$`,
		`^replace$`,
		`^dead-letter: panic: .*negative Repeat count \(operator_test.go:\d+\)$`,
		`^dead-letter: panic: runtime error: invalid memory address or nil pointer dereference \(operator_test.go:\d+\)$`,
		`^replace$`,
		`^dead-letter: panic: boom \(operator_test.go:\d+\)$`,
	}
	for index, answer := range harness.Run(records...) {
		if !regexp.MustCompile(expected[index]).MatchString(answer.String()) {
			t.Errorf("%q: expected %s, came %s", asked[index], expected[index], answer)
		}
	}
	if counted := harness.Counted(counter); counted != 3 {
		t.Errorf("%d records were counted, expected the 3 that did not panic", counted)
	}
}

func TestAnErrorIsADeadLetterUnlessItIsAFailure(t *testing.T) {
	operator := runs(func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		switch text, _ := record.Text(); text {
		case "error":
			return tidegate.Replace(tidegate.Change().SetText("not this")), errors.New("why not")
		case "failure":
			return tidegate.Outcome{}, fmt.Errorf("asked: %w", tidegate.Transient("not-now", "come later"))
		}
		return tidegate.Drop(), nil
	})
	harness := tidegate.NewHarness(t, operator, "")
	answers := harness.Run(tidegate.Text("error"), tidegate.Text("another"))
	if answers[0].String() != "dead-letter: why not" || answers[1].Kind != "drop" {
		t.Errorf("came %v", answers)
	}
	_, err := harness.Try(tidegate.Text("another"), tidegate.Text("failure"))
	var failure *tidegate.Failure
	if !errors.As(err, &failure) || *failure != *tidegate.Transient("not-now", "come later") {
		t.Errorf("came %v", err)
	}
	if answer := harness.RunOne(tidegate.Text("error")); answer.Kind != "dead-letter" {
		t.Errorf("after a failed batch came %s", answer)
	}
}

func TestWhatCannotBeSaidIsADeadLetter(t *testing.T) {
	many := tidegate.Change()
	for range 65536 {
		many.AddHeader("a", "1")
	}
	cases := map[string]tidegate.Outcome{
		"changes cannot be applied: name of 65536 bytes":          tidegate.Replace(tidegate.Change().SetHeader(strings.Repeat("n", 65536), "")),
		`changes cannot be applied: name "\xff" among the attrib`: tidegate.Replace(tidegate.Change().SetAttribute("\xff", "")),
		"changes cannot be applied: 65536 changes of headers":     tidegate.Replace(many),
		"changes of piece 2 cannot be applied":                    tidegate.Split(tidegate.Piece{}, tidegate.Piece{Changes: many}),
		`there is no output "lfet", the operator names "left"`:    tidegate.Route("lfet", nil),
		`piece 1: there is no output "right"`:                     tidegate.Split(tidegate.Piece{Output: "right"}),
		"split into 4096 pieces, at most 4095 can be":             tidegate.Split(make([]tidegate.Piece, 4096)...),
		"a reason that is \uFFFD no UTF-8":                        tidegate.DeadLetter("a reason that is \xff no UTF-8"),
	}
	for expected, outcome := range cases {
		answers := tidegate.NewHarness(t, says([]tidegate.Outcome{outcome, tidegate.Pass()}, "left"), "").Run(make([]tidegate.TestRecord, 2)...)
		if !strings.HasPrefix(answers[0].Reason, expected) || answers[1].Kind != "pass" {
			t.Errorf("expected %q, came %v", expected, answers)
		}
	}
}

func TestWhatIsNotReadIsNotThere(t *testing.T) {
	operator := runs(func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		if record.Key() != nil || record.Header("a") != nil || record.Attribute("b") != nil || record.CountHeaders() != 0 {
			return tidegate.DeadLetter("it is there"), nil
		}
		return tidegate.Pass(), nil
	})
	record := tidegate.Text("v").WithHeader("a", "1").WithAttribute("b", "2")
	record.Key = []byte("k")
	answer := tidegate.NewHarness(t, operator, "").RunOne(record)
	if value, ok := answer.Record.Header("a"); answer.Kind != "pass" || !ok || value != "1" {
		t.Errorf("came %s with %+v", answer, answer.Record)
	}
}

func TestOfPairsOfOneNameTheLastIsAskedFor(t *testing.T) {
	operator := noted{Name: "ask", Version: "1.0.0", Reads: tidegate.Headers | tidegate.Attributes}
	operator.Process = func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		header, ok := record.HeaderText("a")
		return tidegate.DeadLetter(fmt.Sprintf("%q %t %q", header, ok, record.Attribute("b"))), nil
	}
	harness := tidegate.NewHarness(t, operator, "")
	record := tidegate.Text("").WithHeader("a", "1").WithHeader("c", "3").WithHeader("a", "2").WithAttribute("b", "4").WithAttribute("b", "")
	if answer := harness.RunOne(record); answer.Reason != `"2" true ""` {
		t.Errorf("came %s", answer)
	}
	record.Headers = append(record.Headers, tidegate.Pair{Name: "a"})
	if answer := harness.RunOne(record); answer.Reason != `"" false ""` {
		t.Errorf("came %s", answer)
	}
	if value, ok := record.Header("a"); ok || value != "" {
		t.Errorf("the record of tests has %q", value)
	}
}

func TestTextSaysWhereItIsNone(t *testing.T) {
	operator := runs(func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		_, err := record.Text()
		return tidegate.Drop(), err
	})
	harness := tidegate.NewHarness(t, operator, "")
	for value, expected := range map[string]string{
		"":             "drop",
		"straße 😀":     "drop",
		"ab\xffc":      "dead-letter: value is not UTF-8 at byte 2",
		"\xed\xa0\x80": "dead-letter: value is not UTF-8 at byte 0",
	} {
		if answer := harness.RunOne(tidegate.Text(value)); answer.String() != expected {
			t.Errorf("%q: expected %s, came %s", value, expected, answer)
		}
	}
	if answer := harness.RunOne(tidegate.TestRecord{}); answer.Reason != tidegate.ErrNull.Error() {
		t.Errorf("null: came %s", answer)
	}
}

func TestNamesThatComeAgainAreRightHoweverMany(t *testing.T) {
	operator := noted{Name: "count", Version: "1.0.0", Reads: tidegate.Headers}
	operator.Process = func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		for name, value := range record.Headers() {
			if name != string(value) {
				return tidegate.DeadLetter(fmt.Sprintf("%q is %q", name, value)), nil
			}
		}
		return tidegate.Pass(), nil
	}
	harness := tidegate.NewHarness(t, operator, "")
	record := tidegate.TestRecord{}
	for number := range 600 {
		name := strings.Repeat(fmt.Sprint(number), 1+number%30)
		record = record.WithHeader(name, name)
	}
	for range 3 {
		if answer := harness.RunOne(record); answer.Kind != "pass" {
			t.Errorf("came %s", answer)
		}
	}
}

func TestMeasuringWronglyIsADeadLetterThatSaysHow(t *testing.T) {
	known, unknown := tidegate.NewCounter("known_total", "", "kind"), tidegate.NewCounter("unknown_total", "")
	value := tidegate.NewGauge("value", "")
	operator := runs(func(ctx *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		switch text, _ := record.Text(); text {
		case "unknown":
			unknown.Add(ctx, 1)
		case "labels":
			known.Add(ctx, 1)
		case "many":
			for range 257 {
				known.Add(ctx, 1, "a")
			}
		case "infinite":
			var zero float64
			value.Set(ctx, 1/zero)
			value.Set(ctx, 2)
		case "long":
			known.Add(ctx, 5, strings.Repeat("é", 200))
		}
		return tidegate.Pass(), nil
	})
	operator.Metrics = []tidegate.Metric{known, value}
	harness := tidegate.NewHarness(t, operator, "")
	for text, expected := range map[string]string{
		"unknown": `dead-letter: panic: metric "unknown_total" is not among the metrics of operator run (operator_test.go:`,
		"labels":  `dead-letter: panic: metric "known_total" is measured with 0 labels, it has 1 (operator_test.go:`,
		"many":    `dead-letter: panic: a record has more than 256 measurements (operator_test.go:`,
		"long":    "pass",
	} {
		if answer := harness.RunOne(tidegate.Text(text)); !strings.HasPrefix(answer.String(), expected) {
			t.Errorf("%s: expected %s, came %s", text, expected, answer)
		}
	}
	harness.RunOne(tidegate.Text("infinite"))
	if values := harness.Values(value); !slices.Equal(values, []float64{2}) {
		t.Errorf("the gauge has %v", values)
	}
	if counted := harness.Counted(known, strings.Repeat("é", 128)); counted != 5 {
		t.Errorf("the long label is not cut at 256 bytes")
	}
}

func TestAnOperatorThatIsDeclaredWronglyDoesNotStart(t *testing.T) {
	good := runs(func(*tidegate.Context, tidegate.Record) (tidegate.Outcome, error) { return tidegate.Pass(), nil })
	with := func(change func(*noted)) noted {
		changed := good
		change(&changed)
		return changed
	}
	cases := map[string]noted{
		`Name is ""`:                                    with(func(o *noted) { o.Name = "" }),
		`Version is "1.0", expected semver`:             with(func(o *noted) { o.Version = "1.0" }),
		`there are two outputs "a"`:                     with(func(o *noted) { o.Outputs = []string{"a", "a"} }),
		`an output is "a\nb"`:                           with(func(o *noted) { o.Outputs = []string{"a\nb"} }),
		"there are 257 outputs":                         with(func(o *noted) { o.Outputs = make([]string, 257) }),
		`metric "A": its name is not`:                   with(func(o *noted) { o.Metrics = []tidegate.Metric{tidegate.NewGauge("A", "")} }),
		`its label "slot" is the host's own`:            with(func(o *noted) { o.Metrics = []tidegate.Metric{tidegate.NewGauge("a", "", "slot")} }),
		"its bounds [2 1] are not finite and ascending": with(func(o *noted) { o.Metrics = []tidegate.Metric{tidegate.NewHistogram("a", "", []float64{2, 1})} }),
		`an output is "a\u2028b"`:                       with(func(o *noted) { o.Outputs = []string{"a\u2028b"} }),
		`an output is "a\u200db"`:                       with(func(o *noted) { o.Outputs = []string{"a\u200db"} }),
		`metric "a": its help is not one line`:          with(func(o *noted) { o.Metrics = []tidegate.Metric{tidegate.NewGauge("a", "two\u2029lines")} }),
		`metric "series_refused" is shown as one`:       with(func(o *noted) { o.Metrics = []tidegate.Metric{tidegate.NewCounter("series_refused", "")} }),
		`metric "a_sum" is shown as a_sum, as met`: with(func(o *noted) {
			o.Metrics = []tidegate.Metric{tidegate.NewHistogram("a", "", nil), tidegate.NewGauge("a_sum", "")}
		}),
		`there are two metrics "a"`: with(func(o *noted) {
			o.Metrics = []tidegate.Metric{tidegate.NewGauge("a", ""), tidegate.NewCounter("a", "")}
		}),
		"it needs either Start or Process": with(func(o *noted) { o.Process = nil }),
		"it needs at most one of Outputs and OutputsOf": with(func(o *noted) {
			o.Outputs = []string{"a"}
			o.OutputsOf = func(tidegate.NoConfig) []string { return nil }
		}),
		"no-process: Start gave neither": with(func(o *noted) {
			o.Process = nil
			o.Start = func(tidegate.NoConfig) (tidegate.Process, error) { return nil, nil }
		}),
		"panic: panic: not ready (operator_test.go:": with(func(o *noted) {
			o.Process = nil
			o.Start = func(tidegate.NoConfig) (tidegate.Process, error) { panic("not ready") }
		}),
		"bad-config: config key `a` is unknown, expected no key at all": good,
	}
	for expected, operator := range cases {
		config := "{}"
		if strings.HasPrefix(expected, "bad-config") {
			config = `{"a": 1}`
		}
		if _, err := tidegate.StartHarness(operator, config); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("expected %q, came %v", expected, err)
		}
	}
}

func TestVersionsAreSemver(t *testing.T) {
	for version, isRight := range map[string]bool{
		"1.2.3": true, "0.0.0": true, "1.2.3-rc.1": true, "1.2.3+build-5": true, "10.20.30-a+b": true,
		"": false, "1.2": false, "1.2.3.4": false, "01.2.3": false, "1.2.x": false, "v1.2.3": false, "1.2.3-": false, "1.2.3-ä": false,
	} {
		operator := runs(func(*tidegate.Context, tidegate.Record) (tidegate.Outcome, error) { return tidegate.Pass(), nil })
		operator.Version = version
		if _, err := tidegate.StartHarness(operator, ""); (err == nil) != isRight {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestWhatIsMeasuredBesideAnOutcomeThatCannotBeWrittenDoesNotCount(t *testing.T) {
	counter := tidegate.NewCounter("seen_total", "")
	operator := runs(func(ctx *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		counter.Add(ctx, 1)
		switch text, _ := record.Text(); text {
		case "route":
			return tidegate.Route("nowhere", nil), nil
		case "name":
			return tidegate.Replace(tidegate.Change().SetHeader("\xff", "")), nil
		case "error":
			return tidegate.Outcome{}, errors.New("said")
		}
		return tidegate.Pass(), nil
	})
	operator.Metrics = []tidegate.Metric{counter}
	harness := tidegate.NewHarness(t, operator, "")
	harness.Run(tidegate.Text("route"), tidegate.Text("pass"), tidegate.Text("name"), tidegate.Text("error"))
	if counted := harness.Counted(counter); counted != 2 {
		t.Errorf("%d records were counted, expected the one that passed and the one with an error", counted)
	}
}

func TestARecordHasNoMoreHeadersThanCanBeCounted(t *testing.T) {
	operator := runs(func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		if string(record.Value()) == "set" {
			return tidegate.Replace(tidegate.Change().SetHeader("a", "")), nil
		}
		return tidegate.Split(tidegate.Piece{}, tidegate.Piece{Changes: tidegate.Change().AddHeader("b", "")}), nil
	})
	harness := tidegate.NewHarness(t, operator, "")
	record := tidegate.Text("add")
	record.Headers = make([]tidegate.Pair, 65535)
	for index := range record.Headers {
		record.Headers[index].Name = "a"
	}
	if _, err := harness.Try(record); err == nil || !strings.Contains(err.Error(), "record 1 with 65536 headers exceeds the limit of 65535") {
		t.Errorf("came %v", err)
	}
	record.Value = []byte("set")
	if answer := harness.RunOne(record); len(answer.Record.Headers) != 1 {
		t.Errorf("came %d headers", len(answer.Record.Headers))
	}
}

func TestTheLogIsHeard(t *testing.T) {
	operator := noted{Name: "say", Version: "1.0.0", Start: func(tidegate.NoConfig) (tidegate.Process, error) {
		tidegate.Log(tidegate.LevelInfo, "it starts")
		return func(*tidegate.Context, tidegate.Record) (tidegate.Outcome, error) {
			tidegate.Logf(tidegate.LevelWarn, "%d\xff", 7)
			return tidegate.Pass(), nil
		}, nil
	}}
	harness := tidegate.NewHarness(t, operator, "")
	harness.RunOne(tidegate.TestRecord{})
	tidegate.Log(tidegate.LevelError, "nobody hears this")
	expected := []tidegate.LogLine{{Level: tidegate.LevelInfo, Text: "it starts"}, {Level: tidegate.LevelWarn, Text: "7\uFFFD"}}
	if lines := harness.Logged(); !slices.Equal(lines, expected) {
		t.Errorf("expected %v, came %v", expected, lines)
	}
}

func TestRandomNumbersAreThoseOfAllLanguages(t *testing.T) {
	var drawn [][2]uint64
	operator := runs(func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		random := record.Random()
		drawn = append(drawn, [2]uint64{random.Uint64(), random.Uint64()})
		found := make([]int, 6)
		for range 60_000 {
			found[random.Below(6)]++
		}
		for _, count := range found {
			if count < 9_600 || count > 10_400 {
				return tidegate.DeadLetter(fmt.Sprint(found)), nil
			}
		}
		if random.Below(0) != 0 || random.Below(1) != 0 || rand.New(random).IntN(1) != 0 || random.Float64() >= 1 {
			return tidegate.DeadLetter("a bound is wrong"), nil
		}
		return tidegate.Pass(), nil
	})
	harness := tidegate.NewHarness(t, operator, "")
	for _, answer := range harness.Run(tidegate.TestRecord{}, tidegate.TestRecord{}) {
		if answer.Kind != "pass" {
			t.Error(answer)
		}
	}
	// The numbers of plugin-sdk/rust for these identities and the seed of tests.
	expected := [][2]uint64{{4654127698191776692, 2411756423676131803}, {6584247808225981261, 89785615460330941}}
	if !slices.Equal(drawn, expected) {
		t.Errorf("expected %v, came %v", expected, drawn)
	}
}

func TestTheOutputsOfAConfigurationAreChecked(t *testing.T) {
	type names struct {
		Names []string `json:"names"`
	}
	operator := tidegate.Operator[names]{
		Name:      "name",
		Version:   "1.0.0",
		Reads:     tidegate.Value,
		OutputsOf: func(config names) []string { return config.Names },
		Process: func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
			return tidegate.Route(string(record.Value()), nil), nil
		},
	}
	harness := tidegate.NewHarness(t, operator, `{"names": ["a", "b"]}`)
	if outputs := harness.Outputs(); !slices.Equal(outputs, []string{"a", "b"}) {
		t.Errorf("the outputs are %q", outputs)
	}
	for name, expected := range map[string]string{"b": "route to b", "c": `dead-letter: there is no output "c", the operator names "a", "b"`} {
		if answer := harness.RunOne(tidegate.Text(name)); answer.String() != expected {
			t.Errorf("expected %s, came %s", expected, answer)
		}
	}
	if _, err := tidegate.StartHarness(operator, `{"names": ["a", "a"]}`); err == nil || !strings.Contains(err.Error(), `two outputs "a"`) {
		t.Errorf("two outputs of one name: %v", err)
	}
}

func TestBytesAreOnlyLent(t *testing.T) {
	var kept [][]byte
	operator := runs(func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		kept = append(kept, record.Value())
		if value := record.Value(); string(value) == "change" {
			value[0] = 'C'
		}
		return tidegate.Replace(tidegate.Change().SetValue(record.Value())), nil
	})
	harness := tidegate.NewHarness(t, operator, "")
	if answer := harness.RunOne(tidegate.Text("keep")); string(answer.Record.Value) != "keep" || string(kept[0]) != "####" {
		t.Errorf("came %q, and %q was kept", answer.Record.Value, kept[0])
	}
	if _, err := harness.Try(tidegate.Text("change")); err == nil || !strings.Contains(err.Error(), "changed bytes of a record") {
		t.Errorf("came %v", err)
	}
}
