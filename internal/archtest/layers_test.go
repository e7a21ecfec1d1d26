package archtest

import (
	"strings"
	"testing"
)

// layer is a rung of the ladder. A package may import its own rung's packages as far as its family allows, and
// everything below.
type layer int

const (
	domain     layer = iota // plain types and pure rules; standard library only
	codec                   // the client protocol's encodings
	capability              // the behaviour
	adapter                 // what drives capabilities or implements what they need
	wiring                  // typed configuration, wiring and life cycle
	command                 // the command line
	program                 // main
	outside                 // tests, tools: what is not part of the server
)

// places gives every package its rung; the longest prefix counts. A new package needs a place here.
var places = map[string]layer{
	"internal/notification":    domain,
	"internal/object":          domain,
	"internal/topic":           domain,
	"internal/event":           domain,
	"internal/push":            domain,
	"internal/audience":        domain,
	"internal/urlguard":        domain, // leaf: the clients for URLs that people give
	"internal/foreign":         domain, // leaf: what other people's servers say
	"internal/timerwheel":      domain,
	"internal/freeport":        domain,     // leaf: ports for servers of tests
	"internal/keeper":          domain,     // leaf: what ends such servers
	"internal/pgserver":        capability, // leaf: PostgreSQL for tests and benchmarks
	"internal/redisserver":     capability, // leaf: Redis for tests and benchmarks
	"internal/fair":            domain,     // leaf: queues and amounts that apps share
	"internal/latency":         domain,     // leaf: a histogram
	"internal/logqueue":        domain,     // leaf: a writer that never blocks
	"internal/memory":          domain,     // leaf: the collector
	"internal/certs":           domain,     // leaf: certificates from files
	"internal/disk":            capability,
	"internal/follow":          domain, // leaf: a copy in step with its store
	"internal/own":             domain, // leaf: what one server at a time does
	"internal/quiet":           domain,
	"internal/sealed":          domain,     // leaf: tokens that come back
	"internal/encoded":         domain,     // leaf: encodings made once
	"internal/httphead":        domain,     // leaf: headers that others write
	"internal/textfile":        capability, // leaf: encodings of files
	"internal/webhost":         capability, // leaf: hosts as browsers write them
	"internal/tables":          capability,
	"internal/frame":           codec,
	"internal/mailbox":         capability,
	"internal/campaign":        capability,
	"internal/dispatch":        capability,
	"internal/escalation":      capability,
	"internal/pace":            capability,
	"internal/judge":           capability,
	"internal/preference":      capability,
	"internal/template":        capability,
	"internal/recipient":       capability,
	"internal/timeline":        capability,
	"internal/welcome":         capability,
	"internal/session":         capability,
	"internal/cluster":         capability,
	"internal/signal":          capability,
	"internal/pubsub":          capability,
	"internal/request":         capability,
	"internal/delivery":        capability,
	"internal/access":          capability,
	"internal/audit":           capability,
	"internal/people":          capability,
	"internal/limit":           capability,
	"internal/channel":         capability,
	"internal/hook":            capability,
	"internal/source":          capability,
	"internal/sink":            capability,
	"internal/reconcile":       capability,
	"internal/endpoint":        capability,
	"internal/problem":         capability,
	"internal/metrics":         capability,
	"internal/tracing":         capability,
	"internal/watch":           capability,
	"internal/store":           adapter,
	"internal/bus":             adapter,
	"internal/reactor":         adapter,
	"internal/gateway":         adapter,
	"internal/compat":          adapter, // services that this one stands in for
	"internal/httpapi":         adapter,
	"internal/admin":           adapter,
	"internal/sender":          adapter,
	"internal/sink/clickhouse": adapter,
	"internal/config":          wiring,
	"internal/app":             wiring,
	"internal/cli":             command,
	"cmd":                      program,
	"api":                      domain,
	"internal/sdk":             domain, // leaf: built files
	"clients":                  codec,
	"examples":                 outside,
	"bench":                    wiring, // the load generator, which the command line offers
	"test":                     outside,
	"tools":                    outside,
	"internal/archtest":        outside,

	// Suites that tests of several packages share; what serves may not import them.
	"internal/bus/natstest":          outside,
	"internal/certs/certstest":       outside,
	"internal/own/owntest":           outside,
	"internal/gateway/gatetest":      outside,
	"internal/store/storetest":       outside,
	"internal/store/postgres/pgtest": outside,
	"internal/redisserver/redistest": outside,
	"internal/people/providertest":   outside,
	"internal/tracing/tracetest":     outside,
	"internal/sender/sendertest":     outside,

	"internal/sender/sendertest/fcmserver":   adapter,    // for benchmarks too
	"internal/sender/sendertest/testservice": capability, // leaf: what such services share
}

// Adapters never import each other, but for these: a gateway puts its framing around connections, another service
// is served on a gateway's engine, and the tables of one database share how it is opened (docs/adr/0014).
var allowedBetweenAdapters = map[string][]string{
	"internal/gateway": {"internal/reactor"},
	"internal/httpapi": {"internal/reactor"}, // whose connections carry publishes (docs/adr/0026)
	"internal/compat":  {"internal/gateway"}, // whose engine carries another service's streams
}

func place(dir string) (prefix string, l layer, ok bool) {
	for p, at := range places {
		if (dir == p || strings.HasPrefix(dir, p+"/")) && len(p) > len(prefix) {
			prefix, l, ok = p, at, true
		}
	}
	return prefix, l, ok
}

func TestEveryPlaceIsAPackages(t *testing.T) {
	taken := make(map[string]bool)
	for _, f := range tree(t) {
		if prefix, _, ok := place(f.dir()); ok {
			taken[prefix] = true
		}
	}
	for p := range places {
		if !taken[p] {
			t.Errorf("%s has a place in the ladder and no package", p)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() {
			continue
		}
		from, at, ok := place(f.dir())
		if !ok {
			t.Errorf("%s: package %s has no place in the ladder; give it one in archtest", f.path, f.dir())
			continue
		}
		for _, imported := range f.imports() {
			local, ours := strings.CutPrefix(imported, "./")
			if !ours {
				continue
			}
			to, below, ok := place(local)
			switch {
			case !ok:
				t.Errorf("%s imports %s, which has no place in the ladder", f.path, local)
			case below > at:
				t.Errorf("%s imports %s, which lies above it", f.path, local)
			case at == adapter && below == adapter && from != to && !permitted(from, to):
				t.Errorf("%s imports %s: adapters do not import each other", f.path, local)
			}
		}
	}
}

func permitted(from, to string) bool {
	for _, p := range allowedBetweenAdapters[from] {
		if p == to {
			return true
		}
	}
	return false
}

// mover copies from the stores of one database into those of another, so it knows both.
const mover = "internal/store/move"

func TestSiblingAdaptersAreStrangers(t *testing.T) {
	// Within a family, these packages are what the others share.
	shared := map[string]bool{
		"internal/store/sqlite/sqlitedb": true, "internal/store/sqlite/checkvfs": true, "internal/store/sqlite/walfile": true,
		"internal/store/postgres/pgdb": true, "internal/store/appjson": true, "internal/store/await": true, "internal/store/notes": true, "internal/store/attempts": true, "internal/store/campaignrow": true, "internal/store/endpointrow": true, "internal/store/millis": true, "internal/store/eventlog": true, "internal/store/regs": true, "internal/store/segment": true, "internal/store/content": true, "internal/reactor": true, "internal/reactor/websocket": true,
		"internal/reactor/http2": true, "internal/sender/provider": true, "internal/sender/h2post": true,
		"internal/reactor/http1": true, "internal/httpapi/call": true, "internal/httpapi/form": true,
	}
	families := map[string]bool{
		"internal/gateway": true, "internal/store": true, "internal/reactor": true, "internal/sender": true, "internal/httpapi": true,
	}
	for _, f := range tree(t) {
		family, _, _ := place(f.dir())
		if f.isTest() || !families[family] || f.dir() == mover {
			continue
		}
		for _, imported := range f.imports() {
			local, ours := strings.CutPrefix(imported, "./")
			if ours && strings.HasPrefix(local, family) && local != f.dir() && !shared[local] &&
				!strings.HasPrefix(local, f.dir()+"/") && !strings.HasPrefix(f.dir(), local+"/") {
				t.Errorf("%s imports its sibling %s", f.path, local)
			}
		}
	}
}

// byHand may write rows of a database itself: it makes millions of them, which through a store would take hours.
const byHand = "bench/stubs"

// streams are mailboxes of another service's publishers, beside the server's own: who stands in for that service, or takes from it, names
// them.
const streams = "internal/store/redisstream"

func TestOnlyOpeningNamesAStore(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == byHand || f.dir() == "internal/store" || strings.HasPrefix(f.dir(), "internal/store/") {
			continue
		}
		for _, imported := range f.imports() {
			local, ours := strings.CutPrefix(imported, "./")
			if _, at, _ := place(local); ours && strings.HasPrefix(local, "internal/store/") && local != streams && at != outside {
				t.Errorf("%s imports %s: store.Open gives it what it needs as an interface", f.path, local)
			}
		}
	}
}

func TestOnlyTheBusKnowsNATS(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == "internal/bus" || f.dir() == "internal/bus/natstest" || strings.HasPrefix(f.dir(), "examples/") {
			continue
		}
		for _, imported := range f.imports() {
			if strings.HasPrefix(imported, "github.com/nats-io/") {
				t.Errorf("%s imports %s: only internal/bus knows NATS", f.path, imported)
			}
		}
	}
}

func TestOnlyTracingKnowsOpenTelemetry(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == "internal/tracing" || f.dir() == "internal/tracing/tracetest" {
			continue
		}
		for _, imported := range f.imports() {
			if strings.HasPrefix(imported, "go.opentelemetry.io/") {
				t.Errorf("%s imports %s: only internal/tracing knows OpenTelemetry", f.path, imported)
			}
		}
	}
}

func TestOnlyItsStoresKnowPostgreSQL(t *testing.T) {
	// These start servers, and measure what servers spend.
	around := map[string]bool{"internal/pgserver": true, "bench/testbed": true}
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == mover || around[f.dir()] || strings.HasPrefix(f.dir(), "internal/store/postgres/") {
			continue
		}
		for _, imported := range f.imports() {
			if strings.HasPrefix(imported, "github.com/jackc/") {
				t.Errorf("%s imports %s: only internal/store/postgres knows PostgreSQL", f.path, imported)
			}
		}
	}
}

func TestOnlyItsStreamsKnowRedis(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == streams {
			continue
		}
		for _, imported := range f.imports() {
			if strings.HasPrefix(imported, "github.com/redis/") {
				t.Errorf("%s imports %s: only %s knows Redis", f.path, imported, streams)
			}
		}
	}
}

func TestDomainUsesTheStandardLibraryOnly(t *testing.T) {
	for _, f := range tree(t) {
		if _, at, _ := place(f.dir()); f.isTest() || at != domain || strings.HasPrefix(f.dir(), "api") {
			continue
		}
		for _, imported := range f.imports() {
			first, _, _ := strings.Cut(strings.TrimPrefix(imported, "./"), "/")
			if strings.Contains(first, ".") {
				t.Errorf("%s imports %s: the domain stands on the standard library alone", f.path, imported)
			}
		}
	}
}

func TestReactorKnowsBytesOnly(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || !strings.HasPrefix(f.path, "internal/reactor/") {
			continue
		}
		for _, imported := range f.imports() {
			local, ours := strings.CutPrefix(imported, "./")
			if ours && local != "internal/timerwheel" && !strings.HasPrefix(local, "internal/reactor") {
				t.Errorf("%s imports %s: the reactor knows bytes, not notifications", f.path, local)
			}
		}
	}
}

func TestClientLibraryStandsAlone(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || !strings.HasPrefix(f.path, "clients/") {
			continue
		}
		for _, imported := range f.imports() {
			if strings.HasPrefix(imported, "./internal/") {
				t.Errorf("%s imports %s: the client must build without the server", f.path, imported)
			}
		}
	}
}

func TestCampaignsKnowNoPacer(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.dir() != "internal/campaign" {
			continue
		}
		for _, imported := range f.imports() {
			if imported == "./internal/pace" {
				t.Errorf("%s imports %s: campaigns send through internal/dispatch, which paces whatever is sent", f.path, imported)
			}
		}
	}
}
