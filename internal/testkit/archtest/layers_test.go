package archtest

import (
	"strings"
	"testing"
)

// layer is a level of the architecture. A package may import lower levels, and packages of its own level as far as its family allows.
type layer int

const (
	domain     layer = iota // plain types and pure rules; standard library only
	codec                   // the client protocol's encodings
	capability              // the behaviour
	adapter                 // packages that use capabilities or implement the interfaces they need
	wiring                  // typed configuration, wiring and life cycle
	command                 // the command line
	program                 // main
	outside                 // tests, benchmarks, tools: not part of the server, and not imported by it
)

// places assigns every package its layer; the longest prefix counts. A new package needs an entry here.
var places = map[string]layer{
	"internal/notify/notification":    domain,
	"internal/objects/object":         domain,
	"internal/messaging/topic":        domain,
	"internal/feeds/event":            domain,
	"internal/sending/push":           domain,
	"internal/campaigns/audience":     domain,
	"internal/access/urlguard":        domain, // leaf: HTTP clients for user-supplied URLs
	"internal/sending/foreign":        domain, // leaf: answers of foreign servers
	"internal/engine/timerwheel":      domain,
	"internal/engine/timeheap":        domain,     // leaf: what waits, by its time
	"internal/engine/fair":            domain,     // leaf: queues and amounts that apps share
	"internal/engine/latency":         domain,     // leaf: a histogram
	"internal/server/logqueue":        domain,     // leaf: a writer that never blocks
	"internal/server/lifecycle":       domain,     // leaf: components and how they stop
	"internal/server/listen":          capability, // leaf: listeners
	"internal/server/module":          adapter,    // how adapters join the server
	"internal/server/httpapi/call":    capability, // leaf: a request being handled
	"internal/engine/pause":           domain,     // leaf: waits between tries
	"internal/engine/stage":           domain,     // leaf: names of goroutines in profiles
	"internal/engine/shrink":          domain,     // leaf: a map whose memory follows its size
	"internal/engine/memory":          domain,     // leaf: the collector, the limit and budgets
	"internal/server/certs":           domain,     // leaf: certificates from files
	"internal/engine/disk":            capability,
	"internal/cluster/reload":         domain, // leaf: a copy that follows its store
	"internal/cluster/setting":        domain, // shared by the settings of apps
	"internal/cluster/lease":          domain, // leaf: work that one server does at a time
	"internal/campaigns/quiet":        domain,
	"internal/sending/sealed":         domain,     // leaf: tokens that come back
	"internal/sending/press":          domain,     // leaf: the data of buttons that report
	"internal/notify/encoded":         domain,     // leaf: encodings made once
	"internal/gateway/httphead":       domain,     // leaf: headers that others write
	"internal/campaigns/textfile":     capability, // leaf: encodings of files
	"internal/access/webhost":         capability, // leaf: hosts in browsers' spelling
	"internal/campaigns/tables":       capability,
	"internal/notify/frame":           codec,
	"internal/store/sqltx":            codec, // interfaces alone
	"internal/notify/inbox":           domain,
	"internal/notify/mailbox":         capability,
	"internal/campaigns/campaign":     capability,
	"internal/sending/dispatch":       capability,
	"internal/sending/badge":          capability,
	"internal/sending/activity":       capability,
	"internal/notify/escalation":      capability,
	"internal/sending/pace":           capability,
	"internal/sending/judge":          capability,
	"internal/campaigns/preference":   capability,
	"internal/campaigns/template":     capability,
	"internal/campaigns/segment":      capability,
	"internal/notify/recipient":       capability,
	"internal/notify/timeline":        capability,
	"internal/campaigns/welcome":      capability,
	"internal/notify/session":         capability,
	"internal/cluster":                capability,
	"internal/objects/signal":         capability,
	"internal/messaging/pubsub":       capability,
	"internal/messaging/request":      capability,
	"internal/notify/delivery":        capability,
	"internal/notify/digest":          capability,
	"internal/access":                 capability,
	"internal/access/audit":           capability,
	"internal/access/signin":          capability,
	"internal/access/limit":           capability,
	"internal/sending/channel":        capability,
	"internal/feeds/hook":             capability,
	"internal/feeds/source":           capability,
	"internal/feeds/sink":             capability,
	"internal/feeds/reconcile":        capability,
	"internal/campaigns/endpoint":     capability,
	"internal/server/problem":         capability,
	"internal/server/metrics":         capability,
	"internal/server/tracing":         capability,
	"internal/server/watch":           capability,
	"internal/store":                  adapter,
	"internal/messaging/bus":          adapter,
	"internal/engine/reactor":         adapter,
	"internal/gateway":                adapter,
	"internal/compat":                 adapter, // services that Godwit can replace
	"internal/server/httpapi":         adapter,
	"internal/server/admin":           adapter,
	"internal/server/docsite":         adapter,
	"internal/server/digests":         adapter,
	"internal/server/inboxes":         adapter,
	"internal/store/sqlite/textindex": capability, // leaf: words of texts, in memory
	"internal/sending":                adapter,
	"internal/feeds/sink/clickhouse":  adapter,
	"internal/feeds/source/postgres":  adapter,
	"internal/feeds/source/jetstream": adapter,
	"internal/feeds/source/dbserver":  capability, // leaf: how sources reach database servers
	"internal/feeds/source/outbox":    adapter,
	"internal/server/config":          wiring,
	"internal/server/modules":         wiring,
	"internal/server/app":             wiring,
	"internal/server/cli":             command,
	"server":                          command, // the server as a library
	"cmd/godwit":                      program,
	"api":                             domain,
	"docs":                            domain, // leaf: pages
	"internal/server/sdk":             domain, // leaf: built files
	"clients":                         codec,
	"examples":                        outside,
	"bench":                           outside,
	"cmd/godwit-bench":                outside,
	"test":                            outside,
	"tools":                           outside,
	"internal/testkit":                outside,

	// Suites that tests of several packages share; server code must not import them.
	"internal/messaging/bus/natstest":     outside,
	"internal/feeds/source/sourcetest":    outside,
	"internal/server/certs/certstest":     outside,
	"internal/cluster/lease/leasetest":    outside,
	"internal/gateway/gatetest":           outside,
	"internal/store/storetest":            outside,
	"internal/store/sqlite/sqlitetest":    outside,
	"internal/store/postgres/pgtest":      outside,
	"internal/access/signin/providertest": outside,
	"internal/server/tracing/tracetest":   outside,
	"internal/sending/sendertest":         outside,
}

// Adapters never import each other, with these exceptions: a gateway adds its framing to connections, a gateway's engine serves another
// service's protocol, and the tables of one database share how it is opened (docs/adr/0014).
var allowedBetweenAdapters = map[string][]string{
	"internal/gateway":        {"internal/engine/reactor", "internal/server/module", "internal/messaging/bus"}, // as modules
	"internal/server/module":  {"internal/messaging/bus", "internal/store", "internal/engine/reactor"},
	"internal/server/admin":   {"internal/server/module"},                            // whose pages it shows
	"internal/server/docsite": {"internal/server/module"},                            // as a module
	"internal/server/inboxes": {"internal/server/module", "internal/server/httpapi"}, // as a module, whose calls are the API's
	"internal/server/digests": {"internal/server/module"},                            // as a module
	"internal/server/httpapi": {"internal/engine/reactor"},                           // whose connections carry publishes (docs/adr/0026)
	"internal/compat":         {"internal/gateway"},                                  // its engine carries another service's streams
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

// mover copies data from the stores of one database into those of another, so it imports both.
const mover = "internal/store/move"

func TestSiblingAdaptersAreStrangers(t *testing.T) {
	// Other packages of a family may import these.
	shared := map[string]bool{
		"internal/store/sqlite/sqlitedb": true, "internal/store/sqlite/checkvfs": true, "internal/store/sqlite/walfile": true,
		"internal/store/postgres/pgdb": true, "internal/store/appsql": true, "internal/store/sqltx": true, "internal/store/await": true, "internal/store/notes": true, "internal/store/attempts": true, "internal/store/campaignrow": true, "internal/store/endpointrow": true, "internal/store/millis": true, "internal/store/eventlog": true, "internal/store/regs": true, "internal/store/segment": true, "internal/store/content": true, "internal/store/inboxrow": true, "internal/engine/reactor": true, "internal/engine/reactor/websocket": true,
		"internal/engine/reactor/http2": true, "internal/sending/provider": true, "internal/sending/h2post": true,
		"internal/engine/reactor/http1": true, "internal/server/httpapi/call": true, "internal/server/httpapi/form": true,
	}
	families := map[string]bool{
		"internal/gateway": true, "internal/store": true, "internal/engine/reactor": true, "internal/sending": true, "internal/server/httpapi": true,
	}
	for _, f := range tree(t) {
		family, _, _ := place(f.dir())
		if f.isTest() || !families[family] || f.dir() == mover {
			continue
		}
		for _, imported := range f.imports() {
			local, ours := strings.CutPrefix(imported, "./")
			if to, _, _ := place(local); ours && to == family && local != f.dir() && !shared[local] &&
				!strings.HasPrefix(local, f.dir()+"/") && !strings.HasPrefix(f.dir(), local+"/") {
				t.Errorf("%s imports its sibling %s", f.path, local)
			}
		}
	}
}

// byHand may write database rows directly: it creates millions of them, which would take hours through a store.
const byHand = "bench/stubs"

// streams stores mailboxes for another service's publishers, beside the server's own: only the packages that replace that service, or read
// from it, refer to it.
const streams = "internal/store/redisstream"

// words finds texts in memory and stores nothing.
const words = "internal/store/sqlite/textindex"

// transactions is the interface through which a module reads its own tables.
const transactions = "internal/store/sqltx"

// example is a test's module with tables of its own.
const example = "test/api/notes"

func TestOnlyOpeningNamesAStore(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == byHand || f.dir() == example || f.dir() == "internal/store" || strings.HasPrefix(f.dir(), "internal/store/") {
			continue
		}
		for _, imported := range f.imports() {
			local, ours := strings.CutPrefix(imported, "./")
			if _, at, _ := place(local); ours && strings.HasPrefix(local, "internal/store/") && local != streams && local != words && local != transactions && at != outside {
				t.Errorf("%s imports %s: store.Open gives it what it needs as an interface", f.path, local)
			}
		}
	}
}

func TestOnlyTheBusKnowsNATS(t *testing.T) {
	// These speak to an app's own NATS, and start servers.
	around := map[string]bool{"internal/feeds/source/jetstream": true, "internal/messaging/bus/natstest": true}
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == "internal/messaging/bus" || around[f.dir()] || strings.HasPrefix(f.dir(), "examples/") {
			continue
		}
		for _, imported := range f.imports() {
			if strings.HasPrefix(imported, "github.com/nats-io/") {
				t.Errorf("%s imports %s: only internal/messaging/bus knows NATS", f.path, imported)
			}
		}
	}
}

func TestOnlyTracingKnowsOpenTelemetry(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == "internal/server/tracing" || f.dir() == "internal/server/tracing/tracetest" {
			continue
		}
		for _, imported := range f.imports() {
			if strings.HasPrefix(imported, "go.opentelemetry.io/") {
				t.Errorf("%s imports %s: only internal/server/tracing knows OpenTelemetry", f.path, imported)
			}
		}
	}
}

func TestOnlyItsStoresKnowPostgreSQL(t *testing.T) {
	// These start servers, measure their resources, read the log or a table of a publisher's database, and are such a publisher.
	around := map[string]bool{"examples/orders": true, "internal/testkit/pgserver": true, "bench/loadgen": true, "bench/testbed": true, "internal/feeds/source/postgres": true, "internal/feeds/source/outbox": true, "internal/feeds/source/dbserver": true}
	for _, f := range tree(t) {
		if f.isTest() || f.dir() == mover || f.dir() == example || around[f.dir()] || strings.HasPrefix(f.dir(), "internal/store/postgres/") {
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
	known := map[string]bool{"internal/engine/timerwheel": true, "internal/engine/stage": true, "internal/engine/memory": true}
	for _, f := range tree(t) {
		if f.isTest() || !strings.HasPrefix(f.path, "internal/engine/reactor/") {
			continue
		}
		for _, imported := range f.imports() {
			local, ours := strings.CutPrefix(imported, "./")
			if ours && !known[local] && !strings.HasPrefix(local, "internal/engine/reactor") {
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
		if f.isTest() || f.dir() != "internal/campaigns/campaign" {
			continue
		}
		for _, imported := range f.imports() {
			if imported == "./internal/sending/pace" {
				t.Errorf("%s imports %s: campaigns send through internal/sending/dispatch, which paces whatever is sent", f.path, imported)
			}
		}
	}
}
