-- The owner of the progress of an app's hooks: a higher epoch takes over from a lower one.
CREATE TABLE hook_owner (
	app   text COLLATE "C" PRIMARY KEY,
	epoch bigint NOT NULL
) WITH (fillfactor = 50);
