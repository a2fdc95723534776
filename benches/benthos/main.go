// What one record costs the wasm processor of Benthos, which is Redpanda Connect since: nanoseconds, for what
// benches/benches/sdk.rs measures, in batches of 256 through a stream of this processor alone. Its interface has no way to
// drop a record, so the filter writes its answer into the record's metadata. Prints JSON in the form of that bench.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	_ "github.com/benthosdev/benthos/v4/public/components/pure"
	_ "github.com/benthosdev/benthos/v4/public/components/wasm"
	"github.com/benthosdev/benthos/v4/public/service"
)

const (
	records  = 256
	warming  = 300 * time.Millisecond
	measured = 1500 * time.Millisecond
)

func batch(size int) service.MessageBatch {
	var batch service.MessageBatch
	for offset := range records {
		value := make([]byte, size)
		for at := range value {
			value[at] = byte(at*7 + offset)
		}
		batch = append(batch, service.NewMessage(value))
	}
	return batch
}

// check holds what came out of the processor against what went in.
func check(mode string, size int, came service.MessageBatch) error {
	for index, message := range batch(size) {
		if err := came[index].GetError(); err != nil {
			return err
		}
		value, err := message.AsBytes()
		if err != nil {
			return err
		}
		answer, err := came[index].AsBytes()
		if err != nil {
			return err
		}
		kept, _ := came[index].MetaGet("kept")
		if !bytes.Equal(answer, value) || mode == "filter" && kept != fmt.Sprint(1-value[10]%2) {
			return fmt.Errorf("%s, record %d: %q", mode, index, kept)
		}
	}
	return nil
}

func measure(module, mode string, size int) (map[string]float64, error) {
	builder := service.NewStreamBuilder()
	builder.SetThreads(1)
	if err := builder.SetLoggerYAML("level: ERROR"); err != nil {
		return nil, err
	}
	if err := builder.AddProcessorYAML(fmt.Sprintf("wasm: {module_path: %q, function: %s}", module, mode)); err != nil {
		return nil, err
	}
	produce, err := builder.AddBatchProducerFunc()
	if err != nil {
		return nil, err
	}
	var came service.MessageBatch
	err = builder.AddBatchConsumerFunc(func(_ context.Context, batch service.MessageBatch) error {
		came = batch
		return nil
	})
	if err != nil {
		return nil, err
	}
	stream, err := builder.Build()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stream.Run(ctx) }()
	given := batch(size)
	call := func() (time.Duration, error) {
		began := time.Now()
		err := produce(ctx, given)
		return time.Since(began), err
	}
	if _, err := call(); err != nil {
		return nil, err
	}
	if err := check(mode, size, came); err != nil {
		return nil, err
	}
	for began := time.Now(); time.Since(began) < warming; {
		if _, err := call(); err != nil {
			return nil, err
		}
	}
	var calls []time.Duration
	for began := time.Now(); time.Since(began) < measured; {
		took, err := call()
		if err != nil {
			return nil, err
		}
		calls = append(calls, took)
	}
	// What failed in between is fast.
	if err := check(mode, size, came); err != nil {
		return nil, err
	}
	slices.Sort(calls)
	each := func(call time.Duration) float64 { return float64(call.Nanoseconds()) / records }
	cancel()
	<-ended
	return map[string]float64{"shortest": each(calls[0]), "median": each(calls[len(calls)/2]), "calls": float64(len(calls))}, nil
}

func main() {
	figures := map[string]any{}
	for _, mode := range []string{"filter", "echo"} {
		for _, size := range []int{200, 1024} {
			found, err := measure(os.Args[1], mode, size)
			if err != nil {
				log.Fatal(err)
			}
			figures[fmt.Sprintf("%s %d", mode, size)] = found
		}
	}
	printed, err := json.Marshal(map[string]any{"Benthos": map[string]any{"ns_per_record": figures}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(printed))
}
