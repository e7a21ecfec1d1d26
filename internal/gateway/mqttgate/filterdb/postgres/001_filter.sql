CREATE TABLE filter (app text NOT NULL, recipient text NOT NULL, device text NOT NULL, filter text NOT NULL, until bigint NOT NULL, PRIMARY KEY (app, recipient, device, filter));
CREATE TABLE revision (id bigint PRIMARY KEY, n bigint NOT NULL);
