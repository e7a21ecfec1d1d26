CREATE TABLE ended (app text NOT NULL, recipient text NOT NULL, device text NOT NULL, n bigint NOT NULL, at bigint NOT NULL, PRIMARY KEY (app, recipient, device));
