package main

import (
	"fmt"
	"strings"

	"conformance/tidegate"
)

// handler does with the text of an answer what the name of its model says.
func handler(Config) (tidegate.OpenLane, error) {
	return func(lane tidegate.Lane) (tidegate.Step, error) {
		switch lane.Model {
		case "upper":
			return each(upperLetters), nil
		case "hold":
			return holding(func(held string) int { return len(held) }), nil
		case "tail":
			// A character may have several bytes: the SDK keeps them together.
			return holding(func(held string) int { return min(1, len(held)) }), nil
		case "silent":
			return each(func(string) string { return "" }), nil
		case "stop":
			return until(tidegate.EndStop), nil
		case "filter":
			return until(tidegate.EndFiltered), nil
		case "lane":
			return told(lane), nil
		case "log":
			tidegate.Log(tidegate.LevelInfo, "a lane opens")
			return logged, nil
		case "refuse":
			return nil, tidegate.Permanent("no-lane", "the lane asks for it")
		case "refuse-transient":
			return nil, tidegate.Transient("no-lane", "the lane asks for it")
		case "fail":
			return fail, nil
		case "throw":
			return func(string, bool) (tidegate.Through, error) { panic("boom") }, nil
		}
		return each(func(text string) string { return text }), nil
	}, nil
}

// each changes a text whatever stands around it.
func each(change func(string) string) tidegate.Step {
	return func(text string, _ bool) (tidegate.Through, error) {
		return tidegate.Through{Text: change(text)}, nil
	}
}

func upperLetters(text string) string {
	return strings.Map(func(letter rune) rune {
		if 'a' <= letter && letter <= 'z' {
			return letter - 'a' + 'A'
		}
		return letter
	}, text)
}

// holding holds back so many bytes at the end of the text.
func holding(most func(held string) int) tidegate.Step {
	held := ""
	return func(text string, last bool) (tidegate.Through, error) {
		held += text
		end := len(held)
		if !last {
			end -= most(held)
		}
		through := held[:end]
		held = held[end:]
		return tidegate.Through{Text: through}, nil
	}
}

const word = "END"

// until ends the answer at the word, and holds back what may become it.
func until(end tidegate.Ending) tidegate.Step {
	held := ""
	return func(text string, last bool) (tidegate.Through, error) {
		held += text
		if before, _, found := strings.Cut(held, word); found {
			return tidegate.Through{Text: before, End: end}, nil
		}
		kept := 0
		if !last {
			kept = min(len(held), len(word)-1)
		}
		for !strings.HasPrefix(word, held[len(held)-kept:]) {
			kept--
		}
		through := held[:len(held)-kept]
		held = held[len(through):]
		return tidegate.Through{Text: through}, nil
	}
}

func told(lane tidegate.Lane) tidegate.Step {
	kind := lane.Kind.String()
	if lane.Kind == tidegate.LaneArguments {
		kind = fmt.Sprintf("%s %d", kind, lane.Call)
	}
	parts := []string{lane.Identity, lane.Model, fmt.Sprint(lane.Choice), kind}
	for name, value := range lane.Attributes() {
		parts = append(parts, fmt.Sprintf("%s=%s", name, value))
	}
	value, _ := lane.AttributeText("a")
	line := strings.Join(append(parts, "last a="+value), "|")
	return func(_ string, last bool) (tidegate.Through, error) {
		if last {
			return tidegate.Through{Text: line}, nil
		}
		return tidegate.Through{}, nil
	}
}

func logged(text string, last bool) (tidegate.Through, error) {
	if last {
		tidegate.Log(tidegate.LevelDebug, "its text ends")
	}
	return tidegate.Through{Text: text}, nil
}

func fail(text string, _ bool) (tidegate.Through, error) {
	if text == "bad" {
		return tidegate.Through{}, tidegate.Permanent("asked-for", "the text asks for it")
	}
	return tidegate.Through{Text: text}, nil
}
