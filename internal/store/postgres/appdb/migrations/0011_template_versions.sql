-- The latest revisions of each template, the present one included.
CREATE TABLE template_version (
	app        text COLLATE "C" NOT NULL REFERENCES app ON DELETE CASCADE,
	name       text COLLATE "C" NOT NULL,
	revision   bigint NOT NULL,
	content    text NOT NULL,   -- JSON
	updated_at bigint NOT NULL, -- milliseconds
	PRIMARY KEY (app, name, revision)
);
INSERT INTO template_version (app, name, revision, content, updated_at) SELECT app, name, revision, content, updated_at FROM template;
