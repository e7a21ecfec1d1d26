CREATE TABLE session (app TEXT NOT NULL, recipient TEXT NOT NULL, device TEXT NOT NULL, subscriptions TEXT NOT NULL, expiry INTEGER NOT NULL, until INTEGER NOT NULL, node TEXT NOT NULL, connected INTEGER NOT NULL, owner INTEGER NOT NULL, former INTEGER NOT NULL, PRIMARY KEY (app, recipient, device)) STRICT, WITHOUT ROWID;
CREATE INDEX session_until ON session (until);
