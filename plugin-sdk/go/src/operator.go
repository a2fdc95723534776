package tidegate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Process says what becomes of a record. An error is a dead letter of that record alone, with the error's text, unless it
// is or wraps a [Failure], which fails the whole batch. A panic is a dead letter too, with its line; what was measured
// for a record that panicked does not count.
type Process func(ctx *Context, record Record) (Outcome, error)

// Operator is what the host is told of an operator, and what runs it. Config is its configuration, the `config` table of
// its stage: a struct with tags, see [Schema]; [NoConfig] if it has none.
type Operator[Config any] struct {
	// Name is a verb: "redact-pii". 1 to 128 bytes.
	Name string
	// Version is semver: "1.2.3".
	Version string
	// Reads are the fields that are copied in, with | between them. Of the others nothing is there.
	Reads Fields
	// Outputs are the names of its outputs beside the main one, at most 256.
	Outputs []string
	// OutputsOf gives the outputs instead where they depend on the configuration.
	OutputsOf func(Config) []string
	// Metrics are what it measures, at most 64.
	Metrics []Metric
	// Start is called once for each instance, before any batch. It makes of the configuration what is needed for
	// records, and gives the function for them. An error says what is wrong with the configuration, and is shown to the
	// user; one that is a [Failure] can say that it is something else.
	Start func(Config) (Process, error)
	// Process is the function for records where nothing has to be made of the configuration. Set it or Start.
	Process Process
	// Tokens makes of the configuration what handles the text of answers as a model makes them; operator.toml then has
	// handlers = ["tokens"]. It is called after Start.
	Tokens func(Config) (OpenLane, error)
}

// NoConfig is the configuration of an operator that has none; any key is an error.
type NoConfig struct{}

// Context is what an operator is called with beside the record. It is valid until Process returns, and a
// context.Context that is never cancelled, for libraries that want one: an operator that takes too long is stopped from
// outside.
type Context struct {
	context.Context
	running *running
	// The record in hand: its index, and how far the answer had come before it.
	index int
	mark  mark
}

// Now is the batch's clock, to the microsecond and in UTC: the one time an operator sees.
func (c *Context) Now() time.Time { return time.UnixMicro(c.running.batch.clock()).UTC() }

// program is an operator whatever its configuration.
type program struct {
	name, version string
	reads         Fields
	metrics       []*metric
	handlesTokens bool
	// What is wrong with how it is declared.
	wrong error
	// The schema of its configuration, and its outputs under one.
	schema  string
	outputs func(config string) ([]string, error)
	start   func(config string) (started, error)
}

// started is what an operator does under a configuration.
type started struct {
	process Process
	open    OpenLane
	outputs []string
}

func (o Operator[Config]) program() *program {
	schema, err := Schema[Config]()
	made := &program{
		name:    o.Name,
		version: o.Version,
		reads:   o.Reads,
		schema:  schema,
		outputs: o.outputsUnder,
		start:   o.start,

		handlesTokens: o.Tokens != nil,
	}
	for _, metric := range o.Metrics {
		made.metrics = append(made.metrics, metric.metric())
	}
	made.wrong = errors.Join(err, made.check(o.Outputs))
	if (o.Start == nil) == (o.Process == nil) {
		made.wrong = errors.Join(made.wrong, errors.New("it needs either Start or Process"))
	}
	made.wrong = errors.Join(made.wrong, checkHandlers(o.Tokens != nil))
	if o.OutputsOf != nil && o.Outputs != nil {
		made.wrong = errors.Join(made.wrong, errors.New("it needs at most one of Outputs and OutputsOf"))
	}
	return made
}

// outputsUnder are those that are described. A configuration that cannot be read is refused by the schema, and by start:
// who only asks what the operator is, with an empty one, gets an answer.
func (o Operator[Config]) outputsUnder(config string) ([]string, error) {
	read, err := ReadConfig[Config](config)
	if err != nil {
		return o.Outputs, nil
	}
	outputs := o.outputsOf(read)
	return outputs, checkOutputs(outputs)
}

func (o Operator[Config]) outputsOf(config Config) []string {
	if o.OutputsOf != nil {
		return o.OutputsOf(config)
	}
	return o.Outputs
}

func (o Operator[Config]) start(config string) (started, error) {
	read, err := ReadConfig[Config](config)
	if err != nil {
		return started{}, err
	}
	made := started{process: o.Process, outputs: o.outputsOf(read)}
	if err := checkOutputs(made.outputs); err != nil {
		return started{}, err
	}
	if o.Start != nil {
		made.process, err = o.Start(read)
		if err == nil && made.process == nil {
			err = Permanent("no-process", "Start gave neither a function for records nor an error")
		}
	}
	if err == nil && o.Tokens != nil {
		made.open, err = o.Tokens(read)
		if err == nil && made.open == nil {
			err = Permanent("no-open", "Tokens gave neither a function for lanes nor an error")
		}
	}
	return made, err
}

// Run makes an operator what this program is. Call it once, from func init: for WebAssembly func main is never called.
func Run[Config any](operator Operator[Config]) {
	if exported != nil {
		panic(fmt.Sprintf("tidegate.Run is called for operator %s and for operator %s", exported.name, operator.Name))
	}
	exported = operator.program()
}

// exported is the operator that the host sees.
var exported *program
