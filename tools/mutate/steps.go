package main

// Steps of escalations: none is missed, none follows an acknowledgement, and reports about them are right.
const (
	stepsSource   = "internal/notify/escalation/backlog.go"
	stepsNews     = "internal/notify/escalation/news.go"
	stepsWithdraw = "internal/notify/escalation/withdraw.go"
	stepsSends    = "internal/store/sqlite/campaigndb/pushsends.go"
	stepsStatus   = "internal/notify/timeline/timeline.go"
	storeKinds    = "internal/store/kinds.go"
)

var (
	stepsFaults = []suite{{"./test/api", "TestEachStepSays|TestAnAckThatRaces"}}
	stepsEvents = []suite{{"./test/api", "TestStepsTell"}}
	stepsKills  = []suite{{"./test/api", "TestNoStepIsMissed"}}
	stepsStored = []suite{{"./internal/store/sqlite/campaigndb", "TestSends"}}
	stepsDoctor = []suite{{"./internal/store", "Lost"}}
)

var ofSteps = []mutation{
	{name: "steps: what was being sent is left so after a kill", file: stepsSends, old: "WHERE outcome = 1 AND app = ? LIMIT 500", new: "WHERE outcome = 1 AND app = ? LIMIT 0", tests: append(stepsStored, stepsKills...)},
	{name: "steps: an intent has another id each time", file: "internal/notify/escalation/escalation.go", old: "	h.Write(endpoint[:])\n", new: "	h.Write([]byte(time.Now().String()))\n", tests: []suite{{"./internal/notify/escalation", "."}}},
	{
		name: "steps: sent after an acknowledgement between two attempts", file: stepsSource, old: "		if items[i] == nil {\n",
		new: "		if items[i] == nil {\n			items[i] = &mailbox.Item{N: &notification.Notification{}}\n		}\n		if items[i] == nil {\n", tests: stepsFaults,
	},
	{name: "steps: what may have arrived stays shown", file: stepsWithdraw, old: "o == dispatch.Accepted || o == dispatch.Unknown", new: "o == dispatch.Accepted", tests: stepsKills},
	{name: "steps: what is unknown is not found to be withdrawn", file: stepsSends, old: "d.outcome IN (2, 6) AND d.num > ?", new: "d.outcome = 2 AND d.num > ?", tests: stepsStored},
	{name: "steps: nothing is exhausted", file: stepsNews, old: "last < len(steps)-1", new: "last < len(steps)", tests: stepsEvents},
	{name: "steps: exhausted after the first", file: stepsNews, old: "last < len(steps)-1", new: "last < 0", tests: stepsEvents},
	{name: "steps: events name no channel", file: "internal/store/eventlog/chunk.go", old: `string(e.Type)+channelMark+e.Channel`, new: `string(e.Type)`, tests: []suite{{"./internal/store/eventlog", "."}}},
	{name: "steps: a hook is not told the channel", file: "internal/feeds/hook/runner.go", old: "e.Note, e.To, e.Channel,\n", new: "e.Note, e.To, \"\",\n", tests: []suite{{"./internal/feeds/hook", "."}}},
	{name: "events: what was under way is made anew too", file: "internal/feeds/reconcile/reconcile.go", old: "case k.reported[key]:", new: "case key == 0:", tests: []suite{{"./internal/feeds/reconcile", "."}}},
	{name: "events: a crash is no loss", file: "internal/store/sqlite/eventdb/gap.go", old: "SET lost = lost + open, open = 1", new: "SET lost = lost, open = 1", tests: []suite{{"./internal/store/sqlite/eventdb", "NotClosed"}}},
	{name: "steps: an iPhone is said to have removed it", file: stepsStatus, old: "&& s.Channel == push.APNs:", new: "&& s.Channel == push.Live:", tests: stepsFaults},
	{name: "steps: what is held is said to be under way", file: stepsStatus, old: "	case s.Held:\n", new: "	case false:\n", tests: stepsFaults},
	{name: "steps: what is held stays so when its channel is set again", file: "internal/sending/channel/service.go", old: "return same(a, b) && a.UpdatedAt.Equal(b.UpdatedAt)", new: "return same(a, b)", tests: stepsFaults},
	{name: "steps: lost plans are not named", file: storeKinds, old: "'steps of a notification', n.id, r.name, 1", new: "'steps of a notification', '', r.name, 1", tests: stepsDoctor},
	{name: "steps: a lost place in a plan is the end of it", file: storeKinds, old: "WHERE n.open = 1 AND n.pos NOT IN (SELECT pos FROM escalation);", new: "WHERE n.open = 2;", tests: stepsDoctor},
}
