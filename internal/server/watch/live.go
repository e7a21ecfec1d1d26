package watch

// MostLive limits the topics listed, and the subjects.
const MostLive = 200

// Live describes the activity of an app's sessions on this node.
type Live struct {
	Topics   []Topic // topics with the most subscribers first
	Patterns int     // that there are
	Subjects []Subject
	Served   int            // subjects that there are
	Sessions map[string]int // number of sessions by gateway: ws, grpc, sse, poll
	// The fields below count over the whole node, since its start.
	Turned  []Turned
	Goodbye []Turned // sessions that the server has ended
}

// Topic is a pattern that sessions subscribe to; subscribers with the same queue name share its messages.
type Topic struct {
	Pattern, Queue string
	Sessions       int
	Messages       uint64
}

// Subject is a pattern of requests that workers serve.
type Subject struct {
	Pattern, Queue       string
	Workers, Full, Asked int
}

// Turned is the number of connections refused, or sessions ended, for a reason.
type Turned struct {
	Reason string
	Count  uint64
}

// explained describes the reasons for refused connections in words.
var explained = map[string]string{
	"rate":    "its address opens connections faster than limit_connects",
	"address": "its address has as many open as max_connections_per_address",
	"full":    "the server has as many open as max_connections",
	"files":   "the process has no file descriptor left (ulimit -n)",
	"silent":  "it sent no request in time",
}

// Why explains a reason; a reason without an explanation is returned as it is.
func (t Turned) Why() string {
	if why := explained[t.Reason]; why != "" {
		return why
	}
	return t.Reason
}
