package admin

import (
	"fmt"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	redis "godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/telegram"
	"godwit.dev/godwit/internal/sending/webhook"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/server/admin/resource"
	"godwit.dev/godwit/internal/server/watch"
)

// textsOfTables finds the texts that pages take from tables: names of pages, labels of fields, states.
func textsOfTables(all textSet) {
	add := func(in string, keys ...string) {
		for _, key := range keys {
			all.add(in, key, "")
		}
	}
	for _, g := range append(slices.Clip(navigation), placeGroup{Label: "More"}) {
		add("navigation.go", g.Label)
		for _, p := range g.places {
			add("navigation.go", p.Label)
		}
	}
	for _, l := range labels {
		add("form.go", l)
	}
	for _, g := range groups {
		add("lists.go", g)
	}
	for _, g := range goals {
		add("guide.go", g.Title, g.Text, g.Reached)
	}
	for _, p := range plots {
		add("overview.go", p.Title, p.Unit, p.Empty, p.do.Label)
		for _, c := range p.curves {
			add("overview.go", c.label)
		}
	}
	for _, word := range rowWords {
		add("builder.go", word)
	}
	for _, d := range devices {
		add("templateform.go", d.label)
	}
	for _, s := range sample.Steps {
		add("find.go", s.Title)
	}
	for i := range appFields {
		add("apps.go", appFields[i].label, appFields[i].hint)
	}
	for _, action := range bulkActions {
		all.add("bulk.go", action.one, action.many)
	}
	textsOfStates(add)
	textsOfChannels(add)
	textsOfKinds(add)
}

func textsOfStates(add func(in string, keys ...string)) {
	for _, s := range campaignStates {
		add("campaignlist.go", string(s))
	}
	add("campaigns.go", "correcting", "pending")
	for _, o := range shownOutcomes {
		add("campaigns.go", o.String())
	}
	add("endpoints.go", string(audience.Active), string(audience.Disabled))
	add("recipients.go", notification.StatusNames()...)
	add("server.go", watch.Failure, watch.Warning, watch.Refused, "alive", "missing", "default")
	for _, s := range []hook.State{hook.Active, hook.Failing, hook.Paused, hook.Disabled} {
		add("resource/line.go", string(s))
	}
	for _, s := range []sink.State{sink.Writing, sink.Failing, sink.Stopped, sink.Waiting, sink.Disabled} {
		add("resource/line.go", string(s))
	}
	for _, s := range []source.State{source.Running, source.Failing, source.Waiting, source.Paused} {
		add("resource/line.go", string(s))
	}
	for _, r := range []signin.Role{signin.View, signin.Send, signin.Admin, signin.Operator} {
		add("navigation.go", r.String())
	}
	for _, reason := range []string{"rate", "address", "full", "files", "silent"} {
		add("live.go", watch.Turned{Reason: reason}.Why())
	}
	for _, m := range push.TelegramMediums {
		add("compose.go", m.Name)
	}
}

func textsOfChannels(add func(in string, keys ...string)) {
	for _, word := range channelWords {
		add("words.go", word)
	}
	for _, k := range []channel.Kind{webpush.Kind{}, fcm.Kind{}, apns.Kind{}, telegram.Kind{}, webhook.Kind{}} {
		for _, f := range k.Fields() {
			add("words.go", fieldWord(f.Name), f.Help)
		}
	}
	for _, word := range fieldWords {
		add("words.go", word)
	}
}

func textsOfKinds(add func(in string, keys ...string)) {
	const in = "resourcewords.go"
	for _, k := range resource.Kinds {
		add(in, k.List, k.About, k.Empty, k.NameWord, k.NameHint, "New "+k.One, "Delete this "+k.One, fmt.Sprintf("Delete this %s for good?", k.One))
		if k.Kinds != nil {
			continue // their fields are those of the kinds below
		}
		for _, isNew := range []bool{true, false} {
			inputs, err := k.Inputs(resource.Place{}, "", isNew)
			if err != nil {
				panic(err)
			}
			textsOfInputs(add, inputs, k.Name)
		}
	}
	textsOfInputs(add, ownInputs(), ownResource.Name)
	for word := range kindWords {
		add(in, kindWord(word))
	}
	sources := map[string]setting.Kind{"jetstream": jetstream.Kind{}, "postgres": postgres.Kind{}, "redisstream": redis.Kind{}}
	for name, k := range outbox.Kinds(nil) {
		sources[name] = k
	}
	for _, k := range sources {
		textsOfInputs(add, inputsOf(k.Fields()), "source")
	}
	textsOfInputs(add, append(inputsOf(clickhouse.Kind{}.Fields()), resource.Input{Field: setting.Field{Name: "backfill"}}), "sink")
}

func inputsOf(fields []setting.Field) []resource.Input {
	inputs := make([]resource.Input, len(fields))
	for i, f := range fields {
		inputs[i].Field = f
	}
	return inputs
}

func textsOfInputs(add func(in string, keys ...string), inputs []resource.Input, of string) {
	for i := range inputs {
		in := &inputs[i]
		add("resourcewords.go", wordOf(in, of), hintOf(in, of), in.Anew)
		for _, o := range in.Options {
			if o.Text != o.Value || strings.Contains(o.Text, " ") {
				add("resourcewords.go", o.Text)
			}
		}
		if in.Type == setting.Bool {
			add("resourcewords.go", "yes", "no")
		}
	}
}
