CREATE TABLE device (id text NOT NULL PRIMARY KEY, seen bigint NOT NULL);
CREATE INDEX device_seen ON device (seen);
CREATE TABLE channel (token text NOT NULL PRIMARY KEY, device text NOT NULL, name text NOT NULL, sender text NOT NULL, made bigint NOT NULL);
CREATE UNIQUE INDEX channel_of_device ON channel (device, name);
