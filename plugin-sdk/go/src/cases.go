//go:build !wasip1

package tidegate

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// RunCases runs the cases of files (patterns as "cases/*.json") natively, each as a test of its own. They are those that
// `tidegate test` runs in the sandbox; cases that only a sandbox can run are skipped.
func RunCases[Config any](t *testing.T, operator Operator[Config], patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err == nil && len(files) == 0 {
			err = errors.New("no file has this name")
		}
		if err != nil {
			t.Fatalf("cases %q: %s", pattern, err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) { runFile(t, operator, file) })
		}
	}
}

func runFile[Config any](t *testing.T, operator Operator[Config], file string) {
	read, err := readCases(file)
	if err != nil {
		t.Fatalf("%s: %s", file, err)
	}
	for _, one := range read.Cases {
		if one.Sandbox {
			continue // tidegate test runs it.
		}
		t.Run(one.Name, func(t *testing.T) {
			config := read.Config
			if one.Config != nil {
				config = one.Config
			}
			if err := runCase(operator, string(config), one); err != nil {
				t.Errorf("%s: case %q: %s", file, one.Name, err)
			}
		})
	}
}

type caseFile struct {
	Schema string          `json:"$schema"`
	Config json.RawMessage `json:"config"`
	Cases  []caseOf        `json:"cases"`
}

type caseOf struct {
	Name     string          `json:"name"`
	Config   json.RawMessage `json:"config"`
	Clock    *int64          `json:"clock"`
	Seed     string          `json:"seed"`
	Limits   json.RawMessage `json:"limits"`
	Sandbox  bool            `json:"sandbox"`
	Records  []caseRecord    `json:"records"`
	Outcomes *[]caseOutcome  `json:"outcomes"`
	Log      *[]caseLine     `json:"log"`
	Metrics  *[]caseMetric   `json:"metrics"`
	Failure  *caseFailure    `json:"failure"`
	Refused  *caseFailure    `json:"refused"`
	Tokens   *caseTokens     `json:"tokens"`
}

func readCases(file string) (*caseFile, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var read caseFile
	if err := strictly(text, &read); err != nil {
		return nil, err
	}
	return &read, nil
}

// strictly reads JSON that has nothing unknown.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// runCase says how what came differs from what the case expects.
func runCase[Config any](operator Operator[Config], config string, one caseOf) error {
	harness, err := StartHarness(operator, config)
	if one.Refused != nil {
		if err == nil {
			return errors.New("the configuration was to be refused, the operator started")
		}
		return one.Refused.compare(err)
	}
	if err != nil {
		return fmt.Errorf("the operator does not start: %w", err)
	}
	if one.Clock != nil {
		harness.SetClock(time.UnixMicro(*one.Clock))
	}
	if one.Seed != "" {
		seed, err := hex.DecodeString(one.Seed)
		if err != nil || len(seed) != 16 {
			return fmt.Errorf("seed is %q, expected 32 hexadecimal digits", one.Seed)
		}
		harness.SetSeed([16]byte(seed))
	}
	if one.Tokens != nil {
		return one.Tokens.run(harness, one)
	}
	records := make([]TestRecord, len(one.Records))
	for index, record := range one.Records {
		records[index] = record.record(index)
	}
	answers, err := harness.try(records)
	switch {
	case one.Failure != nil && err == nil:
		return errors.New("the batch was to fail, it was answered")
	case one.Failure != nil:
		err = one.Failure.compare(err)
	case err != nil:
		return fmt.Errorf("the batch failed: %w", err)
	case one.Outcomes == nil:
		return errors.New("it expects neither outcomes nor a failure nor to be refused")
	default:
		err = compareOutcomes(*one.Outcomes, answers)
	}
	return errors.Join(err, compareLog(one.Log, harness.lines), compareMetrics(one.Metrics, harness.measured))
}

type caseRecord struct {
	Key        caseBytes `json:"key"`
	Value      caseBytes `json:"value"`
	Headers    casePairs `json:"headers"`
	Attributes casePairs `json:"attributes"`
	EventTime  *int64    `json:"event-time"`
	ID         *caseID   `json:"id"`
}

type caseID struct {
	Origin    string  `json:"origin"`
	Source    uint16  `json:"source"`
	Partition uint32  `json:"partition"`
	Offset    *uint64 `json:"offset"`
	Emit      uint64  `json:"emit"`
}

func (r caseRecord) record(index int) TestRecord {
	record := TestRecord{
		Key:        r.Key.bytes,
		Value:      r.Value.bytes,
		Headers:    r.Headers,
		Attributes: r.Attributes,
		ID:         ID{Offset: uint64(index)},
	}
	if r.EventTime != nil && *r.EventTime != noTime {
		record.EventTime = time.UnixMicro(*r.EventTime)
	}
	if r.ID == nil {
		return record
	}
	record.ID.Source, record.ID.Partition, record.ID.Emit = r.ID.Source, r.ID.Partition, r.ID.Emit
	if r.ID.Offset != nil {
		record.ID.Offset = *r.ID.Offset
	}
	if r.ID.Origin == Timer.String() {
		record.ID.Origin = Timer
	}
	return record
}
