package stages

import "strings"

// Stages of a message's way, and what belongs to no stage.
const (
	Read     = "read"      // bytes from sockets, and requests from the bytes
	Decide   = "decide"    // who may, what it means, what it is stored as
	Commit   = "commit"    // the stores
	Tell     = "tell"      // reporting commits
	Route    = "route"     // finding the sessions and deciding for each
	Write    = "write"     // to sockets
	ReadAcks = "read acks" // frames of clients
	Settle   = "settle"    // ends of copies, in the store and in sessions
	Emit     = "emit"      // events
	Push     = "push"      // campaigns and providers
	Garbage  = "garbage"   // the Go runtime's collector
	Switch   = "switch"    // the Go runtime's scheduler
	Unknown  = "unknown"
)

// Order lists the stages in the order of a message's way.
func Order() []string {
	return []string{Read, Decide, Commit, Tell, Route, Write, ReadAcks, Settle, Emit, Push, Garbage, Switch, Unknown}
}

// stageOf lists the stages by how functions' names begin. The longest of those that fit decides. The innermost function with a stage decides for a sample.
var stageOf = map[string]string{
	"internal/engine/reactor":               Read,
	"internal/engine/reactor.(*Conn).Write": Write, "internal/engine/reactor.(*Conn).send": Write, "internal/engine/reactor.(*Conn).write": Write,
	"internal/engine/reactor.(*Conn).flush": Write, "internal/engine/reactor.(*Conn).sysWrite": Write, "internal/engine/reactor.(*Conn).Uncork": Write,
	"internal/engine/reactor.(*Conn).uncork": Write, "internal/engine/reactor.(*Conn).collect": Write, "internal/engine/reactor.(*Conn).release": Write,
	"internal/engine/reactor.sysWrite": Write, "internal/engine/reactor.sysSend": Write, "internal/engine/reactor.send": Write, "internal/engine/reactor.writev": Write,

	"internal/server/httpapi": Decide, "internal/server/httpapi/direct": Read, "internal/server/httpapi/direct.(*Exchange).Respond": Write,
	"net/http": Read, "internal/gateway": Read, "internal/gateway/workergate": Decide, "internal/gateway/admission": Read, "internal/gateway/httphead": Read,
	"internal/access": Decide, "internal/notify/delivery": Decide, "internal/notify/notification": Decide, "internal/notify/digest": Decide,
	"internal/server/metrics": Decide,

	"internal/store": Commit, "internal/objects/object/objectstore": Commit, "internal/store/sqlite/mailboxdb.(*Store).SettleLater": Settle,
	"internal/store/sqlite/mailboxdb.(*settleOp)": Settle, "internal/store/sqlite/mailboxdb.(*Store).settle": Settle,
	"internal/store/sqlite/mailboxdb.(*Store).Settle": Settle, "internal/store/postgres/mailboxdb.(*settleOp)": Settle,
	"internal/store/postgres/mailboxdb.(*Store).Settle": Settle,
	"internal/store/sqlite/mailboxdb.(*Store).tell":     Tell, "internal/store/sqlite/mailboxdb.(*tellers)": Tell, "internal/store/sqlite/mailboxdb.(*Store).gather": Tell,
	"internal/store/sqlite/mailboxdb.(*committed)": Tell, "internal/store/sqlite/mailboxdb.clearBatch": Tell, "internal/store/sqlite/mailboxdb.(*Store).done": Tell,

	"internal/notify/mailbox": Decide, "internal/notify/mailbox.(*Mailbox).Committed": Tell, "internal/notify/mailbox.(*metrics)": Tell, "internal/notify/timeline": Tell,
	"internal/notify/mailbox.(*Mailbox).Delivered": Route, "internal/notify/mailbox.(*Mailbox).emit": Emit, "internal/store/notes": Route,

	"internal/notify/session": Route, "internal/notify/session.(*Session).Frame": ReadAcks, "internal/notify/session.(*Session).ack": ReadAcks,
	"internal/notify/session.(*Session).inFlight": ReadAcks, "internal/notify/session.(*Session).takeFlight": ReadAcks, "internal/notify/session.(*Hub).settleLater": ReadAcks,
	"internal/notify/session.(*Hub).Settled": Settle, "internal/notify/session.(*Session).settled": Settle, "internal/notify/session.(*Session).drop": Settle,
	"internal/notify/session.(*Session).Join": Decide, "internal/notify/frame": Route,
	"internal/engine/reactor/websocket": ReadAcks, "internal/gateway/wsgate": ReadAcks,
	"internal/gateway/wsgate.(*transport).Write": Write, "internal/gateway/wsgate.(*conn).Write": Write,

	"internal/objects/signal": Route, "internal/messaging": Route, "github.com/nats-io": Route,
	"internal/feeds/event": Emit, "internal/store/eventlog": Emit, "internal/store/sqlite/eventdb": Emit, "internal/store/postgres/eventdb": Emit, "internal/feeds": Emit,
	"internal/sending": Push, "internal/campaigns": Push,

	"runtime.gcBgMarkWorker": Garbage, "runtime.gcAssistAlloc": Garbage, "runtime.bgsweep": Garbage, "runtime.bgscavenge": Garbage, "runtime.gcDrain": Garbage,
	"runtime.gcMarkDone": Garbage, "runtime.gcStart": Garbage, "runtime.wbBufFlush": Garbage, "runtime.(*sweepLocked)": Garbage, "runtime.deductSweepCredit": Garbage,
	"runtime.mcall": Switch, "runtime.mstart": Switch, "runtime.schedule": Switch, "runtime.findRunnable": Switch, "runtime.sysmon": Switch, "runtime.park_m": Switch,
	"runtime.goexit0": Switch, "runtime.morestack": Switch, "runtime.wakep": Switch, "runtime.ready": Switch,
	"runtime/pprof": Switch, "time.goFunc": Switch,
}

// How many goroutines or locks of a kind there are.
type lanes int

const (
	one     lanes = iota // one, whatever the machine
	halves               // half as many as cores
	cores                // as many as cores
	several              // a number that does not follow the cores
)

// on returns how many there are on a machine with n cores.
func (l lanes) on(n int) int {
	switch l {
	case cores:
		return n
	case halves:
		return max(1, n/2)
	default:
		return 1
	}
}

// goroutines lists the goroutines that name themselves, and how many of them there are. Others with a name count as one.
var goroutines = map[string]lanes{
	"loop": cores, "teller": halves, "objects' worker": cores, "lane": several, "caller of topics": several,
}

// places lists what one goroutine at a time does, by functions: goroutines that have no name, and locks. A function names itself if its name begins so.
var places = []struct{ begins, name string }{
	{"internal/store/sqlite/mailboxdb.(*Store).tellNext", "lock of telling"},
	{"internal/store/eventlog.(*Queue).Emit", "lock of the event queue"},
	{"internal/store/sqlite/eventdb.(*Log).run", "writer of events"},
	{"internal/store/notes.(*Notes).Mark", "lock of marks"},
	{"internal/messaging/pubsub.(*fan).run", "an app's fan of topics"},
	{"internal/messaging/bus.(*direct).run", "reader of a line"},
	{"internal/messaging/bus.(*patient).write", "writer of a line"},
	{"internal/messaging/bus.(*intake).take", "intake of topics"},
	{"internal/gateway/admission.(*listener).run", "listener"},
	{"net/http.(*Server).Serve", "accepting"},
	{"internal/engine/reactor.(*Reactor).Serve", "accepting of gRPC"},
	{"internal/engine/timerwheel.(*Wheel", "timers"},
	{"github.com/nats-io/nats.go.(*Conn).readLoop", "NATS client's reader"},
	{"github.com/nats-io/nats.go.(*Conn).flusher", "NATS client's writer"},
	{"github.com/nats-io/nats-server/v2/server.(*client).readLoop", "NATS server's reader"},
	{"github.com/nats-io/nats-server/v2/server.(*client).writeLoop", "NATS server's writer"},
	{"internal/campaigns/campaign.(*run).enumerate", "campaign: audience"},
	{"internal/campaigns/campaign.(*run).decide", "campaign: decisions"},
	{"internal/sending/dispatch.(*Job).write", "campaign: outcomes"},
	{"internal/sending/dispatch.(*channelSender).run", "campaign: pacing"},
}

// committing is the function that one goroutine at a time runs, for each database: its own writer, or a caller in its place.
const committing = "internal/store/sqlite/sqlitedb.(*writer).commitTaken"

// storeOf names a database's writer by the package that fills it.
var storeOf = map[string]string{
	"mailboxdb": "mailbox.db", "campaigndb": "campaign.db", "eventdb": "events.db", "objectdb": "objects.db", "appdb": "apps.db",
}

// writerOf names the writer whose place a caller's goroutine takes: a database's package is on its stack.
func writerOf(stack []string) string {
	for _, f := range stack {
		if rest, ok := strings.CutPrefix(f, "internal/store/sqlite/"); ok {
			name, _, _ := strings.Cut(rest, ".")
			if file := storeOf[name]; file != "" {
				return writerName(file)
			}
		}
	}
	return ""
}

func writerName(file string) string { return "writer of " + file }
