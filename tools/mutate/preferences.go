package main

// Recipients' preferences, and the counting of limits.
const (
	decideFile  = "internal/campaigns/preference/decide.go"
	prefsFile   = "internal/campaigns/preference/preference.go"
	askFile     = "internal/notify/escalation/ask.go"
	begunSQLite = "internal/store/sqlite/campaigndb/preferences.go"
)

var (
	decisions = []suite{{"./internal/campaigns/preference", "TestWhetherAStepStarts"}}
	stepsAsk  = []suite{{"./internal/notify/escalation", "."}}
	begins    = []suite{{"./internal/store/sqlite/campaigndb", "TestPreferences"}}
)

var ofPreferences = []mutation{
	{name: "preferences: critical asks them too", file: decideFile, old: "	case s.Critical:\n", new: "	case false:\n", tests: append(decisions, suite{"./test/api", "TestPreferences"})},
	{name: "preferences: no channel is every channel", file: prefsFile, old: "choice.Channels == nil ||", new: "len(choice.Channels) == 0 ||", tests: decisions},
	{name: "preferences: every channel is no channel", file: prefsFile, old: "choice.Channels == nil || ", new: "", tests: decisions},
	{name: "preferences: a high priority passes channels", file: decideFile, old: "case !p.allow(", new: "case !s.High && !p.allow(", tests: decisions},
	{name: "preferences: a high priority waits for the morning", file: decideFile, old: "case s.High || p.Quiet == nil:", new: "case p.Quiet == nil:", tests: decisions},
	{name: "preferences: put off until it has expired", file: decideFile, old: "case !until.Before(s.Expires):", new: "case until.After(s.Expires):", tests: decisions},
	{name: "preferences: the rest is what is named, too", file: prefsFile, old: "	if !named {\n", new: "	if !named || len(choice.Channels) > 0 {\n", tests: decisions},
	{name: "preferences: what is put off is sent", file: askFile, old: "case !asked[i].Until.IsZero():", new: "case false:", tests: stepsAsk},
	{name: "preferences: who has no endpoint waits for the morning", file: askFile, old: "		case lists[i][0].Nobody():\n", new: "		case lists[i][0].Nobody() && asked[i].Until.IsZero():\n", tests: stepsAsk},
	{name: "preferences: what is put off counts", file: askFile, old: "asked[i].Until.IsZero() && !asked[i].limit.IsZero()", new: "!asked[i].limit.IsZero()", tests: stepsAsk},
	{name: "preferences: each category for itself counts as the rest", file: askFile, old: "rules[preference.Rest], preference.Rest", new: "rules[preference.Rest], a.category", tests: stepsAsk},
	{name: "preferences: every notification is read", file: askFile, old: "; some || len(s.cfg.Categories(d.App)) > 0 {", new: "; some || true {", tests: stepsAsk},
	{name: "preferences: handed over twice counts twice", file: begunSQLite, old: "err != nil || may || n >=", new: "err != nil || n >=", tests: begins},
	{name: "preferences: one more than the limit", file: begunSQLite, old: "n >= b.Limit.Count", new: "n > b.Limit.Count", tests: begins},
	{name: "preferences: who is erased has still said it", file: "internal/store/sqlite/campaigndb/endpointswrite.go", old: "	said, err := s.erasePreferences(ctx, app, recipient)\n", new: "	said, err := false, error(nil)\n", tests: begins},
	{
		name: "preferences: anybody's may be set by anybody", file: "internal/server/httpapi/public/preferences.go", old: "case !h.BackEnd && h.Recipient != recipient:", new: "case false:",
		tests: []suite{{"./internal/server/httpapi", "TestRightsToSetPreferences"}},
	},
	{
		name: "preferences: two nodes count without looking at each other", file: "internal/store/postgres/campaigndb/preferences.go",
		old: "SELECT pg_advisory_xact_lock($1, $2)", new: "SELECT $1::int, $2::int",
		tests: []suite{{"./internal/store/postgres/campaigndb", "TestTwoStores/ALimit"}},
	},
	{
		name: "a step that is put off is at its former time after a restart", file: "internal/store/sqlite/mailboxdb/escalations.go",
		old: "		return s.saveStep(e.pos, step, at)\n	}\n	steps, err", new: "		return nil\n	}\n	steps, err",
		tests: []suite{{"./internal/store/sqlite/mailboxdb", "TestConformance/.*PutOff"}},
	},
	{
		name: "PostgreSQL: a step that is put off comes at once", file: "internal/store/postgres/mailboxdb/escalations.go",
		old: "	if !d.Until.IsZero() {\n", new: "	if false {\n",
		tests: []suite{{"./internal/store/postgres/mailboxdb", "TestConformance$/.*PutOff"}},
	},
}
