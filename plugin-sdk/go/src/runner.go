package tidegate

import (
	"context"
	"fmt"
)

// running is an operator that has been started and answers batches. The exports for WebAssembly and the harness of tests
// both use it.
type running struct {
	name    string
	metrics []*metric
	process Process
	outputs []string
	open    OpenLane
	lanes   map[uint64]*lane
	batch   batch
	answer  answer
	context Context
}

// described gives the outputs under a configuration, JSON text, as they are described.
func (p *program) described(config string) (outputs []string, failure *Failure) {
	if failure := p.declared(); failure != nil {
		return nil, failure
	}
	defer failPanic(&failure)
	outputs, err := p.outputs(config)
	return outputs, configFailure(err)
}

// declared is what is wrong with how the operator is declared.
func (p *program) declared() *Failure {
	if p.wrong == nil {
		return nil
	}
	return Permanent("bad-operator", fmt.Sprintf("operator %q is declared wrongly: %s", p.name, oneLine(p.wrong)))
}

// failPanic makes a panic a failure; it is what is deferred.
func failPanic(failure **Failure) {
	if recovered := recover(); recovered != nil {
		*failure = Permanent("panic", panicText(recovered))
	}
}

// configFailure takes an error as the failure that it is or wraps, else as one of the configuration.
func configFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	if failure := asFailure(err); failure != nil {
		return failure
	}
	return BadConfiguration("bad-config", err.Error())
}

// startWith reads the configuration, JSON text, and starts the operator.
func (p *program) startWith(config string) (r *running, failure *Failure) {
	if failure := p.declared(); failure != nil {
		return nil, failure
	}
	defer failPanic(&failure)
	made, err := p.start(config)
	if err != nil {
		return nil, configFailure(err)
	}
	r = &running{name: p.name, metrics: p.metrics, process: made.process, outputs: made.outputs}
	r.open, r.lanes = made.open, make(map[uint64]*lane)
	r.context = Context{Context: context.Background(), running: r}
	return r, nil
}

// answerTo answers a packed batch with packed outcomes, one for each record. The answer is valid until the next.
func (r *running) answerTo(bytes []byte) ([]byte, *Failure) {
	if failure := r.batch.view(bytes); failure != nil {
		return nil, failure
	}
	defer func() { r.batch.bytes = nil }()
	r.answer.begin(r.batch.count)
	for next := 0; next < r.batch.count; {
		came, failure := r.from(next)
		if failure != nil {
			return nil, failure
		}
		next = came
	}
	return r.answer.finish(), nil
}

// from processes records until one panics, or to the last, and gives the index of the next. So a record that does not
// panic costs nothing for those that do.
func (r *running) from(first int) (next int, failure *Failure) {
	context, answer := &r.context, &r.answer
	defer func() {
		if recovered := recover(); recovered != nil {
			answer.back(context.mark, true)
			answer.deadLetter(context.index, panicText(recovered))
			next, failure = context.index+1, nil
		}
	}()
	for index := first; index < r.batch.count; index++ {
		context.index, context.mark = index, answer.mark()
		outcome, err := r.process(context, r.batch.record(index))
		if err == nil && outcome.action <= actionDrop {
			answer.bytes[answerHeader+index] = byte(outcome.action)
			continue
		}
		// What was measured beside an outcome that cannot be written belongs to nothing.
		unwritten := false
		if err == nil {
			err = answer.write(index, &outcome, r.outputs)
			unwritten = err != nil
		}
		if err != nil {
			if failure := asFailure(err); failure != nil {
				return index, failure
			}
			answer.back(context.mark, unwritten)
			answer.deadLetter(index, err.Error())
		}
	}
	return r.batch.count, nil
}
