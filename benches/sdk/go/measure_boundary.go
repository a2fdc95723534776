// The operator of the boundary's benches, in Go: tests/guests/bench-operator says what it does.
package main

import "measure-boundary/tidegate"

// Config is what it does.
type Config struct {
	Mode string `json:"mode" doc:"What it does." enum:"filter,echo"`
}

func init() {
	tidegate.Run(tidegate.Operator[Config]{
		Name:    "measure-boundary",
		Version: "1.0.0",
		Reads:   tidegate.Value,
		Start:   start,
	})
}

func main() {}

func start(config Config) (tidegate.Process, error) {
	if config.Mode == "echo" {
		return echo, nil
	}
	return filter, nil
}

func filter(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
	if value := record.Value(); len(value) > 10 && value[10]%2 == 1 {
		return tidegate.Drop(), nil
	}
	return tidegate.Pass(), nil
}

func echo(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
	value := record.Value()
	if value == nil {
		return tidegate.Pass(), nil
	}
	return tidegate.Replace(tidegate.Change().SetValue(value)), nil
}
