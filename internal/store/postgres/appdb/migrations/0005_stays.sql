CREATE TABLE stay (
	hash    bytea PRIMARY KEY, -- SHA-256 of the cookie's secret
	id      text COLLATE "C" NOT NULL,
	app     text COLLATE "C" NOT NULL REFERENCES app ON DELETE CASCADE,
	key     text COLLATE "C" NOT NULL, -- empty: a provider of OpenID Connect vouches
	subject text NOT NULL,
	email   text NOT NULL,
	rules   text NOT NULL,
	role    int NOT NULL,
	since   bigint NOT NULL,   -- milliseconds
	seen    bigint NOT NULL,
	address text NOT NULL,
	browser text NOT NULL
);
CREATE INDEX stay_app ON stay (app, seen);
