CREATE TABLE sink (
	app        text COLLATE "C" NOT NULL REFERENCES app ON DELETE CASCADE,
	kind       text COLLATE "C" NOT NULL,
	settings   text NOT NULL,   -- JSON, secrets included
	created_at bigint NOT NULL, -- milliseconds
	updated_at bigint NOT NULL,
	PRIMARY KEY (app, kind)
);
