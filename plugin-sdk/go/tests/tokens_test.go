package tests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	tidegate "tidegate-sdk/src"
)

// handles makes an operator that reads attributes and has one function for the text of every lane.
func handles(step func(lane tidegate.Lane) tidegate.Step) noted {
	return noted{
		Name:    "handle",
		Version: "1.0.0",
		Reads:   tidegate.Attributes,
		Process: func(*tidegate.Context, tidegate.Record) (tidegate.Outcome, error) { return tidegate.Pass(), nil },
		Tokens: func(tidegate.NoConfig) (tidegate.OpenLane, error) {
			return func(lane tidegate.Lane) (tidegate.Step, error) { return step(lane), nil }, nil
		},
	}
}

// opened opens a lane of an operator.
func opened(t *testing.T, operator noted, lane tidegate.TestLane) *tidegate.OpenedLane {
	t.Helper()
	open, err := tidegate.NewHarness(t, operator, "").Open(lane)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func counts(tidegate.Lane) tidegate.Step {
	count := 0
	return func(text string, last bool) (tidegate.Through, error) {
		count++
		text += strings.Repeat("+", count)
		if last {
			text += "."
		}
		return tidegate.Through{Text: text}, nil
	}
}

func TestWhatALaneKeepsIsItsOwn(t *testing.T) {
	harness := tidegate.NewHarness(t, handles(counts), "")
	one, _ := harness.Open(tidegate.TestLane{})
	other, _ := harness.Open(tidegate.TestLane{})
	for _, step := range []struct {
		lane       *tidegate.OpenedLane
		text, want string
		last       bool
	}{{one, "a", "a+", false}, {other, "b", "b+", false}, {one, "c", "c++.", true}} {
		if through, err := step.lane.Step(step.text, step.last); err != nil || through.Text != step.want {
			t.Errorf("%q: %q, %v", step.text, through.Text, err)
		}
	}
}

func TestALaneTellsWhatTheOperatorReads(t *testing.T) {
	operator := handles(func(lane tidegate.Lane) tidegate.Step {
		one, isText := lane.AttributeText("a")
		_, isTextToo := lane.AttributeText("b")
		return func(string, bool) (tidegate.Through, error) {
			told := []string{lane.Identity, lane.Model, lane.Kind.String(), one}
			if isText && !isTextToo && lane.Call == 2 {
				told = append(told, "!")
			}
			for name := range lane.Attributes() {
				told = append(told, name)
			}
			return tidegate.Through{Text: strings.Join(told, "|")}, nil
		}
	})
	lane := tidegate.TestLane{
		Kind:       tidegate.LaneArguments,
		Call:       2,
		Attributes: []tidegate.Pair{{Name: "a", Value: []byte("1")}, {Name: "a", Value: []byte("2")}, {Name: "b", Value: []byte{0xff}}},
	}
	if through, _ := opened(t, operator, lane).Step("", true); through.Text != "source 0 partition 0 offset 0|model|arguments|2|!|a|a|b" {
		t.Error(through.Text)
	}
	operator.Reads = tidegate.Value
	if through, _ := opened(t, operator, lane).Step("", true); through.Text != "source 0 partition 0 offset 0|model|arguments|" {
		t.Error(through.Text)
	}
}

func TestAnAnswerEndsWhereTheHandlerSays(t *testing.T) {
	operator := handles(func(tidegate.Lane) tidegate.Step {
		return func(text string, _ bool) (tidegate.Through, error) {
			if text == "bad" {
				return tidegate.Through{Text: "so far", End: tidegate.EndFiltered}, nil
			}
			return tidegate.Through{Text: text}, nil
		}
	})
	through, err := opened(t, operator, tidegate.TestLane{}).Run("good ", "bad", "more")
	if err != nil || through != (tidegate.Through{Text: "good so far", End: tidegate.EndFiltered}) {
		t.Error(through, err)
	}
}

func TestBytesOfACharacterThatTheOperatorHasCutStayTogether(t *testing.T) {
	operator := handles(func(tidegate.Lane) tidegate.Step {
		held := ""
		return func(text string, last bool) (tidegate.Through, error) {
			held += text
			end := len(held)
			if !last {
				end--
			}
			through := held[:end]
			held = held[end:]
			return tidegate.Through{Text: through}, nil
		}
	})
	lane := opened(t, operator, tidegate.TestLane{})
	for _, step := range [][2]string{{"a😀", "a"}, {"bé", "😀b"}, {"x\xf0\x9f", "éx"}, {"y", ""}} {
		if through, err := lane.Step(step[0], false); err != nil || through.Text != step[1] {
			t.Errorf("%q: %q, %v", step[0], through.Text, err)
		}
	}
	if through, _ := lane.Step("\xf0", true); through.Text != "\uFFFDy\uFFFD" {
		t.Errorf("%q", through.Text)
	}
}

func TestAnErrorAndAPanicFailWithTheirLine(t *testing.T) {
	operator := handles(func(lane tidegate.Lane) tidegate.Step {
		if lane.Model == "none" {
			return nil
		}
		return func(text string, _ bool) (tidegate.Through, error) {
			switch text {
			case "panic":
				panic("boom")
			case "error":
				return tidegate.Through{}, errors.New("broken")
			}
			return tidegate.Through{}, tidegate.Transient("not-now", "later")
		}
	})
	for text, want := range map[string]string{
		"panic": `^panic: panic: boom \(tokens_test\.go:\d+\)$`,
		"error": "^error: broken$",
		"else":  "^not-now: later$",
	} {
		if _, err := opened(t, operator, tidegate.TestLane{}).Step(text, false); !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %s", text, err)
		}
	}
	if _, err := tidegate.NewHarness(t, operator, "").Open(tidegate.TestLane{Model: "none"}); err == nil || !strings.HasPrefix(err.Error(), "no-step: ") {
		t.Error(err)
	}
	plain := runs(operator.Process)
	if _, err := tidegate.NewHarness(t, plain, "").Open(tidegate.TestLane{}); err == nil || !strings.HasPrefix(err.Error(), "no-handler: ") {
		t.Error(err)
	}
}

func forgets(tidegate.Lane) tidegate.Step {
	held := ""
	return func(text string, last bool) (tidegate.Through, error) {
		if text == "" {
			return tidegate.Through{}, nil
		}
		held += text
		if last {
			return tidegate.Through{Text: held}, nil
		}
		return tidegate.Through{}, nil
	}
}

// The tests of a module in which a case is not as it says.
func TestCasesSayWhatDiffersAndThatAnotherCutMatters(t *testing.T) {
	if os.Getenv("WRONG_CASES") != "" {
		operator := handles(func(tidegate.Lane) tidegate.Step {
			return func(text string, _ bool) (tidegate.Through, error) {
				if len(text) > 3 {
					text = "long"
				}
				return tidegate.Through{Text: text}, nil
			}
		})
		tidegate.RunCases(t, operator, os.Getenv("WRONG_CASES"))
		return
	}
	saysOfCases(t, `{"pieces": ["go", "od"], "through": ["go", "no"], "end": "stop"}`,
		`through: expected ["go" "no"], came ["go" "od"]`,
		`end: expected "stop", came ""`,
		`the same text in one piece: expected "good" and the end "", came "long" and ""`,
	)
}

func TestCasesFindWhatIsLostWhereTheEndComesWithoutAText(t *testing.T) {
	if os.Getenv("WRONG_CASES") != "" {
		tidegate.RunCases(t, handles(forgets), os.Getenv("WRONG_CASES"))
		return
	}
	saysOfCases(t, `{"pieces": ["go", "od"], "through": "good"}`,
		`the same text with its end apart: expected "good" and the end "", came "" and ""`,
	)
}

// saysOfCases runs this test once more over a case that is not as it says, and looks for what is said of it.
func saysOfCases(t *testing.T, tokens string, parts ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.json")
	cases := `{"cases": [{"name": "one", "tokens": ` + tokens + `}]}`
	if err := os.WriteFile(file, []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	command.Env = append(os.Environ(), "WRONG_CASES="+file)
	said, err := command.CombinedOutput()
	for _, part := range parts {
		if err == nil || !strings.Contains(string(said), part) {
			t.Errorf("%v: %s", err, said)
		}
	}
}
