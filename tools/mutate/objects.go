package main

const (
	signalTests      = "./internal/objects/signal"
	convergenceTests = "./test/faults"
	converges        = "TestEveryClientLearnsTheLatestVersion"
)

// ofObjects break the promise that every client learns the latest version.
var ofObjects = []mutation{
	{
		name:  "never say the digest of registrations",
		file:  "internal/objects/signal/open.go",
		old:   "	return c.saves.disk.digest.String(), int(c.saves.disk.count)\n",
		new:   "	return \"\", int(c.saves.disk.count)\n",
		tests: []suite{{signalTests, "."}, {convergenceTests, converges}},
	},
	{
		name:  "confirm registrations that are not stored",
		file:  "internal/objects/signal/open.go",
		old:   "	if !c.lasting() {\n		c.saves.keep",
		new:   "	if true {\n		c.saves.keep",
		tests: []suite{{signalTests, "."}},
	},
	{
		name:  "do not redeliver versions",
		file:  "internal/objects/signal/reg.go",
		old:   "		r.due = now + backoff(r.attempt)",
		new:   "		r.due = 0",
		tests: []suite{{signalTests, "."}, {convergenceTests, converges}},
	},
	{
		name:  "forget which app an object is of",
		file:  "internal/objects/signal/client.go",
		old:   "c.svc.index.acquire(name{c.id.App, k})",
		new:   "c.svc.index.acquire(name{\"app\", k})",
		tests: []suite{{signalTests, "."}, {convergenceTests, converges}},
	},
	{
		name:  "let an older version take the place of a newer one",
		file:  "internal/objects/signal/index.go",
		old:   "if old != nil && !st.Newer(&old.State) {",
		new:   "if old != nil && false {",
		tests: []suite{{signalTests, "."}},
	},
	{
		name:  "forget a session that was slow",
		file:  "internal/objects/signal/open.go",
		old:   "	if c.session == l && l.blocked {",
		new:   "	if false {",
		tests: []suite{{signalTests, "."}, {convergenceTests, converges}},
	},
	{
		name:  "empty the set while a reset is under way",
		file:  "internal/objects/signal/register.go",
		old:   "		c.reset = &reset{}\n",
		new:   "		c.reset = &reset{}\n		c.swap(nil, t)\n",
		tests: []suite{{signalTests, "."}},
	},
}
