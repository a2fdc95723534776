package tidegate

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// hold holds what was read against the shape.
func (s *shape) hold(tree any, at place) error {
	switch s.kind {
	case shapeAny:
		return nil
	case shapeBool:
		if _, ok := tree.(bool); !ok {
			return at.wrong(tree, "true or false")
		}
		return nil
	case shapeWhole, shapeNumber:
		return s.holdNumber(tree, at)
	case shapeList:
		list, ok := tree.([]any)
		if !ok {
			return at.wrong(tree, "a list")
		}
		if err := s.bounds.length(len(list), "entries", at); err != nil {
			return err
		}
		for index, entry := range list {
			if err := s.each.hold(entry, at.entry(index)); err != nil {
				return err
			}
		}
		return nil
	case shapeMap:
		table, ok := tree.(map[string]any)
		if !ok {
			return at.wrong(tree, "a table")
		}
		if err := s.bounds.length(len(table), "entries", at); err != nil {
			return err
		}
		for _, key := range sortedKeys(table) {
			if err := s.each.hold(table[key], at.key(key)); err != nil {
				return err
			}
		}
		return nil
	case shapeTable:
		return s.holdTable(tree, at)
	}
	return s.holdText(tree, at)
}

func (s *shape) holdText(tree any, at place) error {
	text, ok := tree.(string)
	switch {
	case s.enum != nil && (!ok || !slices.Contains(s.enum, text)):
		return at.wrong(tree, "one of %s", quoted(s.enum))
	case !ok:
		return at.wrong(tree, "text")
	case s.kind == shapeDuration:
		if _, err := time.ParseDuration(text); err != nil {
			return at.wrong(tree, `a duration as "1.5s"`)
		}
		return nil
	}
	return s.bounds.length(utf8.RuneCountInString(text), "characters", at)
}

func (s *shape) holdNumber(tree any, at place) error {
	expected := "a number"
	if s.kind == shapeWhole {
		expected = "a whole number"
	}
	number, ok := tree.(json.Number)
	if ok && s.kind == shapeWhole {
		_, ok = wholeText(number)
	}
	if !ok {
		return at.wrong(tree, "%s", expected)
	}
	if _, err := number.Float64(); err != nil {
		return at.wrong(tree, "%s", expected)
	}
	if s.bounds.least != "" && compare(number, s.bounds.least) < 0 {
		return at.wrong(tree, "at least %s", s.bounds.least)
	}
	if s.bounds.most != "" && compare(number, s.bounds.most) > 0 {
		return at.wrong(tree, "at most %s", s.bounds.most)
	}
	return nil
}

func (s *shape) holdTable(tree any, at place) error {
	table, ok := tree.(map[string]any)
	if !ok {
		return at.wrong(tree, "a table")
	}
	for _, key := range sortedKeys(table) {
		known := func(field shapeField) bool { return field.name == key }
		if !slices.ContainsFunc(s.fields, known) {
			return at.key(key).refuse("is unknown, expected %s", s.keys())
		}
	}
	for _, field := range s.fields {
		inner, ok := table[field.name]
		if !ok {
			if field.isRequired() {
				return at.key(field.name).refuse("is missing")
			}
			continue
		}
		if err := field.shape.hold(inner, at.key(field.name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *shape) keys() string {
	if len(s.fields) == 0 {
		return "no key at all"
	}
	shown := make([]string, len(s.fields))
	for index, field := range s.fields {
		shown[index] = "`" + field.name + "`"
	}
	return strings.Join(shown, ", ")
}

func (b bounds) length(length int, unit string, at place) error {
	number := json.Number(strconv.Itoa(length))
	if b.least != "" && compare(number, b.least) < 0 {
		return at.refuse("has %d %s, expected at least %s", length, unit, b.least)
	}
	if b.most != "" && compare(number, b.most) > 0 {
		return at.refuse("has %d %s, expected at most %s", length, unit, b.most)
	}
	return nil
}

// compare compares whole numbers exactly, and others as float64.
func compare(one, other json.Number) int {
	first, notFirst := parseWhole(one)
	second, notSecond := parseWhole(other)
	if notFirst == nil && notSecond == nil {
		return cmp.Compare(first, second)
	}
	// What is too large is infinite.
	real1, _ := strconv.ParseFloat(string(one), 64)
	real2, _ := strconv.ParseFloat(string(other), 64)
	return cmp.Compare(real1, real2)
}

func parseWhole(number json.Number) (int64, error) {
	text, _ := wholeText(number)
	return strconv.ParseInt(text, 10, 64)
}
