package admin

import (
	"testing"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

func TestStoriesAreToldInTheReadersLanguage(t *testing.T) {
	german, hindi := words.Tagged("de"), words.Tagged("hi")
	at := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	say := func(pattern string, args ...any) timeline.Text { return timeline.Text{Pattern: pattern, Args: args} }
	for _, c := range []struct {
		in   *words.Language
		text timeline.Text
		want template.HTML
	}{
		{
			words.English, say("It was %s, and nobody has acknowledged it yet", say("%s, again at %s", say("written to %s at %s", "phone", at), timeline.Hour(at))),
			`It was written to phone at <time datetime="2026-03-01T12:00:01Z" data-seconds>1 Mar 2026, 12:00:01 UTC</time>, again at <time datetime="2026-03-01T12:00:01Z" data-clock>12:00:01</time>, and nobody has acknowledged it yet`,
		},
		{
			german, say("written to %s at %s", say("%s on %s", say("a connection over %s", "ws"), "n1"), at),
			`am <time datetime="2026-03-01T12:00:01Z" data-seconds>01.03.2026, 12:00:01 UTC</time> an eine Verbindung über ws auf n1 übertragen`,
		},
		{german, timeline.Text{Pattern: "acknowledged by %s, %s after it was due", Args: []any{"phone", 63 * time.Second}, Begins: true}, `Durch phone bestätigt, 63 s nach der Fälligkeit`},
		{hindi, timeline.Text{Pattern: "acknowledged by %s, %s after it was due", Args: []any{"phone", 2 * time.Second}, Begins: true}, `phone ने पुष्टि की, नियत समय के 2 से. बाद`},
		{german, say("%s.", say("%s; %s: %s", say("recalled by a back end"), push.WebPush, say("%s: %s", say("not tried"), timeline.Reason("the recipient has no active endpoint of this channel")))), `von einem Backend zurückgerufen; Browser: nicht versucht: der Empfänger hat keinen aktiven Endpunkt auf diesem Kanal.`},
		{german, say("%s times", uint32(1234)), `1.234 Mal`},
		{german, say("written to %s", `<script>alert("x")</script>`), `an &lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; übertragen`},
		{german, say("<b>%s</b>", timeline.Reason("<i>")), `&lt;b&gt;&lt;i&gt;&lt;/b&gt;`},
	} {
		if got := told(c.in, c.text); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}
