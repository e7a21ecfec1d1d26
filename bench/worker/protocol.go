// Package worker runs a load generator in a separate process, so that its cost is measured apart from the server's and no process runs out
// of files. The measuring process writes commands to its standard input, one JSON object a line; the worker writes its answers to standard
// output in the same form. Workers of other machines join a run over TLS, with a token; their connection takes the place of both.
package worker

import (
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
)

// MostConnections is the number of connections that one worker holds at most: systems commonly allow 20,000 open files.
const MostConnections = 17_000

// Request is one command; exactly one field is set.
type Request struct {
	Connect    *loadgen.SubscriberConfig `json:"connect,omitempty"`   // make subscribers and connect them
	Reconnect  *Reconnect                `json:"reconnect,omitempty"` // connect the same subscribers again
	Cut        bool                      `json:"cut,omitempty"`       // end all their connections
	Counts     bool                      `json:"counts,omitempty"`
	Latency    bool                      `json:"latency,omitempty"` // return the latencies since the last time
	Since      bool                      `json:"since,omitempty"`   // return how long notifications took from their commits' return, since the last time
	Await      *Await                    `json:"await,omitempty"`
	Publishers *loadgen.PublishConfig    `json:"publishers,omitempty"` // connect publishers
	Redis      *loadgen.RedisConfig      `json:"redis,omitempty"`      // connect publishers to Redis instead
	Postgres   *loadgen.PostgresConfig   `json:"postgres,omitempty"`   // connect writers of transactions, whose commits are compared with what this worker's subscribers get
	Publish    *Publish                  `json:"publish,omitempty"`
	PingPong   *PingPong                 `json:"ping_pong,omitempty"`
	Clock      *Clock                    `json:"clock,omitempty"` // tell the time

	// Of a worker on another machine.
	Welcome bool   `json:"welcome,omitempty"` // it takes part
	Refused string `json:"refused,omitempty"` // it does not, and why
	Ended   bool   `json:"ended,omitempty"`   // the run has ended
}

// Clock sets how far the clock of the publishers is ahead of the worker's, in nanoseconds; nil: leave it as it is.
type Clock struct {
	Ahead *int64 `json:"ahead,omitempty"`
}

// Reconnect sets how many connections are opened at a time; 0: all at once.
type Reconnect struct {
	Concurrency int `json:"concurrency"`
}

// Await waits until a number of notifications have arrived since the start.
type Await struct {
	Received int64         `json:"received"`
	Patience time.Duration `json:"patience"`
}

// Publish lets the publishers publish.
type Publish struct {
	Rate float64       `json:"rate"`
	For  time.Duration `json:"for"`
}

// PingPong publishes Messages notifications to each subscriber; the next one follows as soon as the one before was answered and has
// arrived.
type PingPong struct {
	Messages int           `json:"messages"`
	Patience time.Duration `json:"patience"`
}

// Reply is the answer to a request. If Tick is set, it is a periodic report instead.
type Reply struct {
	Error     string             `json:"error,omitempty"`
	Seconds   float64            `json:"seconds,omitempty"` // that it took
	Counts    *loadgen.Counts    `json:"counts,omitempty"`
	Published *loadgen.Published `json:"published,omitempty"`
	Latency   *latency.Histogram `json:"latency,omitempty"`
	Since     *latency.Histogram `json:"since,omitempty"`
	Usage     *meter.Usage       `json:"usage,omitempty"` // of the worker's process so far, with Latency
	Now       int64              `json:"now,omitempty"`   // the worker's time, with Clock
	Hello     *Machine           `json:"hello,omitempty"` // first of all, from another machine
	Tick      *Tick              `json:"tick,omitempty"`
}

// Tick holds a worker's counts so far. A worker sends one every second.
type Tick struct {
	Live      int64           `json:"live"`
	Received  int64           `json:"received"`
	Published int64           `json:"published"` // copies
	Latency   latency.Summary `json:"latency"`   // of deliveries since the previous tick
}
