package appdb

// migrations create the tables, in the order in which versions added them.
var migrations = []string{appTables, channelTable, hookTable, sourceTable, templateTable, sinkTable, versionTable, stayTable, deedTable, deedIndexes, deletedTable, operatorTable, templateVersionTable, segmentTable}

const appTables = `
CREATE TABLE app (
	name       TEXT PRIMARY KEY,
	created_at INTEGER NOT NULL, -- milliseconds
	settings   TEXT NOT NULL,    -- JSON
	jwt_keys   TEXT NOT NULL     -- JSON, secrets included
) STRICT, WITHOUT ROWID;
CREATE TABLE api_key (
	id         TEXT PRIMARY KEY,
	app        TEXT NOT NULL,
	name       TEXT NOT NULL,
	roles      INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	last_used  INTEGER NOT NULL, -- 0: never
	prefix     TEXT NOT NULL,
	hash       BLOB NOT NULL     -- SHA-256
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_app ON api_key(app);
`

const channelTable = `
CREATE TABLE channel (
	app        TEXT NOT NULL,
	channel    TEXT NOT NULL,
	enabled    INTEGER NOT NULL,
	settings   TEXT NOT NULL,    -- JSON, secrets included
	updated_at INTEGER NOT NULL, -- milliseconds
	PRIMARY KEY (app, channel)
) STRICT, WITHOUT ROWID;
`

const hookTable = `
CREATE TABLE hook (
	app        TEXT NOT NULL,
	name       TEXT NOT NULL,
	settings   TEXT NOT NULL,    -- JSON, secrets included
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;
`

const sourceTable = `
CREATE TABLE source (
	app        TEXT NOT NULL,
	kind       TEXT NOT NULL,
	settings   TEXT NOT NULL,    -- JSON, secrets included
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, kind)
) STRICT, WITHOUT ROWID;
`

const templateTable = `
CREATE TABLE template (
	app        TEXT NOT NULL,
	name       TEXT NOT NULL,
	revision   INTEGER NOT NULL,
	content    TEXT NOT NULL,    -- JSON
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;
`

const sinkTable = `
CREATE TABLE sink (
	app        TEXT NOT NULL,
	kind       TEXT NOT NULL,
	settings   TEXT NOT NULL,    -- JSON, secrets included
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, kind)
) STRICT, WITHOUT ROWID;
`

// One row, changed by every transaction that changes an app's settings. Sign-ins and people's actions do not change it:
// they are written far more often, and nobody caches them.
const versionTable = `
CREATE TABLE version (
	one   INTEGER PRIMARY KEY CHECK (one = 1),
	value INTEGER NOT NULL
) STRICT;
INSERT INTO version(one, value) VALUES (1, 0);
`

const stayTable = `
CREATE TABLE stay (
	hash    BLOB PRIMARY KEY, -- SHA-256 of the cookie's secret
	id      TEXT NOT NULL,
	app     TEXT NOT NULL,
	key     TEXT NOT NULL,    -- empty: a provider of OpenID Connect vouches
	subject TEXT NOT NULL,
	email   TEXT NOT NULL,
	rules   TEXT NOT NULL,
	role    INTEGER NOT NULL,
	since   INTEGER NOT NULL, -- milliseconds
	seen    INTEGER NOT NULL,
	address TEXT NOT NULL,
	browser TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX stay_app ON stay(app, seen);
`

const deedTable = `
CREATE TABLE deed (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	app     TEXT NOT NULL,
	at      INTEGER NOT NULL, -- milliseconds
	by      TEXT NOT NULL,
	way     TEXT NOT NULL,
	address TEXT NOT NULL,
	deed    TEXT NOT NULL,
	object  TEXT NOT NULL,
	outcome TEXT NOT NULL
) STRICT;
CREATE INDEX deed_app ON deed(app, id);
`

const deedIndexes = `
CREATE INDEX deed_deed ON deed(app, deed, id);
CREATE INDEX deed_by ON deed(app, by, id);
`

// deletedTable lists deleted apps whose data is to be erased.
const deletedTable = `
CREATE TABLE deleted_app (
	name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
`

// operatorTable has at most one row. The audit log of the server has its own table: the other's rows belong to apps.
const operatorTable = `
CREATE TABLE operator (
	one        INTEGER PRIMARY KEY CHECK (one = 1),
	id         TEXT NOT NULL,
	hash       BLOB NOT NULL,   -- SHA-256
	created_at INTEGER NOT NULL -- milliseconds
) STRICT;
CREATE TABLE server_deed (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	app     TEXT NOT NULL,    -- empty
	at      INTEGER NOT NULL, -- milliseconds
	by      TEXT NOT NULL,
	way     TEXT NOT NULL,
	address TEXT NOT NULL,
	deed    TEXT NOT NULL,
	object  TEXT NOT NULL,
	outcome TEXT NOT NULL
) STRICT;
`

// templateVersionTable has the latest revisions of each template, the present one included.
const templateVersionTable = `
CREATE TABLE template_version (
	app        TEXT NOT NULL,
	name       TEXT NOT NULL,
	revision   INTEGER NOT NULL,
	content    TEXT NOT NULL,    -- JSON
	updated_at INTEGER NOT NULL, -- milliseconds
	PRIMARY KEY (app, name, revision)
) STRICT, WITHOUT ROWID;
INSERT INTO template_version(app, name, revision, content, updated_at) SELECT app, name, revision, content, updated_at FROM template;
`

const segmentTable = `
CREATE TABLE segment (
	app        TEXT NOT NULL,
	name       TEXT NOT NULL,
	settings   TEXT NOT NULL,    -- JSON
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;
`
