-- Who sends what steps of an app's escalations send: a higher epoch takes over from a lower one. Before this there was one owner for all apps,
-- which sends no more from here on.
DROP TABLE send_owner;
CREATE TABLE send_owner (
	app   text COLLATE "C" PRIMARY KEY,
	epoch bigint NOT NULL
) WITH (fillfactor = 50);
