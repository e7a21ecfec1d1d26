-- The owner of an app's sending: a higher epoch takes over from a lower one. Earlier versions had one owner for all apps; its
-- epoch is in delivery_owner and below all of these.
CREATE TABLE app_owner (
	app   TEXT PRIMARY KEY,
	epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
