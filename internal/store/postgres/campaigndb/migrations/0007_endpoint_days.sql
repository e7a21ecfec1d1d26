-- How many endpoints became active and stopped being active on each day. Those of before are counted from the endpoints that are left.
CREATE TABLE endpoint_day (
	app     text COLLATE "C" NOT NULL,
	day     bigint NOT NULL, -- since 1970, UTC
	channel text COLLATE "C" NOT NULL,
	gained  bigint NOT NULL,
	lost    bigint NOT NULL,
	PRIMARY KEY (app, day, channel)
) WITH (fillfactor = 50);
INSERT INTO endpoint_day(app, day, channel, gained, lost)
	SELECT app, created_at / 86400000, channel, count(*), 0 FROM endpoint GROUP BY 1, 2, 3;
INSERT INTO endpoint_day(app, day, channel, gained, lost)
	SELECT app, updated_at / 86400000, channel, 0, count(*) FROM endpoint WHERE NOT active GROUP BY 1, 2, 3
	ON CONFLICT (app, day, channel) DO UPDATE SET lost = excluded.lost;
