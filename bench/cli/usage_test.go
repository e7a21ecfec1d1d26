package cli_test

import (
	"context"
	"strings"
	"testing"

	"godwit.dev/godwit/bench/cli"
	"godwit.dev/godwit/internal/server/cli/command"
)

const senseless = `
bench unicast --runs 0
bench unicast --workers 0
bench unicast --url nowhere
bench unicast --cores -1
bench unicast --cores 100000
bench unicast --memory much
bench unicast --memory 1MB
bench unicast --cores 1 --url http://127.0.0.1:1
bench store --cores 1
bench gateway --memory 1GB
bench unicast --publish pigeon
bench unicast --clients 0
bench unicast --publishers 0
bench unicast --size 0
bench unicast --batch 0
bench unicast --batch 10001
bench unicast --rate -1
bench unicast --for 0s
bench unicast --prefill -1
bench unicast --stubs 1 --url http://127.0.0.1:1
bench fanout --objects --publish grpc
bench fanout --objects --prefill 1
bench fanout --publish batch
bench topics --transport sse
bench topics --publish grpc
bench topics --prefill 1
bench topics-slow --slow 0
bench topics-slow --storm 0
bench topics-slow --pairs 0
bench topics-slow --url http://127.0.0.1:1
bench gateway --connections 0
bench docs --searches 0
bench docs --url http://127.0.0.1:1
bench console --recipients 0
bench console --url http://127.0.0.1:1
bench escalation --cap 0
bench escalation --pairs -1
bench nammayatri --masters 2
bench nammayatri --shards 100
bench nammayatri --rates 0
bench nammayatri --publishers 0
bench nammayatri --url http://127.0.0.1:1
bench sources --url http://127.0.0.1:1
bench sources --writers 0
bench sources --rate 0
bench sources --bulk -1
bench unicast --steps 1 --publish grpc
bench unicast --steps 8
bench unicast --steps -1
bench slow --every 1
bench slow --pairs 0
bench objects latency --clients 0
bench objects latency --clients 10,0
bench objects latency --publishers 0
bench objects latency --for 0s
bench objects latency --rates 0
bench objects latency --ack-after -1s
bench objects scale --registrations 0
bench objects scale --registrations 10001
bench objects scale --objects 0
bench objects recovery --clients 0
bench objects recovery --lost everything
bench objects latency --join-addr 7000
bench objects latency --join-addr :7000
bench objects latency --join-addr 0.0.0.0:7000
bench objects latency --join-addr 127.0.0.1:0 --machines 0
bench worker --join 127.0.0.1:1
bench matrix --clients 0
bench matrix --samples 0
bench matrix --open 99
bench matrix --open 1000 --active 0
bench matrix --open 1000 --every 0s
bench matrix --open 1000 --for 0s
bench matrix --open 1000 --url http://127.0.0.1:1
bench sla --servers 0
bench sla --clients 0
bench idle --sessions 0
bench idle --limit -1
bench idle --transports pigeon
bench accept --clients 0
bench accept --concurrency 0
bench storm --clients 0
bench storm --pending 0
bench matrix --sizes 0
bench matrix --within 0s
bench idle --sessions 1000,0
bench compare --url http://127.0.0.1:1
bench compare --sessions 0
bench push --url http://127.0.0.1:1
bench push --size 5000
bench push --sessions -1
bench recipients --url http://127.0.0.1:1
bench recipients --recipients 0
bench mqtt --clients 0
bench mqtt --rate -1
bench mqtt --settle 0s
bench mqtt --url http://127.0.0.1:1
bench compare --fan 0
bench serial pigeon
bench serial
bench serial fanout --threads 0
bench serial fanout --for 0s
bench serial fanout --clients -1
bench serial gateway --url http://127.0.0.1:1
bench compare --for 0s
bench report
bench objects scale --over -1s
bench objects scale --rate -1
bench objects scale --steps 0
bench objects scale --clients 0
`

// sensible lists measurements at the limits of the allowed values.
const sensible = `
bench unicast --steps 7
bench nammayatri --clients 1 --publishers 1 --size 1 --for 1ns --cost-for 1ns --settle 1ns --shards 1 --idle 0 --pairs 0 --poison 0
bench sources --clients 1 --writers 1 --size 1 --rate 1 --warmup 0s --for 1ns --rows 0 --bulk 0 --other 0
`

// TestMeasurementsThatMakeNoSenseAreRefused: invalid measurements fail before they begin, not minutes later.
func TestMeasurementsThatMakeNoSenseAreRefused(t *testing.T) {
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for lines, refused := range map[string]bool{senseless: true, sensible: false} {
		for line := range strings.Lines(strings.TrimSpace(lines)) {
			line = strings.TrimSpace(line)
			var out, errs strings.Builder
			code := cli.Run(late, strings.Fields(line)[1:], strings.NewReader(""), &out, &errs, nil)
			if (code == command.ExitUsage) != refused || code == command.ExitOK || out.Len() > 0 {
				t.Errorf("godwit %s ended with %d and said:\n%s%s", line, code, &out, &errs)
			}
		}
	}
}
