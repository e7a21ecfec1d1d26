package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/server/module"
)

func TestPagesOfModulesSpeakTheReadersLanguage(t *testing.T) {
	view := module.View{
		Text:    "The node's <own> words.",
		Figures: []module.Figure{{Count: 1204, Label: "messages"}},
		Tables: []module.Table{
			{Title: "Devices that came last", Headings: []string{"Device", "Last seen", "Channels"}, Rows: [][]module.Cell{{module.Name("a<b"), module.At(time.Date(2026, 3, 5, 10, 0, 0, 0, time.UTC)), module.Count(0)}}},
			{Title: "Channels", Headings: []string{"Outcome"}, Empty: "There is nothing yet."},
			{Title: "Messages", Headings: []string{"Reason"}, Rows: [][]module.Cell{{module.Word("Last seen")}}},
		},
	}
	w := newWorld(t, func(c *admin.Config) {
		c.Pages = []module.Page{{Path: "/ui/own", Label: "Push service", Role: signin.View, Show: func(context.Context, string) (module.View, error) { return view, nil }}}
	})
	b := w.signedIn()
	_, page := b.get("/ui/own")
	wants(t, page, "<h1>Push service</h1>", "<title>Push service · Godwit</title>", "<b>1,204</b><span>messages</span>", "The node&#39;s &lt;own&gt; words.", "<h2>Devices that came last</h2>", "<code>a&lt;b</code>", "2026-03-05T10:00:00Z",
		`<td data-label="Channels" class="number">0</td>`, "There is nothing yet.", "<td data-label=\"Reason\">Last seen</td>")
	_, page = b.in("de", "/ui/own")
	wants(t, page, "<h1>Push-Dienst</h1>", "<b>1.204</b><span>Nachrichten</span>", "<th>Gerät</th>", `<td data-label="Gerät">`, "Hier ist noch nichts.", ">Zuletzt gesehen</td>")
	if strings.Contains(page, ">Push service<") {
		t.Error("the header of a German page is English")
	}
}
