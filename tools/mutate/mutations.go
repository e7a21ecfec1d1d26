package main

// The stores' suite, and the server as a whole.
const (
	writerTests  = "./internal/store/sqlite/sqlitedb"
	storeTests   = "./internal/store/sqlite/mailboxdb"
	sessionTests = "./internal/notify/session"
	faultTests   = "./test/faults"
	rideTests    = "./test/rides"
)

var mutations = []mutation{
	{
		name: "answer before the commit",
		file: "internal/store/sqlite/mailboxdb/append.go",
		old:  "			return fmt.Errorf(\"notification %s: %w\", a.N.ID, err)\n		}\n	}\n	return nil\n",
		new:  "			return fmt.Errorf(\"notification %s: %w\", a.N.ID, err)\n		}\n	}\n	op.Done(nil)\n	return nil\n",
		tests: []suite{
			{storeTests, "."},
		},
	},
	{
		name: "omit the fsync",
		file: "internal/store/sqlite/sqlitedb/sqlitedb.go",
		old:  `"synchronous=full"`,
		new:  `"synchronous=off"`,
		tests: []suite{
			{storeTests, "."},
		},
	},
	{
		name: "one commit per publish",
		file: "internal/store/sqlite/sqlitedb/turns.go",
		old:  "		r, b := op.Size()\n		rows, bytes = rows+r",
		new:  "		_, b := op.Size()\n		r := maxCommitOps\n		rows, bytes = rows+r",
		tests: []suite{
			{writerTests, "."},
			{storeTests, "TestPublishesQueued"},
		},
	},
	{
		name: "a caller commits beside the writer", file: "internal/store/sqlite/sqlitedb/here.go",
		old: "	if !w.turn.TryLock() {\n		w.notify()", new: "	if !w.turn.TryLock() && w.db == nil {\n		w.notify()",
		tests: []suite{{writerTests, "TestBusyWriterCommitsForNewcomers"}},
	},
	{
		name: "a panic within a commit is survived", file: "internal/store/sqlite/sqlitedb/here.go",
		old: "	defer EndOnPanic()\n", new: "", tests: []suite{{writerTests, "TestAPanicWithinACommit"}},
	},
	{
		name: "a write that another session made is not noted", file: "internal/notify/session/deliver.go",
		old: "len(sc.sessions) == 1 && !h.several", new: "len(sc.sessions) > 0", tests: []suite{{sessionTests, "TestCopySettledByItsOnlyWrite"}},
	},
	{
		name: "drop a redelivery",
		file: "internal/notify/session/catchup.go",
		old:  "		if !s.blocked && s.send(it, it.Attempts+1, sc) {\n			s.win.putBack(f)\n",
		new:  "		if !s.blocked {\n			s.win.putBack(f)\n",
		tests: []suite{
			{sessionTests, "."},
		},
	},
	{
		name: "a copy stays in its pack when it gets a row", file: "internal/store/sqlite/mailboxdb/packing.go",
		old: "	p.end(r.pos)[0] = endOut\n	return nil\n", new: "	return nil\n",
		tests: []suite{{storeTests, "TestAPackedCopyGoesItsOwnWay"}},
	},
	{
		name: "a pack is written for a copy of another stretch", file: "internal/store/sqlite/mailboxdb/packing.go",
		old: "	if len(k.copies) > 0 && s.pos%s.stretch() == 0 {", new: "	if len(k.copies) > 600 {",
		tests: []suite{{storeTests, "TestCopiesOfAPublishArePacked"}},
	},
	{
		name: "rows are pruned with what comes to lie between them", file: "internal/store/sqlite/mailboxdb/prune.go",
		old: "	if n := len(p.spans); n > 0 && p.spans[n-1].to == pos-1 {", new: "	if n := len(p.spans); n > 0 {",
		tests: []suite{{storeTests, "TestACopyThatLeavesItsPackMeanwhileIsNotPruned"}},
	},
	{
		name: "a pack remembers who was erased", file: "internal/store/sqlite/mailboxdb/pack.go",
		old: "		case p.ends[i*endBytes] == endOut:\n", new: "		case false:\n",
		tests: []suite{{storeTests, "TestPacksForgetWhoIsErased"}},
	},
	{
		name: "a pack that was read is kept when what it says is undone", file: "internal/store/sqlite/mailboxdb/commit.go",
		old: "	s.packRead.forget()\n", new: "",
		tests: []suite{{storeTests, "TestFailedCommitLeavesPackUnchanged"}},
	},
	{
		name: "ignore the app in one query",
		file: "internal/store/sqlite/mailboxdb/find.go",
		old:  "	a := s.apps[appName]\n	if a == nil {\n		return nil, nil\n	}\n	if r := a.recipient(name); r != nil {\n		return r, nil\n	}\n",
		new: "	a := s.apps[appName]\n	if a == nil {\n		return nil, nil\n	}\n	for _, other := range s.apps {\n		if r := other.recipient(name); r != nil {\n			return r, nil\n		}\n	}\n" +
			"	if r := a.recipient(name); r != nil {\n		return r, nil\n	}\n",
		tests: []suite{
			{storeTests, "TestConformance$"},
			{faultTests, "TestAppsNeverMeet"},
		},
	},
	{
		name: "deliver with a full window",
		file: "internal/notify/session/deliver.go",
		old:  "		room -= len(s.win.flight) - s.win.off\n",
		new:  "		room -= 0 * (len(s.win.flight) - s.win.off)\n",
		tests: []suite{
			{sessionTests, "."},
		},
	},
	{
		name: "deliver across a gap in seq",
		file: "internal/notify/session/deliver.go",
		old:  "	if it.Seq == s.last+1 && s.deliver(it, sc) {",
		new:  "	if s.deliver(it, sc) {",
		tests: []suite{
			{sessionTests, "."},
		},
	},
	{
		name: "let a second server use the folder",
		file: "internal/server/app/datadir/datadir.go",
		old:  "err = &InUseError{Dir: dir, PID: Holder(dir)}",
		new:  "err = nil",
		tests: []suite{
			{faultTests, "TestSecondServer"},
		},
	},
	{
		name: "store nothing although it was answered",
		file: "internal/store/sqlite/sqlitedb/writer.go",
		old:  `	if err := step(w.conn, "BEGIN IMMEDIATE"); err != nil {`,
		new: `	if err := step(w.conn, "BEGIN IMMEDIATE"); err == nil && w.commits.Load()%50 == 49 {
		_ = w.apply(ops)
		return step(w.conn, "ROLLBACK")
	} else if err != nil {`,
		tests: []suite{
			{rideTests, "TestNotificationSurvivesKill"},
		},
	},
}
