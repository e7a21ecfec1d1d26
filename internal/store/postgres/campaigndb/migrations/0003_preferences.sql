-- Recipients' preferences: how they may be reached.
CREATE TABLE preference (
	app       text COLLATE "C" NOT NULL,
	recipient text COLLATE "C" NOT NULL,
	said      text NOT NULL, -- JSON
	PRIMARY KEY (app, recipient)
);

-- Steps of escalations that limits count, for as long as they do.
CREATE TABLE step_begun (
	app       text COLLATE "C" NOT NULL,
	recipient text COLLATE "C" NOT NULL,
	category  text COLLATE "C" NOT NULL, -- that the limit is set for
	id        bytea NOT NULL,            -- 16 bytes, see escalation.ID
	at        bigint NOT NULL,
	PRIMARY KEY (app, recipient, category, id)
);
CREATE INDEX step_begun_at ON step_begun (at);
