package tidegate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
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
		same := func(other *metric) bool { return other.name == declared.name }
		if slices.ContainsFunc(p.metrics[:index], same) {
			wrong = append(wrong, fmt.Errorf("there are two metrics %q", declared.name))
		}
	}
	return errors.Join(wrong...)
}

func (m *metric) check() error {
	if !isMetricName(m.name) {
		return fmt.Errorf("its name is not [a-z][a-z0-9_]* of at most %d bytes", maxMetricName)
	}
	if len(m.help) > maxHelp || strings.ContainsFunc(m.help, unicode.IsControl) || !utf8.ValidString(m.help) {
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
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%s is %q, expected 1 to %d bytes without control characters", what, name, maxNameBytes)
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
