//go:build !wasip1

package tidegate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// caseLine is a line of the log that is expected: its level and its text.
type caseLine struct {
	level string
	text  caseText
}

func (l *caseLine) UnmarshalJSON(text []byte) error {
	var said [2]json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	if err := json.Unmarshal(said[0], &l.level); err != nil {
		return err
	}
	return l.text.UnmarshalJSON(orNull(said[1]))
}

func compareLog(expected *[]caseLine, came []LogLine) error {
	if expected == nil {
		return nil
	}
	if len(*expected) != len(came) {
		return fmt.Errorf("log: expected %d lines, came %v", len(*expected), came)
	}
	for index, line := range *expected {
		if line.level != came[index].Level.String() {
			return fmt.Errorf("log: line %d: expected the level %s, came %s", index+1, line.level, came[index].Level)
		}
		if err := line.text.compare(fmt.Sprintf("log: line %d", index+1), came[index].Text); err != nil {
			return err
		}
	}
	return nil
}

// caseMetric is what a metric is expected to be after the case.
type caseMetric struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Value  caseValue         `json:"value"`
}

// caseValue is a number, or what a histogram has.
type caseValue struct {
	Count *uint64 `json:"count,omitempty"`
	Sum   float64 `json:"sum"`
}

func (v *caseValue) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, &v.Sum)
	}
	type plain caseValue
	return strictly(text, (*plain)(v))
}

func (v caseValue) String() string {
	if v.Count != nil {
		return fmt.Sprintf("%d of the sum %v", *v.Count, v.Sum)
	}
	return fmt.Sprint(v.Sum)
}

func compareMetrics(expected *[]caseMetric, came []measurement) error {
	if expected == nil {
		return nil
	}
	wanted := make(map[string]caseValue)
	for _, one := range *expected {
		wanted[fmt.Sprintf("%s%v", one.Name, one.Labels)] = one.Value
	}
	values := make(map[string]caseValue)
	for _, sample := range came {
		labels := make(map[string]string)
		for index, label := range sample.metric.labels {
			labels[label] = sample.labels[index]
		}
		place := fmt.Sprintf("%s%v", sample.metric.name, labels)
		value := values[place]
		switch sample.metric.kind {
		case kindCounter:
			value.Sum += float64(sample.bits)
		case kindGauge:
			value.Sum = math.Float64frombits(sample.bits)
		case kindHistogram:
			count := uint64(1)
			if value.Count != nil {
				count += *value.Count
			}
			value.Count, value.Sum = &count, value.Sum+math.Float64frombits(sample.bits)
		}
		values[place] = value
	}
	var wrong []string
	for place, value := range wanted {
		if found := values[place]; !found.isNear(value) {
			wrong = append(wrong, fmt.Sprintf("%s: expected %s, came %s", place, value, found))
		}
	}
	for place, value := range values {
		if _, isWanted := wanted[place]; !isWanted && !value.isNear(caseValue{}) {
			wrong = append(wrong, fmt.Sprintf("%s: expected nothing, came %s", place, value))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return fmt.Errorf("metrics: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// isNear tells whether two values are the same but for how sums were rounded. What stayed at zero is as if it had not been
// measured.
func (v caseValue) isNear(other caseValue) bool {
	if (v.Count == nil) != (other.Count == nil) || v.Count != nil && *v.Count != *other.Count {
		return false
	}
	return math.Abs(v.Sum-other.Sum) <= 1e-9*max(math.Abs(v.Sum), math.Abs(other.Sum))
}
