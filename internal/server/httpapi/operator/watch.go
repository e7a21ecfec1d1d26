package operator

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/watch"
)

// historyJSON holds figures of the answering node over time: each list has one element for each of the times.
type historyJSON struct {
	Node   string                    `json:"node"`
	Since  call.Moment               `json:"since"`
	EveryS int                       `json:"every_s"`
	At     []call.Moment             `json:"at"`
	Values map[string][]watch.Number `json:"values"`
	Push   []endedJSON               `json:"push"`
	Now    nowJSON                   `json:"now"`
}

// endedJSON is the number of messages of a channel with one outcome.
type endedJSON struct {
	Channel string `json:"channel"`
	Outcome string `json:"outcome"`
	Count   uint64 `json:"count"`
}

// nowJSON holds the newest figures, summed over nodes.
type nowJSON struct {
	Nodes   int                     `json:"nodes"`
	Partial bool                    `json:"partial"`
	Values  map[string]watch.Number `json:"values"`
}

// History is GET /v1/stats/history.
func (a *API) History(c *call.Call) error {
	q, err := c.Params("last")
	if err != nil {
		return err
	}
	last := watch.Kept
	if text := q.Get("last"); text != "" {
		if last, err = notification.ParseDuration(text); err != nil || last <= 0 || last > watch.Kept {
			return notification.BadField("last", "must be a duration of at most %s, like 15m", watch.Kept)
		}
	}
	h, sum := a.Watch.Last(last), a.Watch.Together(c.Ctx)
	v := historyJSON{
		Node: a.Watch.Node, Since: call.Moment(h.Since), EveryS: int(watch.Every / time.Second), At: make([]call.Moment, len(h.At)), Values: h.Values, Push: make([]endedJSON, 0, len(h.Push)),
		Now: nowJSON{Nodes: sum.Nodes, Partial: sum.Partial, Values: sum.Values},
	}
	for i, at := range h.At {
		v.At[i] = call.Moment(at)
	}
	for e, n := range h.Push {
		v.Push = append(v.Push, endedJSON{e.Channel, e.Outcome, n})
	}
	slices.SortFunc(v.Push, func(a, b endedJSON) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Outcome, b.Outcome))
	})
	return c.Value(http.StatusOK, v)
}

type adviceJSON struct {
	About string `json:"about"`
	Grave bool   `json:"grave"`
	Text  string `json:"text"`
	Hint  string `json:"hint"`
}

// Warnings is GET /v1/warnings. There are few, so the answer is one page.
func (a *API) Warnings(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	all := a.Watch.Advise(c.Ctx, c.Key.App)
	l := call.NewList[adviceJSON](len(all), "")
	for i := range all {
		one := &all[i]
		l.Items = append(l.Items, adviceJSON{About: one.About, Grave: one.Grave, Text: one.Text(), Hint: one.Do()})
	}
	return c.Value(http.StatusOK, l)
}

type recordJSON struct {
	At      call.Moment       `json:"at"`
	Kind    string            `json:"kind"`
	Text    string            `json:"text"`
	Times   int               `json:"times"`
	Details map[string]string `json:"details"`
}

// ListRecords is GET /v1/log: recent refusals and warnings about the key's app. If that is the server's only app, the list includes those
// about the whole server. It is limited to one page.
func (a *API) ListRecords(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	all := a.Watch.Log(c.Key.App, a.Watch.Sole(c.Key.App))
	l := call.NewList[recordJSON](len(all), "")
	for _, r := range all {
		v := recordJSON{At: call.Moment(r.At), Kind: r.Kind, Text: r.Text, Times: r.Times, Details: make(map[string]string, len(r.Details))}
		for _, d := range r.Details {
			v.Details[d.Name] = d.Value
		}
		l.Items = append(l.Items, v)
	}
	return c.Value(http.StatusOK, l)
}

type settingJSON struct {
	Key     string `json:"key"`
	Group   string `json:"group"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Origin  string `json:"origin"`
	Help    string `json:"help"`
}

// ListSettings is GET /v1/settings: the settings that the server runs with, without secrets.
func (a *API) ListSettings(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	all := a.Watch.Settings()
	l := call.NewList[settingJSON](len(all), "")
	for _, s := range all {
		l.Items = append(l.Items, settingJSON{Key: s.Key, Group: s.Group, Value: s.Value, Default: s.Default, Origin: s.Origin, Help: s.Help})
	}
	return c.Value(http.StatusOK, l)
}

type topicJSON struct {
	Pattern  string `json:"pattern"`
	Queue    string `json:"queue"`
	Sessions int    `json:"sessions"`
	Messages uint64 `json:"messages_total"`
}

// Topics is GET /v1/topics: the subscriptions of sessions on the answering node, limited to one page.
func (a *API) Topics(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	l := call.NewList[topicJSON](0, "")
	for _, t := range a.Watch.Live(c.Key.App).Topics {
		l.Items = append(l.Items, topicJSON(t))
	}
	return c.Value(http.StatusOK, l)
}

type subjectJSON struct {
	Subject string `json:"subject"`
	Queue   string `json:"queue"`
	Workers int    `json:"workers"`
	Full    int    `json:"full"`
	Asked   int    `json:"asked"`
}

// Workers is GET /v1/workers: the subjects that workers serve on the answering node, limited to one page.
func (a *API) Workers(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	l := call.NewList[subjectJSON](0, "")
	for _, s := range a.Watch.Live(c.Key.App).Subjects {
		l.Items = append(l.Items, subjectJSON{s.Pattern, s.Queue, s.Workers, s.Full, s.Asked})
	}
	return c.Value(http.StatusOK, l)
}

// connectionsJSON counts the app's sessions by gateway, and the connections that the answering node has refused since
// its start.
type connectionsJSON struct {
	Node     string            `json:"node"`
	Sessions map[string]int    `json:"sessions"`
	Refused  map[string]uint64 `json:"refused_total"`
	Goodbyes map[string]uint64 `json:"goodbyes_total"`
}

// Connections is GET /v1/connections.
func (a *API) Connections(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	live := a.Watch.Live(c.Key.App)
	v := connectionsJSON{Node: a.Watch.Node, Sessions: live.Sessions, Refused: map[string]uint64{}, Goodbyes: map[string]uint64{}}
	if v.Sessions == nil {
		v.Sessions = map[string]int{}
	}
	for _, t := range live.Turned {
		v.Refused[t.Reason] = t.Count
	}
	for _, t := range live.Goodbye {
		v.Goodbyes[t.Reason] = t.Count
	}
	return c.Value(http.StatusOK, v)
}
