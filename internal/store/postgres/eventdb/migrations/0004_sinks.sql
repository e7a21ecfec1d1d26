-- How far sinks have come in the log, and who owns that: a higher epoch takes over from a lower one.
CREATE TABLE sink (
	app      text COLLATE "C" NOT NULL,
	kind     text COLLATE "C" NOT NULL,
	epoch    bigint NOT NULL,
	progress text NOT NULL, -- JSON
	PRIMARY KEY (app, kind)
) WITH (fillfactor = 50);
