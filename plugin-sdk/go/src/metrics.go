package tidegate

import (
	"fmt"
	"math"
)

// Metric is what an operator measures: a [Counter], a [Gauge] or a [Histogram], which [Operator.Metrics] names. It is
// measured while a record is processed, and counts if the outcome of that record does: records that come again count
// once. The host shows it as tidegate_operator_NAME.
type Metric interface {
	metric() *metric
}

// Limits of what is measured.
const (
	// Most measurements of one record.
	maxSamples = 256
	// Bytes of the longest value of a label; a longer one is cut.
	maxLabel = 256
)

type metricKind uint8

const (
	kindCounter metricKind = iota
	kindGauge
	kindHistogram
)

func (k metricKind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

type metric struct {
	name, help string
	kind       metricKind
	labels     []string
	bounds     []float64
}

// Counter is a sum of amounts.
type Counter struct{ declared metric }

// Gauge is the last of some values.
type Gauge struct{ declared metric }

// Histogram is how often values fell between bounds.
type Histogram struct{ declared metric }

// NewCounter declares a counter: its name ([a-z][a-z0-9_]*, at most 64 bytes), one line for people, and the names of its
// labels, at most 8.
func NewCounter(name, help string, labels ...string) *Counter {
	return &Counter{metric{name: name, help: help, kind: kindCounter, labels: labels}}
}

// NewGauge declares a gauge.
func NewGauge(name, help string, labels ...string) *Gauge {
	return &Gauge{metric{name: name, help: help, kind: kindGauge, labels: labels}}
}

// NewHistogram declares a histogram by its upper bounds, ascending and at most 32; nil for the usual ones, which are for
// seconds (0.005 to 10).
func NewHistogram(name, help string, bounds []float64, labels ...string) *Histogram {
	return &Histogram{metric{name: name, help: help, kind: kindHistogram, labels: labels, bounds: bounds}}
}

func (c *Counter) metric() *metric   { return &c.declared }
func (g *Gauge) metric() *metric     { return &g.declared }
func (h *Histogram) metric() *metric { return &h.declared }

// Add adds an amount, under these values of its labels in their order.
func (c *Counter) Add(ctx *Context, amount uint64, labels ...string) {
	ctx.measure(&c.declared, amount, labels)
}

// Set sets the value, under these values of its labels in their order. One that is not finite is ignored.
func (g *Gauge) Set(ctx *Context, value float64, labels ...string) {
	ctx.measureValue(&g.declared, value, labels)
}

// Observe adds a value, under these values of its labels in their order. One that is not finite is ignored.
func (h *Histogram) Observe(ctx *Context, value float64, labels ...string) {
	ctx.measureValue(&h.declared, value, labels)
}

func (c *Context) measureValue(measured *metric, value float64, labels []string) {
	// The host would refuse the whole answer.
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	c.measure(measured, math.Float64bits(value), labels)
}

// measure panics where the operator is wrong: the record becomes a dead letter that says where.
func (c *Context) measure(measured *metric, bits uint64, labels []string) {
	index := -1
	for at, declared := range c.running.metrics {
		if declared == measured {
			index = at
			break
		}
	}
	if index < 0 {
		panic(fmt.Sprintf("metric %q is not among the metrics of operator %s", measured.name, c.running.name))
	}
	if len(labels) != len(measured.labels) {
		panic(fmt.Sprintf("metric %q is measured with %d labels, it has %d", measured.name, len(labels), len(measured.labels)))
	}
	answer := &c.running.answer
	if answer.sampled-c.mark.sampled >= maxSamples {
		panic(fmt.Sprintf("a record has more than %d measurements", maxSamples))
	}
	answer.sample(c.index, index, bits, labels)
}
