package cli

import (
	"context"
	"fmt"
	"sort"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/store"
)

// subjects checks the VAPID subjects of all apps: former versions accepted some that push services refuse.
func (d *doctor) subjects(ctx context.Context) (list []finding) {
	const check = "VAPID"
	ctx, cancel := context.WithTimeoutCause(ctx, postgresWithin, fmt.Errorf("PostgreSQL did not answer within %s", postgresWithin))
	defer cancel()
	channels, err := store.LookAtChannels(ctx, store.Config{Data: d.c.Data, Postgres: d.c.Postgres})
	if err != nil {
		return []finding{{Check: check, Detail: err.Error(), Hint: "the settings of channels cannot be read"}}
	}
	sort.Slice(channels, func(i, j int) bool { return channels[i].App < channels[j].App })
	for _, r := range channels {
		if r.Channel != push.WebPush {
			continue
		}
		subject := r.Values[webpush.FieldSubject]
		hint := fmt.Sprintf("godwit channel set webpush --app %s --set subject=mailto:you@example.org", r.App)
		f := finding{Check: check, OK: true, Detail: fmt.Sprintf("subject of app %s: %s", r.App, clean(subject))}
		if subject == "" {
			f.Detail, f.Hint = fmt.Sprintf("app %s has no subject", r.App), "Apple's push service refuses messages without one: "+hint
		} else if err := webpush.CheckSubject(subject); err != nil {
			f.OK, f.Detail, f.Hint = false, fmt.Sprintf("subject of app %s %v", r.App, err), hint
		}
		list = append(list, f)
	}
	return list
}
