// The conformance operator: its records say what it is to do, and the operators of all languages do the same. See
// ../README.md.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"conformance/tidegate"
)

// Config is how it starts.
type Config struct {
	Mode   string   `json:"mode" doc:"How it starts." enum:"normal,refuse,transient,panic" default:"normal"`
	Limit  int      `json:"limit" doc:"A whole number." minimum:"1" maximum:"1000000" default:"1000"`
	Words  []string `json:"words" doc:"Texts that are not empty." each.minLength:"1" default:"[]"`
	Ratio  float64  `json:"ratio" doc:"A share." minimum:"0" maximum:"1" default:"0.5"`
	Label  *string  `json:"label" doc:"A text that may be left out."`
	Nested *Nested  `json:"nested" doc:"A table that may be left out."`
}

// Nested is a table within the configuration.
type Nested struct {
	Name string `json:"name" doc:"A name."`
	On   bool   `json:"on" doc:"Whether it is on." default:"true"`
}

var (
	seen       = tidegate.NewCounter("seen_total", "Records that were counted")
	words      = tidegate.NewCounter("words_total", "Words by kind", "kind")
	lastBytes  = tidegate.NewGauge("last_bytes", "Bytes of the last value")
	valueBytes = tidegate.NewHistogram("value_bytes", "Bytes of values", []float64{1, 10, 100, 1000})
)

var conformance = tidegate.Operator[Config]{
	Name:    "conformance",
	Version: "1.0.0",
	Reads:   tidegate.Key | tidegate.Value | tidegate.Headers | tidegate.Attributes,
	Outputs: outputs(),
	Metrics: []tidegate.Metric{seen, words, lastBytes, valueBytes},
	Start:   start,
	Tokens:  handler,
}

func init() { tidegate.Run(conformance) }

func main() {}

func outputs() []string {
	names := []string{"left", "right"}
	for number := 3; number <= 16; number++ {
		names = append(names, fmt.Sprintf("out-%d", number))
	}
	return names
}

func start(config Config) (tidegate.Process, error) {
	switch config.Mode {
	case "refuse":
		return nil, tidegate.BadConfiguration("refused", `config key "mode" is "refuse"`)
	case "transient":
		return nil, tidegate.Transient("not-now", "asked to come later")
	case "panic":
		panic("asked to fail in init")
	}
	return operator{config}.process, nil
}

type operator struct{ config Config }

func (o operator) process(ctx *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
	asked := record.Header("do")
	if asked == nil {
		return tidegate.Pass(), nil
	}
	switch do := string(asked); do {
	case "pass":
		return tidegate.Pass(), nil
	case "drop":
		return tidegate.Drop(), nil
	case "echo":
		return tidegate.Replace(tidegate.Change().SetValue(record.Value())), nil
	case "upper":
		return upper(record)
	case "show":
		return replaceText(show(ctx, record))
	case "json":
		return member(record)
	case "random":
		random := record.Random()
		return replaceText(fmt.Sprintf("%d,%d", random.Uint64(), random.Uint64()))
	case "config":
		return replaceText(o.config.show())
	case "headers-count":
		return replaceText(fmt.Sprint(record.CountHeaders()))
	case "clock":
		return replaceText(fmt.Sprint(ctx.Now().UnixMicro()))
	case "log":
		for level, line := range []string{"a trace line", "a debug line", "an info line", "a warn line", "an error line"} {
			tidegate.Log(tidegate.Level(level), line)
		}
		return tidegate.Pass(), nil
	case "metrics":
		measure(ctx, record)
		return tidegate.Pass(), nil
	case "metrics-drop":
		measure(ctx, record)
		return tidegate.Drop(), nil
	case "metrics-throw":
		seen.Add(ctx, 1)
		panic("boom")
	case "throw":
		panic("boom")
	case "spin", "grow", "deep", "trap":
		return stop(do)
	default:
		if outcome, known, err := changed(do, ctx); known {
			return outcome, err
		}
		return answered(do, record)
	}
}

func replaceText(text string) (tidegate.Outcome, error) {
	return tidegate.Replace(tidegate.Change().SetText(text)), nil
}

// upper upper-cases the ASCII letters of the text.
func upper(record tidegate.Record) (tidegate.Outcome, error) {
	text, err := record.Text()
	if err != nil {
		return tidegate.DeadLetter("value is not UTF-8 text"), nil
	}
	value := []byte(text)
	for at, letter := range value {
		if 'a' <= letter && letter <= 'z' {
			value[at] = letter - 32
		}
	}
	return tidegate.Replace(tidegate.Change().SetValue(value)), nil
}

// member gives the text of a member of the value as JSON.
func member(record tidegate.Record) (tidegate.Outcome, error) {
	var read struct {
		Name string `json:"name"`
	}
	if err := record.JSON(&read); err != nil {
		return tidegate.Outcome{}, err
	}
	return replaceText(read.Name)
}

// changed gives the outcomes that are changes, the same for every record.
func changed(do string, ctx *tidegate.Context) (outcome tidegate.Outcome, known bool, err error) {
	changes := tidegate.Change()
	switch do {
	case "set-key":
		changes.SetKey([]byte("a new key"))
	case "null-key":
		changes.NullKey()
	case "null-value":
		changes.NullValue()
	case "empty-value":
		changes.SetText("")
	case "headers":
		changes.SetHeader("a", "1").AddHeader("b", "2").AddHeader("b", "3").RemoveHeader("c").NullHeader("d").AddNullHeader("e")
	case "attributes":
		changes.SetAttribute("a", "1").AddAttribute("b", "2").AddAttribute("b", "3")
		changes.RemoveAttribute("c").NullAttribute("d").AddNullAttribute("e")
	case "time":
		changes.SetEventTime(ctx.Now())
	case "no-time":
		changes.NoEventTime()
	case "same":
	case "all":
		changes.SetKey([]byte("k")).SetText("v").SetHeader("h", "1").SetAttribute("t", "2").SetEventTime(time.UnixMicro(5))
	default:
		return tidegate.Outcome{}, false, nil
	}
	return tidegate.Replace(changes), true, nil
}

// answered gives the other outcomes.
func answered(do string, record tidegate.Record) (tidegate.Outcome, error) {
	const asked = "the record asks for it"
	switch do {
	case "split":
		var pieces []tidegate.Piece
		for index, part := range strings.Split(string(record.Value()), ",") {
			changes := tidegate.Change().SetText(part).SetHeader("part", fmt.Sprint(index))
			pieces = append(pieces, tidegate.Piece{Changes: changes})
		}
		return tidegate.Split(pieces...), nil
	case "split-outputs":
		return tidegate.Split(
			tidegate.Piece{Output: "left", Changes: tidegate.Change().SetText("l")},
			tidegate.Piece{Output: "right", Changes: tidegate.Change().SetText("r")},
			tidegate.Piece{Changes: tidegate.Change().SetText("m")},
		), nil
	case "split-none":
		return tidegate.Split(), nil
	case "split-many":
		return tidegate.Split(make([]tidegate.Piece, tidegate.MaxPieces)...), nil
	case "split-too-many":
		return tidegate.Split(make([]tidegate.Piece, tidegate.MaxPieces+1)...), nil
	case "route":
		return tidegate.Route(string(record.Header("to")), nil), nil
	case "route-changed":
		return tidegate.Route("left", tidegate.Change().SetText("changed").RemoveHeader("do")), nil
	case "last-output":
		return tidegate.Route("out-16", nil), nil
	case "retry":
		return tidegate.Retry(1500*time.Millisecond, string(record.Value())), nil
	case "dead-letter":
		return tidegate.Outcome{}, errors.New(string(record.Value()))
	case "fail-transient":
		return tidegate.Outcome{}, tidegate.Transient("asked-for", asked)
	case "fail-permanent":
		return tidegate.Outcome{}, tidegate.Permanent("asked-for", asked)
	case "fail-configuration":
		return tidegate.Outcome{}, tidegate.BadConfiguration("asked-for", asked)
	}
	return tidegate.Outcome{}, fmt.Errorf("unknown behaviour %q", do)
}

func measure(ctx *tidegate.Context, record tidegate.Record) {
	length := float64(len(record.Value()))
	seen.Add(ctx, 1)
	words.Add(ctx, 2, "short")
	lastBytes.Set(ctx, length)
	valueBytes.Observe(ctx, length)
}

// stop does what only a sandbox survives.
func stop(do string) (tidegate.Outcome, error) {
	switch do {
	case "spin":
		for {
		}
	case "grow":
		for kept := [][]byte{}; ; {
			kept = append(kept, make([]byte, 1<<20))
			for at := range kept[len(kept)-1] {
				kept[len(kept)-1][at] = byte(len(kept))
			}
		}
	case "deep":
		return replaceText(fmt.Sprint(deep(0)))
	}
	os.Exit(3)
	return tidegate.Pass(), nil
}

func deep(level int) int { return deep(level+1) + level }
