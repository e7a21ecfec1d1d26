-- Expressions that pick endpoints, under names.
CREATE TABLE segment (
	app        text COLLATE "C" NOT NULL REFERENCES app ON DELETE CASCADE,
	name       text COLLATE "C" NOT NULL,
	settings   text NOT NULL,   -- JSON
	created_at bigint NOT NULL, -- milliseconds
	updated_at bigint NOT NULL,
	PRIMARY KEY (app, name)
);
