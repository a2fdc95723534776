package tidegate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What the host would refuse of an operator's declaration is said by name, when it starts and in its tests.

const (
	maxNameBytes  = 128
	maxOutputs    = 256
	maxMetrics    = 64
	maxMetricName = 64
	maxHelp       = 512
	maxLabels     = 8
	maxBounds     = 32
)

func (p *program) check(outputs []string) error {
	var wrong []error
	if err := checkName("Name", p.name); err != nil {
		wrong = append(wrong, err)
	}
	if !isSemver(p.version) {
		wrong = append(wrong, fmt.Errorf("Version is %q, expected semver as \"1.2.3\"", p.version))
	}
	if err := checkOutputs(outputs); err != nil {
		wrong = append(wrong, err)
	}
	if len(p.metrics) > maxMetrics {
		wrong = append(wrong, fmt.Errorf("there are %d metrics, at most %d can be", len(p.metrics), maxMetrics))
	}
	for index, declared := range p.metrics {
		if err := declared.check(); err != nil {
			wrong = append(wrong, fmt.Errorf("metric %q: %w", declared.name, err))
		}
		if err := declared.checkShown(p.metrics[:index]); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

func (m *metric) check() error {
	if !isMetricName(m.name) {
		return fmt.Errorf("its name is not [a-z][a-z0-9_]* of at most %d bytes", maxMetricName)
	}
	if len(m.help) > maxHelp || strings.ContainsFunc(m.help, disturbs) || !utf8.ValidString(m.help) {
		return fmt.Errorf("its help is not one line of at most %d bytes", maxHelp)
	}
	if len(m.labels) > maxLabels {
		return fmt.Errorf("it has %d labels, at most %d can be", len(m.labels), maxLabels)
	}
	for index, label := range m.labels {
		switch {
		case !isMetricName(label):
			return fmt.Errorf("its label %q is not [a-z][a-z0-9_]* of at most %d bytes", label, maxMetricName)
		case label == "slot" || label == "revision" || label == "le":
			return fmt.Errorf("its label %q is the host's own", label)
		case slices.Contains(m.labels[:index], label):
			return fmt.Errorf("it has two labels %q", label)
		}
	}
	if len(m.bounds) > maxBounds {
		return fmt.Errorf("it has %d bounds, at most %d can be", len(m.bounds), maxBounds)
	}
	for index, bound := range m.bounds {
		if math.IsNaN(bound) || math.IsInf(bound, 0) || index > 0 && bound <= m.bounds[index-1] {
			return fmt.Errorf("its bounds %v are not finite and ascending", m.bounds)
		}
	}
	return nil
}

func checkOutputs(outputs []string) error {
	if len(outputs) > maxOutputs {
		return fmt.Errorf("there are %d outputs, at most %d can be", len(outputs), maxOutputs)
	}
	for index, name := range outputs {
		if err := checkName("an output", name); err != nil {
			return err
		}
		if slices.Contains(outputs[:index], name) {
			return fmt.Errorf("there are two outputs %q", name)
		}
	}
	return nil
}

func checkName(what, name string) error {
	isOdd := func(letter rune) bool { return disturbs(letter) || isJoiner(letter) }
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, isOdd) {
		return fmt.Errorf("%s is %q, expected 1 to %d bytes of characters that can be seen", what, name, maxNameBytes)
	}
	return nil
}

// Scripts need joiners in a text, and no name does.
func isJoiner(letter rune) bool { return letter == 0x200c || letter == 0x200d }

// disturbing are the characters that cannot be seen or change how what is around them is shown, as the host has them.
var disturbing = [][2]rune{
	{0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5},
	{0x180e, 0x180e}, {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x2064}, {0x2066, 0x206f},
	{0x3164, 0x3164}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
}

func disturbs(letter rune) bool {
	return slices.ContainsFunc(disturbing, func(within [2]rune) bool { return within[0] <= letter && letter <= within[1] })
}

// shown are the names under which the host shows a metric, without what they all begin with.
func (m *metric) shown() []string {
	switch {
	case m.kind == kindCounter && !strings.HasSuffix(m.name, "_total"):
		return []string{m.name + "_total"}
	case m.kind == kindHistogram:
		return []string{m.name, m.name + "_bucket", m.name + "_sum", m.name + "_count"}
	}
	return []string{m.name}
}

func (m *metric) checkShown(others []*metric) error {
	if slices.ContainsFunc(others, func(other *metric) bool { return other.name == m.name }) {
		return fmt.Errorf("there are two metrics %q", m.name)
	}
	own := m.shown()
	if slices.Contains(own, "series_refused_total") {
		return fmt.Errorf("metric %q is shown as one of the host", m.name)
	}
	for _, other := range others {
		for _, name := range other.shown() {
			if slices.Contains(own, name) {
				return fmt.Errorf("metric %q is shown as %s, as metric %q is", m.name, name, other.name)
			}
		}
	}
	return nil
}

// isMetricName tells whether this is [a-z][a-z0-9_]* of at most 64 bytes.
func isMetricName(name string) bool {
	for at, letter := range name {
		isInner := at > 0 && (letter == '_' || '0' <= letter && letter <= '9')
		if !isInner && (letter < 'a' || letter > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= maxMetricName
}

// isSemver tells whether this is a version as semver.org has it, but for the details of what stands after the numbers.
func isSemver(version string) bool {
	numbers, rest := version, ""
	if at := strings.IndexAny(version, "-+"); at >= 0 {
		numbers, rest = version[:at], version[at+1:]
		if rest == "" {
			return false
		}
	}
	isOdd := func(letter rune) bool {
		isWord := 'a' <= letter && letter <= 'z' || 'A' <= letter && letter <= 'Z' || '0' <= letter && letter <= '9'
		return !isWord && !strings.ContainsRune(".-+", letter)
	}
	parts := strings.Split(numbers, ".")
	for _, part := range parts {
		number, err := strconv.ParseUint(part, 10, 64)
		if err != nil || part != strconv.FormatUint(number, 10) {
			return false
		}
	}
	return len(parts) == 3 && len(version) <= maxNameBytes && !strings.ContainsFunc(rest, isOdd)
}
