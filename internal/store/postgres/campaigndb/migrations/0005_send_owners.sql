-- The owner of the sends of an app's escalations: a higher epoch takes over from a lower one. Earlier versions had one owner for all apps,
-- which sends no more from here on.
DROP TABLE send_owner;
CREATE TABLE send_owner (
	app   text COLLATE "C" PRIMARY KEY,
	epoch bigint NOT NULL
) WITH (fillfactor = 50);
