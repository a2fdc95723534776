package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// Most broken rules of a value that are looked at closely, and the largest `shown`; the others are only counted.
	maxRules = 20
	// Bytes of what is said about one rule, and of the place where it is broken.
	maxReason = 512
	maxPlace  = 512
)

var english = message.NewPrinter(language.English)

// rule is one that a value breaks. Its reason is put into words only where it is shown, or where two rules differ in
// nothing else: that costs more than to find it.
type rule struct {
	path []string
	rule string
	of   jsonschema.ErrorKind
	why  string
	// How often it is broken: schemas of a list may say the same.
	times int
}

// alone is what is wrong with a value as a whole.
func alone(keyword, why string) broken {
	return broken{rules: []rule{{rule: keyword, why: cut(why, maxReason), times: 1}}}
}

func (r *rule) reason() string {
	if r.why == "" {
		// Some reasons begin with the keyword themselves.
		r.why = strings.TrimPrefix(reason(r.of), r.rule+": ")
	}
	return r.why
}

func (r *rule) String() string { return fmt.Sprintf("%s: %s: %s", pointer(r.path), r.rule, r.reason()) }

// compare orders rules by place, keyword and reason.
func compare(one, other *rule) int {
	if order := slices.CompareFunc(one.path, other.path, compareSteps); order != 0 {
		return order
	}
	if order := strings.Compare(one.rule, other.rule); order != 0 {
		return order
	}
	// Names come from the value, of which there may be any number at one place; all else that is at one place comes
	// from the schema.
	name, isName := one.of.(*kind.PropertyNames)
	otherName, isOtherName := other.of.(*kind.PropertyNames)
	if isName && isOtherName {
		return strings.Compare(name.Property, otherName.Property)
	}
	return strings.Compare(one.reason(), other.reason())
}

// compareSteps orders entries of a list by their number, and members by their name.
func compareSteps(one, other string) int {
	if isNumber(one) && isNumber(other) {
		// Without zeros in front the longer one is the larger.
		if order := cmp.Compare(len(one), len(other)); order != 0 {
			return order
		}
	}
	return strings.Compare(one, other)
}

func isNumber(step string) bool {
	for at := range len(step) {
		if step[at] < '0' || step[at] > '9' {
			return false
		}
	}
	return step == "0" || step != "" && step[0] != '0'
}

// broken are the rules that a value breaks: the first of them in their order, and how many others there are.
type broken struct {
	rules  []rule
	others int
}

// rulesOf are the innermost causes of an error, always in the same order: that of a map in Go is not. None for another
// error.
func rulesOf(err error) broken {
	var found broken
	var top *jsonschema.ValidationError
	if errors.As(err, &top) {
		found.gather(top)
	}
	return found
}

func (b *broken) gather(from *jsonschema.ValidationError) {
	found := rule{path: from.InstanceLocation, rule: keyword(from.ErrorKind), of: from.ErrorKind, times: 1}
	if _, ok := from.ErrorKind.(*kind.PropertyNames); ok {
		// Its causes say places within the name, and its own place is overwritten while the library goes on.
		found.path = nil
	} else if len(from.Causes) > 0 {
		for _, cause := range from.Causes {
			b.gather(cause)
		}
		return
	}
	b.add(found)
}

// add keeps a rule among the first. What is counted does not depend on the order in which they are found.
func (b *broken) add(found rule) {
	at, isThere := slices.BinarySearchFunc(b.rules, found, func(one, other rule) int { return compare(&one, &other) })
	switch {
	case isThere:
		b.rules[at].times++
	case at == maxRules:
		b.others++
	default:
		if len(b.rules) == maxRules {
			b.others += b.rules[maxRules-1].times
			b.rules = b.rules[:maxRules-1]
		}
		b.rules = slices.Insert(b.rules, at, found)
	}
}

// shown says the first of the rules that are broken, and how many more there are.
func (b *broken) shown(most int) string {
	var said strings.Builder
	most = min(most, len(b.rules))
	for index := range b.rules[:most] {
		if index > 0 {
			said.WriteString("; ")
		}
		said.WriteString(b.rules[index].String())
	}
	if more := len(b.rules) - most + b.others; more > 0 {
		fmt.Fprintf(&said, "; and %d more", more)
	}
	return said.String()
}

// keyword is the one of the schema whose rule is broken.
func keyword(of jsonschema.ErrorKind) string {
	switch of.(type) {
	case *kind.FalseSchema:
		return "false"
	case *kind.Not:
		return "not"
	}
	if path := of.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	return "schema"
}

func reason(of jsonschema.ErrorKind) string {
	// The names that are missing come in the order of the schema, those that are too many in that of a map.
	if many, ok := of.(*kind.AdditionalProperties); ok {
		slices.Sort(many.Properties)
	}
	return cut(of.LocalizedString(english), maxReason)
}

// cut shortens a text to so many bytes, at the border of a character.
func cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	for longest > 0 && !utf8.RuneStart(text[longest]) {
		longest--
	}
	return text[:longest] + "..."
}

// pointer is a JSON Pointer to a place, cut where it is long; "/" is the whole value.
func pointer(path []string) string {
	if len(path) == 0 {
		return "/"
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var to strings.Builder
	for _, step := range path {
		if to.Len() > maxPlace {
			break
		}
		to.WriteByte('/')
		// The rest of a longer name would be cut below.
		to.WriteString(escape.Replace(step[:min(len(step), maxPlace+1)]))
	}
	return cut(to.String(), maxPlace)
}
