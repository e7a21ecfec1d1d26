package admin

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin/words"
	"godwit.dev/godwit/internal/server/watch"
)

// plot is a chart of the overview: lines over the last hour.
type plot struct {
	Title, Unit string
	Empty       string // while all its figures are zero
	do          lead   // what to do then; empty: nothing
	curves      []curve
}

type curve struct{ series, label, colour string }

// plots lists the charts. Colours are variables of the style sheet.
var plots = []plot{
	{"Notifications", "a second", "Nothing was published in the last hour.", lead{Path: "/ui/send", Label: "Send a notification"}, []curve{{"published", "published", "accent"}, {"delivered", "delivered", "unknown"}, {"acknowledged", "acknowledged", "good"}}},
	{"Time to store a publish", "milliseconds", "It is measured with each publish; there was none in the last hour.", lead{}, []curve{{watch.P50, "half take at most", "good"}, {watch.P99, "99 of 100 take at most", "warn"}}},
	{"Connections", "open", "Nothing is connected.", lead{Path: "/ui/start/live", Label: "Open a connection"}, []curve{{"connections", "connections", "accent"}, {"sessions", "sessions", "good"}}},
	{"Push messages", "a second", "No push left in the last hour.", lead{Path: "/ui/campaigns/new", Label: "Write to everybody"}, []curve{{"push_accepted", "accepted", "good"}, {"push_failed", "ended otherwise", "bad"}}},
	{"Refused and failed", "a second", "Nothing was refused, and nothing failed.", lead{}, []curve{{"calls_refused", "calls refused", "warn"}, {"calls_failed", "calls failed", "bad"}, {"connections_refused", "connections refused", "unknown"}}},
	{"Waiting", "notifications", "Nothing waits.", lead{}, []curve{{"pending", "for their recipient", "accent"}, {"scheduled", "for their time", "unknown"}, {"store_queue", "for the disk", "bad"}}},
}

func (p plot) joined(by string, of func(c curve) string) string {
	parts := make([]string, len(p.curves))
	for i, c := range p.curves {
		parts[i] = of(c)
	}
	return strings.Join(parts, by)
}

// curves is a plot in the form that its template needs.
type curves struct {
	Title, Unit, Series, Labels, Colours, Empty string // series and colours have commas between them, and labels bars
	Said                                        string // the labels as a list
	Do                                          *lead  // nil: nothing
}

// overview is the page that says whether all is well.
type overview struct {
	Start    *start // nil: the app is not new, or it was put away
	Events   string
	Standing standing
	Advice   []watch.Advice
	Charts   []curves
	Since    time.Time
	Minutes  []minute
	Push     []pushed
}

// standing holds the newest figures, summed over all nodes.
type standing struct {
	Figures []figure
	Node    string // whose charts are shown
	Nodes   int
	Partial bool
}

// figure is a number with its label.
type figure struct {
	Value float64 // NaN: there is none
	Unit  string  // behind the number
	Label string
}

// minute is a row of the table that gives the charts' numbers.
type minute struct {
	At                               time.Time
	Published, Delivered, Acked      float64 // a second
	P99                              float64 // milliseconds; NaN: nothing was published
	Connections, Pending             float64
	PushAccepted, PushOther, Refused float64 // in all
	Failed                           float64
}

// pushed is the number of messages with one outcome in the last hour.
type pushed struct {
	Channel, Outcome string
	Count            int64
}

func (a *admin) showOverview(v *visit) error {
	h := a.Watch.Last(watch.Kept)
	begin, err := a.startOf(v)
	if err != nil {
		return err
	}
	o := overview{Start: begin, Events: "/ui/overview" + endless, Standing: a.standing(v), Advice: a.Watch.Advise(v.r.Context(), v.person.App), Since: h.Since, Minutes: minutes(&h)}
	if begin != nil && begin.Chosen != nil {
		o.Events += "?" + url.Values{"goal": {begin.Chosen.Name}}.Encode()
	}
	for _, p := range plots {
		c := curves{
			Title: v.t(p.Title), Unit: v.t(p.Unit), Empty: v.t(p.Empty), Series: p.joined(",", func(c curve) string { return c.series }), Labels: p.joined("|", func(c curve) string { return v.t(c.label) }),
			Said:    p.joined(", ", func(c curve) string { return v.t(c.label) }),
			Colours: p.joined(",", func(c curve) string { return c.colour }),
		}
		if p.do.Path != "" && (v.person.Role.May(signin.Send) || !strings.HasPrefix(p.do.Path, "/ui/send") && !strings.HasPrefix(p.do.Path, "/ui/campaigns")) {
			c.Do = &lead{Path: p.do.Path, Label: v.t(p.do.Label)}
		}
		o.Charts = append(o.Charts, c)
	}
	for e, n := range h.Push {
		o.Push = append(o.Push, pushed{e.Channel, e.Outcome, int64(n)}) // of an hour
	}
	slices.SortFunc(o.Push, func(a, b pushed) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome))
	})
	return a.show(v, "overview", v.t("Overview"), "overview", o)
}

// standing asks all nodes for their newest figures.
func (a *admin) standing(v *visit) standing {
	sum := a.Watch.Together(v.r.Context())
	of := func(name string) float64 {
		if n, ok := sum.Values[name]; ok {
			return float64(n)
		}
		return math.NaN()
	}
	return standing{
		Node: a.Watch.Node, Nodes: sum.Nodes, Partial: sum.Partial,
		Figures: []figure{
			{of("published"), "", v.t("published a second")},
			{of("delivered"), "", v.t("delivered a second")},
			{of("acknowledged"), "", v.t("acknowledged a second")},
			{of(watch.P99), "ms", v.t("to store 99 of 100 publishes")},
			{of("connections"), "", v.t("connections")},
			{of("sessions"), "", v.t("sessions")},
			{of("pending"), "", v.t("notifications wait")},
			{of(watch.Free) / 1e9, "GB", v.t("free on the disk")},
			{of("memory_bytes") / 1e6, "MB", v.t("of memory")},
		},
	}
}

// minutes sums figures by the minute, the newest minute first.
func minutes(h *watch.History) (all []minute) {
	value := func(name string, i int) float64 { return float64(h.Values[name][i]) }
	for end := len(h.At); end > 0; {
		begin := end - 1
		for begin > 0 && h.At[begin-1].Truncate(time.Minute).Equal(h.At[end-1].Truncate(time.Minute)) {
			begin--
		}
		m := minute{At: h.At[end-1].Truncate(time.Minute), P99: math.NaN(), Connections: value("connections", end-1), Pending: value("pending", end-1)}
		for i := begin; i < end; i++ {
			n, seconds := float64(end-begin), watch.Every.Seconds()
			m.Published += value("published", i) / n
			m.Delivered += value("delivered", i) / n
			m.Acked += value("acknowledged", i) / n
			m.PushAccepted += value("push_accepted", i) * seconds
			m.PushOther += value("push_failed", i) * seconds
			m.Refused += (value("calls_refused", i) + value("connections_refused", i)) * seconds
			m.Failed += value("calls_failed", i) * seconds
			if p := value(watch.P99, i); !math.IsNaN(p) && !(m.P99 >= p) {
				m.P99 = p
			}
		}
		all = append(all, m)
		end = begin
	}
	return all
}

// plain writes a number for the script, with the digits that people see.
func plain(f float64) string { return strings.ReplaceAll(words.English.Decimal(f), ",", "") }

func isNumber(f float64) bool { return !math.IsNaN(f) }
