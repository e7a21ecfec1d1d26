package main

// Tests of stores on PostgreSQL, used by several nodes.
const (
	sharedMailboxTests  = "./internal/store/postgres/mailboxdb"
	sharedCampaignTests = "./internal/store/postgres/campaigndb"
	leaseTests          = "./internal/store/postgres/pgdb"
)

// ofNodes break the rules that keep two nodes from doing the same work.
var ofNodes = []mutation{
	{
		name: "publish without the row lock",
		file: "internal/store/postgres/mailboxdb/read.go",
		old:  "WHERE key = ANY($1) ORDER BY key FOR UPDATE\"",
		new:  "WHERE key = ANY($1) ORDER BY key\"",
		tests: []suite{
			{sharedMailboxTests, "TestTwoStores"},
			{sharedMailboxTests, "TestAPublishWaitsForTheNode"},
		},
	},
	{
		name: "look ids up in a snapshot older than the lock",
		file: "internal/store/postgres/mailboxdb/read.go",
		old:  "	if len(keys) > 0 {\n		a.ask(lockRecipients, t.readLocked, keys)\n	}\n	ids, names, copies := t.wanted(appends)\n	t.askIDs(a, ids, t.set.recent(t.l.s))\n",
		new:  "	ids, names, copies := t.wanted(appends)\n	t.askIDs(a, ids, t.set.recent(t.l.s))\n	if len(keys) > 0 {\n		a.ask(lockRecipients, t.readLocked, keys)\n	}\n",
		tests: []suite{
			{sharedMailboxTests, "TestTwoStores"},
			{sharedMailboxTests, "TestAPublishWaitsForTheNode"},
		},
	},
	{
		name: "let a former owner send",
		file: "internal/store/postgres/campaigndb/deliveries.go",
		old:  "	if err == nil && now != epoch {\n",
		new:  "	if err == nil && now < 0 {\n",
		tests: []suite{
			{sharedCampaignTests, "TestCampaigns"},
			{sharedCampaignTests, "TestTwoStores"},
		},
	},
	{
		name: "let a former holder of a lease write",
		file: "internal/store/postgres/pgdb/lease.go",
		old:  "AND holder = $2 AND epoch = $3 FOR KEY SHARE",
		new:  "AND $2::text <> '' AND $3::bigint > 0 FOR KEY SHARE",
		tests: []suite{
			{leaseTests, "TestAnOwnerThatStopsRenewing"},
		},
	},
	{
		name: "PostgreSQL: settle a copy and leave its next step", file: "internal/store/postgres/mailboxdb/settle.go",
		old: "		t.out.endSteps(o)\n", new: "", tests: []suite{{sharedMailboxTests, "TestRowsOfSteps"}},
	},
	{
		name: "PostgreSQL: acknowledge a copy with steps as one without", file: "internal/store/postgres/mailboxdb/quick.go",
		old: "ackBits|stepsFlag", new: "ackBits", tests: []suite{{sharedMailboxTests, "TestRowsOfSteps"}},
	},
	{
		name: "PostgreSQL: begin steps of copies that are not open", file: "internal/store/postgres/mailboxdb/escalations.go",
		old: "			JOIN pending p ON p.recipient = ANY(ARRAY[e.recipient]) AND p.pos = e.pos AND p.seq > 0 AND p.expires_at + 0 > $1\n",
		new: "			JOIN (SELECT 1::bigint << 52 AS expires_at) p ON true\n", tests: []suite{{sharedMailboxTests, "TestRowsOfSteps"}},
	},
	{
		name: "let a former owner send steps", file: "internal/store/postgres/campaigndb/pushsends.go",
		old: "	if now != epoch {\n", new: "	if now < 0 {\n", tests: []suite{{sharedCampaignTests, "TestTwoSends"}},
	},
	{
		name: "PostgreSQL: take over what steps of all apps send", file: "internal/store/postgres/campaigndb/pushsends.go",
		old: "WHERE outcome = 1 AND app = $6 AND epoch", new: "WHERE outcome = 1 AND $6 <> '' AND epoch", tests: []suite{{sharedCampaignTests, "TestTwoSends|OneOwner"}},
	},
	{
		name: "PostgreSQL: begin steps of apps that another node owns", file: "internal/store/postgres/mailboxdb/escalations.go",
		old: `" AND a.name = ANY($3)"`, new: `" AND $3::text[] IS NOT NULL"`, tests: []suite{{sharedMailboxTests, "TestConformance$/StepsOfSome"}},
	},
	{
		name: "doctor finds no lost steps in PostgreSQL", file: "internal/store/postgres/mailboxdb/diagnose.go",
		old: "p.flags & $1 <> 0", new: "p.flags & $1 < 0", tests: []suite{{sharedMailboxTests, "TestLostSteps"}},
	},
	{
		name: "give an app up with its campaigns while its steps are sent", file: "internal/cluster/lease/share.go",
		old: "last := len(of.users) == 0 && !of.ending", new: "last := !of.ending", tests: []suite{{"./internal/cluster/lease", "."}},
	},
	{
		name: "tell no owner of steps that are due soon", file: "internal/notify/escalation/tell.go",
		old: "in < lookShared &&", new: "in < 0 &&", tests: []suite{{"./internal/notify/escalation", "TestTheOwner"}},
	},
}
