CREATE TABLE session (app text NOT NULL, recipient text NOT NULL, device text NOT NULL, subscriptions text NOT NULL, expiry bigint NOT NULL, until bigint NOT NULL, node text NOT NULL, connected bigint NOT NULL, owner bigint NOT NULL, former bigint NOT NULL, PRIMARY KEY (app, recipient, device));
CREATE INDEX session_until ON session (until);
