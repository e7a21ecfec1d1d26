-- When a device acknowledged: a copy that all must acknowledge ends with the latest, whichever is committed last.
ALTER TABLE device_ack ADD COLUMN at bigint NOT NULL DEFAULT 0; -- milliseconds; 0: not known
