package resource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

// heldByApp adds to a kind how its settings are read. They are stored with the app, by name.
func heldByApp[T any](k Kind, of func(Named, string) map[string]T, none error, values func(T) setting.Values) Kind {
	show := func(name string, one T) Stored {
		return Stored{Name: name, Values: values(one), Revision: setting.RevisionOf(one)}
	}
	k.Get = func(_ context.Context, p Place, name string) (Stored, error) {
		one, there := of(p.Named, p.App)[name]
		if !there {
			return Stored{}, none
		}
		return show(name, one), nil
	}
	k.All = func(p Place) (items []Stored) {
		all := of(p.Named, p.App)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			items = append(items, show(name, all[name]))
		}
		return items
	}
	k.Undoes = true
	return k
}

var categories = heldByApp(Kind{
	Path: "/ui/categories", API: "/v1/categories", Name: "category", One: "category", Here: "categories", Back: "/ui/categories", List: "Categories", Docs: "/docs/guides/preferences",
	About: "A notification may belong to a category. Here is what holds for all of a category, whoever sends it.", Empty: "No category has settings: recipients may refuse any, and none has a limit.",
	NameField: "category", NameWord: "Category", NameHint: "As your publishes and campaigns name it. * is every category without settings of its own.",
	Inputs: func(Place, string, bool) ([]Input, error) {
		return []Input{
			{Field: setting.Field{Name: "critical", Type: setting.Bool}},
			{Field: setting.Field{Name: "escalate_limit"}, Like: "10/h"},
			{Field: setting.Field{Name: "campaign_limit"}, Like: "1/8h"},
			{Field: setting.Field{Name: "campaign_beyond", Default: setting.JSON("defer")}, Options: []Option{{Value: "defer", Text: "waits until the limit allows it"}, {Value: "suppress", Text: "is not sent to this person"}}},
			{Field: setting.Field{Name: "inbox", Type: setting.Bool}},
			{Field: setting.Field{Name: "keep"}, Like: "30d"},
			{Field: setting.Field{Name: "digest_window"}, Like: "10m"},
			{Field: setting.Field{Name: "digest_by"}, Like: "post"},
			{Field: setting.Field{Name: "digest_max"}, Like: "100"},
			{Field: setting.Field{Name: "digest_template"}},
		}, nil
	},
	Set: func(ctx context.Context, p Place, name string, c Change) (string, error) {
		said := preference.Category{Critical: c.Values.Bool("critical"), Inbox: c.Values.Bool("inbox")}
		var err error
		if limit := c.Values.Text("escalate_limit"); limit != "" {
			said.Limit, err = preference.ParseLimit(limit)
		}
		if limit := c.Values.Text("campaign_limit"); limit != "" && err == nil {
			said.Campaigns, err = preference.ParseCampaignLimit(limit)
		}
		if beyond := c.Values.Text("campaign_beyond"); err == nil {
			said.Excess, err = preference.ParseExcess(cmp.Or(beyond, preference.Defer.String()))
		}
		if keep := c.Values.Text("keep"); keep != "" && err == nil {
			said.Keep, err = preference.ParseKeep(keep)
		}
		if err == nil {
			err = said.Check()
		}
		if err == nil {
			said.Digest, err = readDigest(c.Values)
		}
		if err == nil {
			err = p.Named.SetCategory(ctx, p.App, name, said, c.Must)
		}
		return "", err
	},
	Drop: func(ctx context.Context, p Place, name string, must setting.Match) (string, error) {
		return "", p.Named.DeleteCategory(ctx, p.App, name, must)
	},
}, Named.Categories, access.ErrUnknownCategory, func(c preference.Category) setting.Values {
	v := setting.Values{"critical": setting.JSON(c.Critical), "escalate_limit": setting.JSON(c.Limit.String()), "campaign_limit": setting.JSON(c.Campaigns.String())}
	v["inbox"], v["keep"] = setting.JSON(c.Inbox), setting.JSON(c.Keep.String())
	if !c.Campaigns.IsZero() {
		v["campaign_beyond"] = setting.JSON(c.Excess.String())
	}
	if d := c.Digest; !d.IsZero() {
		v["digest_window"], v["digest_by"], v["digest_template"] = setting.JSON(d.WindowText()), setting.JSON(d.By), setting.JSON(d.Template)
		if d.Max != 0 {
			v["digest_max"] = setting.JSON(strconv.Itoa(d.Max))
		}
	}
	return v
})

// readDigest reads how a category gathers. Without a window it does not.
func readDigest(v setting.Values) (d preference.Digest, err error) {
	d = preference.Digest{By: v.Text("digest_by"), Template: v.Text("digest_template")}
	if text := v.Text("digest_window"); text != "" {
		if d.Window, err = durationIn("digest_window", text, "10m"); err != nil {
			return d, err
		}
	}
	if text := v.Text("digest_max"); text != "" {
		if d.Max, err = strconv.Atoi(text); err != nil {
			return d, notification.BadField("digest_max", "must be a whole number")
		}
	}
	if d.IsZero() {
		return d, nil
	}
	err = d.Check()
	if bad, ok := errors.AsType[*notification.FieldError](err); ok { // the form's fields have other names
		format, args := bad.Parts()
		return d, notification.BadField(strings.Replace(bad.Field, ".", "_", 1), format, args...)
	}
	return d, err
}

var services = heldByApp(Kind{
	Path: "/ui/services", API: "/v1/gateway", Name: "service", One: "gateway service", Here: "services", Back: "/ui/services", List: "Gateway services", Docs: "/docs/guides/gateway",
	About: "A worker answers calls over HTTP under the name of a service. A service that is not listed here is called by back ends alone, and has 10 seconds to answer.", Empty: "No service has settings of its own.",
	NameField: "service", NameWord: "Service", NameHint: "The first part of the subjects that its workers serve.",
	Inputs: func(Place, string, bool) ([]Input, error) {
		return []Input{
			{Field: setting.Field{Name: "access", Default: setting.JSON(access.ByKey)}, Options: []Option{{Value: access.ByKey, Text: "back ends with a key that may publish"}, {Value: access.ByClient, Text: "clients with a token, too"}, {Value: access.ByAnyone, Text: "everybody"}}},
			{Field: setting.Field{Name: "timeout"}, Like: "10s"},
			{Field: setting.Field{Name: "split", Type: setting.Tree}, Like: "shop 95\nshop@2 5", write: writeSplit, read: readSplit},
			{Field: setting.Field{Name: "cookies", Type: setting.Bool}},
			{Field: setting.Field{Name: "upload"}, Options: []Option{{Value: "", Text: "are refused"}, {Value: access.UploadStore, Text: "are stored, and the worker fetches them"}}},
		}, nil
	},
	Set: func(ctx context.Context, p Place, name string, c Change) (string, error) {
		s := access.Service{Access: c.Values.Text("access"), Cookies: c.Values.Bool("cookies"), Upload: c.Values.Text("upload")}
		_ = json.Unmarshal(c.Values["split"], &s.Split) // readSplit wrote it
		var err error
		if text := c.Values.Text("timeout"); text != "" {
			s.Timeout, err = durationIn("timeout", text, "10s")
		}
		if err == nil {
			_, err = p.Named.SetService(ctx, p.App, name, s, c.Must)
		}
		return "", err
	},
	Drop: func(ctx context.Context, p Place, name string, must setting.Match) (string, error) {
		return "", p.Named.DeleteService(ctx, p.App, name, must)
	},
}, Named.Services, access.ErrUnknownService, func(s access.Service) setting.Values {
	split, _ := json.Marshal(s.Split) // numbers by name
	return setting.Values{"access": setting.JSON(s.Access), "timeout": setting.JSON(s.Timeout.String()), "split": split, "cookies": setting.JSON(s.Cookies), "upload": setting.JSON(s.Upload)}
})

var batches = heldByApp(Kind{
	Path: "/ui/batches", API: "/v1/batches", Name: "batch", One: "batching interval", Here: "batches", Back: "/ui/batches", List: "Batching", Docs: "/docs/guides/objects",
	About: "Signals of objects leave at once. A group whose links cost by the minute can collect them for a while instead.", Empty: "No group has a batching interval: signals leave at once.",
	NameField: "group", NameWord: "Group of objects", NameHint: "* is every group without an interval of its own.",
	Inputs: func(Place, string, bool) ([]Input, error) {
		return []Input{{Field: setting.Field{Name: "batch"}, Like: "60s"}}, nil
	},
	Set: func(ctx context.Context, p Place, name string, c Change) (string, error) {
		d, err := durationIn("batch", c.Values.Text("batch"), "60s, or 0s for none")
		if err == nil {
			err = p.Named.SetBatch(ctx, p.App, name, d, c.Must)
		}
		return "", err
	},
	Drop: func(ctx context.Context, p Place, name string, must setting.Match) (string, error) {
		return "", p.Named.DeleteBatch(ctx, p.App, name, must)
	},
}, Named.Batches, access.ErrNoBatch, func(d time.Duration) setting.Values {
	return setting.Values{"batch": setting.JSON(d.String())}
})

// durationIn reads a duration of a field.
func durationIn(field, text, like string) (time.Duration, error) {
	d, err := notification.ParseDuration(text)
	if err != nil {
		return 0, notification.BadField(field, "must be a duration like %s", like)
	}
	return d, nil
}

// writeSplit writes a split as a person does: a service and its weight a line.
func writeSplit(raw json.RawMessage) string {
	var split map[string]int
	_ = json.Unmarshal(raw, &split) // absent, or stored so
	lines := make([]string, 0, len(split))
	for _, name := range slices.Sorted(maps.Keys(split)) {
		lines = append(lines, name+" "+strconv.Itoa(split[name]))
	}
	return strings.Join(lines, "\n")
}

func readSplit(text string) (json.RawMessage, error) {
	split := make(map[string]int)
	for line := range strings.SplitSeq(text, "\n") {
		parts := strings.Fields(line)
		if len(parts) == 0 {
			continue
		}
		if len(parts) != 2 {
			return nil, errors.New("write a service and its weight on each line, like shop@2 5")
		}
		weight, err := strconv.Atoi(parts[1])
		if _, twice := split[parts[0]]; err != nil || twice {
			return nil, fmt.Errorf("the line of %.40q needs a whole number as its weight, and each service has one line", parts[0])
		}
		split[parts[0]] = weight
	}
	return json.Marshal(split)
}
