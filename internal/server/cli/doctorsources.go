package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/store"
)

// sources examines the servers of all apps' sources.
func (d *doctor) sources(ctx context.Context) (list []finding) {
	const check = "source"
	lookCtx, cancel := context.WithTimeout(ctx, postgresWithin)
	defer cancel()
	sources, err := store.LookAtSources(lookCtx, store.Config{Data: d.c.Data, Postgres: d.c.Postgres})
	if err != nil {
		return []finding{{Check: check, Detail: err.Error(), Hint: "the settings of sources cannot be read"}}
	}
	slices.SortFunc(sources, func(a, b source.Source) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Name, b.Name)) })
	kinds := feeds.SourceKinds(d.modules)
	for i := range sources {
		one := &sources[i]
		kind := kinds[one.Kind]
		if kind == nil {
			continue
		}
		ctx, cancel := context.WithTimeoutCause(ctx, postgresWithin, fmt.Errorf("there was no answer within %s", postgresWithin))
		for _, c := range source.Examine(ctx, kind, one, d.c.Targets()) {
			list = append(list, finding{Check: check, OK: c.OK, Detail: fmt.Sprintf("%s of app %s: %s", one.Name, one.App, c.Detail), Hint: c.Hint})
		}
		cancel()
	}
	return list
}
