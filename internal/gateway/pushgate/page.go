package pushgate

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/gateway/pushgate/channeldb"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/module"
)

// The texts of this file are in the console's catalogues: docs/translating.md says how they come there.

// latest is how many devices the page lists.
const latest = 50

func (g *Gateway) ownPage() module.Page {
	return module.Page{Path: "/ui/push-service", Label: "Push service", Role: signin.View, Show: g.page}
}

// page shows devices, channels, and what became of messages.
func (g *Gateway) page(ctx context.Context, _ string) (module.View, error) {
	n, err := g.cfg.Channels.Count(ctx)
	if err != nil {
		return module.View{}, err
	}
	devices, err := g.cfg.Channels.Latest(ctx, latest)
	if err != nil {
		return module.View{}, err
	}
	return module.View{
		Text: "Browsers and phones for which this server is the push service. Those connected are counted on this node, all others on all nodes.",
		Figures: []module.Figure{
			{Count: n.Devices, Label: "devices known"},
			{Count: int64(g.cfg.Hub.ByGateway(App)["push"]), Label: "devices connected"},
			{Count: n.Channels, Label: "channels in all"},
			{Count: n.Bound, Label: "channels for one sender"},
		},
		Tables: []module.Table{g.messageTable(), g.deviceTable(), listTable(devices)},
	}, nil
}

// messageTable shows what became of senders' messages.
func (g *Gateway) messageTable() module.Table {
	c := &g.counts
	rows := [][]module.Cell{
		row("Stored for a device", c.stored),
		row("Dropped: it had TTL 0, and the device was away", c.dropped),
	}
	for _, r := range []struct{ errno, why string }{
		{"102", "Refused: no push endpoint, and no message that waits"},
		{"104", "Refused: too long"},
		{"106", "Refused: the channel has ended"},
		{"109", "Refused: VAPID is missing, or wrong for the channel"},
		{"110", "Refused: headers of the encryption"},
		{"111", "Refused: no TTL"},
		{"113", "Refused: the topic"},
		{"114", "Refused: a negative TTL"},
		{"201", "Put off: too many wait for the device, or it could not be stored"},
	} {
		rows = append(rows, row(r.why, c.refusals.WithLabelValues(r.errno)))
	}
	return module.Table{Title: "Messages of senders", Text: "On this node, since it started.", Headings: []string{"What became of it", "Messages", "Name of the metric"}, Rows: rows}
}

// deviceTable shows what devices did.
func (g *Gateway) deviceTable() module.Table {
	c := &g.counts
	return module.Table{
		Title: "What devices did", Text: "On this node, since it started.", Headings: []string{"What was done", "How often", "Name of the metric"},
		Rows: [][]module.Cell{
			row("Said hello", c.hellos),
			row("Registered a channel", c.registrations.WithLabelValues(typeRegister, "200")),
			row("Ended a channel", c.registrations.WithLabelValues(typeUnregister, "200")),
			row("Showed a message", c.acks.WithLabelValues("100")),
			row("Could not decrypt a message", c.acks.WithLabelValues("101")),
			row("Did not show a message", c.acks.WithLabelValues("102")),
			row("Could not take a message yet", c.nacks),
			row("Broke the protocol", c.broken),
			row("Was deleted: away for too long", c.swept),
		},
	}
}

// row shows a counter with its name.
func row(what string, c prometheus.Counter) []module.Cell {
	n, name := reading(c)
	return []module.Cell{module.Word(what), module.Count(n), module.Name(name)}
}

// reading is a counter's value, and its name with its labels.
func reading(c prometheus.Counter) (value int64, name string) {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0, "" // counters always write
	}
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
	}
	for _, d := range metrics.Describe(c.Describe) {
		name = d.Name
	}
	if len(labels) > 0 {
		name += "{" + strings.Join(labels, ",") + "}"
	}
	return int64(m.GetCounter().GetValue()), name
}

// listTable lists the devices that came last.
func listTable(devices []channeldb.Device) module.Table {
	t := module.Table{
		Title: "Devices that came last", Empty: "No device has a channel yet.", Text: "At most 50. A device is shown by the name of its mailbox, a hash of its uaid, and noted as seen once a day.",
		Headings: []string{"Device", "Last seen", "Channels", "For one sender"},
	}
	for _, d := range devices {
		t.Rows = append(t.Rows, []module.Cell{module.Name(d.ID), module.At(d.Seen), module.Count(d.Channels), module.Count(d.Bound)})
	}
	return t
}
