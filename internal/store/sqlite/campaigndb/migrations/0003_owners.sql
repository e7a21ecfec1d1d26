-- Who sends for an app: a higher epoch takes over from a lower one. Before this there was one owner of all, whose epoch is in
-- delivery_owner and below all of these.
CREATE TABLE app_owner (
	app   TEXT PRIMARY KEY,
	epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
