package main

// APNs' answers, and the reaction to each.
const (
	apnsAnswers = "internal/sending/apns/answer.go"
	apnsKey     = "internal/sending/apns/key.go"
	apnsSender  = "internal/sending/apns/apns.go"
	apnsPayload = "internal/sending/apns/payload.go"
	apnsLive    = "internal/sending/apns/activity.go"
	liveTold    = "internal/sending/activity/tell.go"
	judging     = "internal/sending/judge/judge.go" // rules about the answers for several recipients together
)

var (
	apnsRows   = []suite{{"./internal/sending/apns", "TestEachAnswerEndsAsItShould"}}
	apnsTokens = []suite{{"./internal/sending/apns", "Token"}}
	judgeTests = []suite{{"./internal/sending/judge", "."}}
	liveKit    = []suite{{"./internal/sending/apns", "LiveActivity|Update|Broadcast|Start|Activities"}}
	liveTests  = []suite{{"./internal/sending/activity", "."}}
	apnsEnds   = []suite{{"./internal/sending/apns", "TestWhyAConnectionIsEnded"}}
)

var ofAPNs = []mutation{
	{name: "live: an update to the topic of notifications", file: apnsLive, old: `topic: s.cfg.Topic + activityTopic, scope`, new: `topic: s.cfg.Topic, scope`, tests: liveKit},
	{name: "live: no timestamp", file: apnsLive, old: "`json:\"timestamp\"`", new: "`json:\"-\"`", tests: liveKit},
	{name: "live: timestamps in milliseconds", file: apnsLive, old: `p := activityAPS{Timestamp: now.Unix(), Event: "update"`, new: `p := activityAPS{Timestamp: now.UnixMilli(), Event: "update"`, tests: liveKit},
	{name: "live: push type alert", file: apnsLive, old: `= "liveactivity"`, new: `= "alert"`, tests: liveKit},
	{name: "live: a start without the attributes' type", file: apnsLive, old: `Type: c.Type, Attributes: attributes`, new: `Attributes: attributes`, tests: liveKit},
	{name: "live: a start without attributes", file: apnsLive, old: `Type: c.Type, Attributes: attributes`, new: `Type: c.Type, Attributes: attributes[:0]`, tests: liveKit},
	{name: "live: a start without an alert", file: apnsLive, old: "Alert: &activityAlert{r.Content.Title, r.Content.Body, r.Content.APNs.Sound}, Relevance", new: "Relevance", tests: liveKit},
	{name: "live: a start that asks for no token", file: apnsLive, old: "p.WantsToken = 1", new: "p.WantsToken = 0", tests: liveKit},
	{name: "live: more than 4 KB to a device", file: apnsLive, old: "priority(u.Urgency)), maxPayload", new: "priority(u.Urgency)), 1<<20", tests: liveKit},
	{name: "live: more than 5 KB to everybody", file: apnsLive, old: "maxBroadcast = 5120", new: "maxBroadcast = 1 << 20", tests: liveKit},
	{name: "live: a broadcast with the topic of a device", file: apnsLive, old: `m.topic, m.channel = "/4/broadcasts/apps/"+s.cfg.Topic, "", channel`, new: `m.topic, m.channel = "/4/broadcasts/apps/"+s.cfg.Topic, m.topic, channel`, tests: liveKit},
	{name: "live: a broadcast that is kept in spite of the channel", file: apnsLive, old: "if !keep {", new: "if false {", tests: liveKit},
	{name: "live: an end is an update", file: apnsLive, old: `p.Event = "end"`, new: `p.Event = "update"`, tests: liveKit},
	{name: "live: two updates in a second", file: liveTold, old: "if left := s.tooSoon(e.Number); left > 0 {", new: "if false {\n\t\tvar left time.Duration", tests: liveTests},
	{name: "live: told versions are forgotten", file: liveTold, old: "all[audience.ToldAttribute] = audience.Text(version(st))", new: "", tests: liveTests},
	{name: "live: another node's update is not noticed", file: liveTold, old: "concurrent = all[audience.ToldAttribute] != before;", new: "concurrent = all[audience.ToldAttribute] != before && false;", tests: liveTests},
	{name: "live: an activity that has ended is told on", file: liveTold, old: `if u.End && e.Activity().ChannelID == "" {`, new: "if false {", tests: liveTests},
	{name: "apns: 410 Unregistered is not gone", file: apnsAnswers, old: "case unregistered, expiredDevice:", new: "case expiredDevice:", tests: apnsRows},
	{name: "apns: 410 ExpiredToken is not gone", file: apnsAnswers, old: "case unregistered, expiredDevice:", new: "case unregistered:", tests: apnsRows},
	{name: "apns: 410 since when is lost", file: apnsAnswers, old: "&push.GoneError{Since: a.since, Reason", new: "&push.GoneError{Reason", tests: apnsRows},
	{name: "apns: 410 in seconds", file: apnsAnswers, old: "time.UnixMilli(ms)", new: "time.Unix(ms, 0)", tests: apnsRows},
	{name: "apns: any 410 is gone", file: apnsAnswers, old: "	case badDevice, otherTopic:\n", new: "	case badDevice, otherTopic, \"\":\n", tests: apnsRows},
	{
		name: "apns: who has registered since is disabled", file: "internal/campaigns/audience/endpoint.go",
		old: "(gone.IsZero() || !e.LastSeenAt.After(gone))", new: "true",
		tests: []suite{{"./internal/store/sqlite/campaigndb", "."}, {"./test/campaigns", "TestEveryPhone"}},
	},
	{name: "apns: 400 BadDeviceToken is not gone", file: apnsAnswers, old: "	case badDevice, otherTopic:\n", new: "	case otherTopic:\n", tests: apnsRows},
	{name: "apns: 400 DeviceTokenNotForTopic is not gone", file: apnsAnswers, old: "	case badDevice, otherTopic:\n", new: "	case badDevice:\n", tests: apnsRows},
	{name: "apns: no hint of the environment", file: apnsAnswers, old: `s.cfg.Topic, s.hint())`, new: `s.cfg.Topic, "")`, tests: apnsRows},
	{name: "judge: one refused address raises a doubt about all", file: judging, old: "several = 5", new: "several = 1", tests: judgeTests},
	{name: "judge: messages that left before a doubt confirm it", file: judging, old: "case o.Host || m.Left.Before(c.doubted):", new: "case o.Host:", tests: judgeTests},
	{name: "judge: a message that was taken ends no doubt", file: judging, old: "	c.taken = now\n	c.calm()\n", new: "	c.taken = now\n", tests: judgeTests},
	{name: "judge: a credential is never at fault", file: judging, old: "c.confirm >= confirming", new: "false", tests: judgeTests},
	{name: "apns: 400 BadTopic is the message's", file: apnsAnswers, old: `"BadTopic": true, `, new: ``, tests: apnsRows},
	{name: "apns: 400 IdleTimeout is the message's", file: apnsAnswers, old: "	case idle:\n", new: "	case \"no such\":\n", tests: apnsRows},
	{
		name: "apns: 403 is the message's", file: apnsAnswers,
		old: "case (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden) && !a.raw.Page():", new: "case false:", tests: apnsRows,
	},
	{name: "apns: 403 ExpiredProviderToken is not renewed", file: apnsSender, old: "if err != nil || a.reason != expiredToken {", new: "if err != nil || a.reason != \"\" || true {", tests: apnsTokens},
	{name: "apns: renewed within 20 minutes", file: apnsKey, old: "age > -clockBack && age < tokenRest", new: "false", tests: apnsTokens},
	{name: "apns: each start makes another token", file: apnsKey, old: "	now = now.Truncate(tokenRest)\n", new: "", tests: apnsTokens},
	{name: "apns: each renews for itself", file: apnsKey, old: "	if s.current != old {\n		return s.current, nil\n	}\n", new: "", tests: apnsTokens},
	{name: "apns: another token each time", file: apnsKey, old: "if s.current != \"\" && age >", new: "if false && age >", tests: apnsTokens},
	{name: "apns: a token for an hour and more", file: apnsKey, old: "tokenReuse = 40 * time.Minute", new: "tokenReuse = 90 * time.Minute", tests: apnsTokens},
	{name: "apns: a token of tomorrow is kept", file: apnsKey, old: "s.current != \"\" && age > -clockBack && (", new: "s.current != \"\" && (", tests: []suite{{"./internal/sending/apns", "TestAClock"}}},
	{name: "apns: 413 is a failure of the service", file: "internal/sending/provider/status.go", old: "case http.StatusRequestEntityTooLarge:", new: "case 999:", tests: apnsRows},
	{
		name: "apns: 413 is found out by sending", file: apnsPayload, old: "err == nil && len(plain) > maxPayload {", new: "false {",
		tests: []suite{{"./internal/sending/apns", "FuzzPayload|TestInvalidMessageIsNotSentToAPNs"}},
	},
	{name: "apns: 429 TooManyRequests stops all", file: apnsAnswers, old: "&push.RetryError{After: after, Reason:", new: "&push.RetryError{After: after, Credential: true, Scope: s.scope, Reason:", tests: apnsRows},
	{name: "apns: 429 TooManyRequests comes back at once", file: apnsAnswers, old: "after = deviceRest", new: "after = 0", tests: apnsRows},
	{name: "apns: 429 TooManyProviderTokenUpdates makes another", file: apnsAnswers, old: "		s.signer.tooMany(s.cfg.Now())\n", new: "", tests: apnsTokens},
	{name: "apns: 429 TooManyProviderTokenUpdates is one device's", file: apnsAnswers, old: "&push.RetryError{After: a.after, Credential: true, Scope: m.scope, Reason: a.says(\"several", new: "&push.RetryError{After: a.after, Reason: a.says(\"several", tests: apnsRows},
	{name: "apns: 503 is one message's", file: apnsAnswers, old: "case a.status == http.StatusServiceUnavailable:", new: "case false:", tests: apnsRows},
	{name: "apns: why a connection is ended is not told", file: "internal/sending/h2post/read.go", old: "string(debug[:min(len(debug), maxFarewell)])", new: `""`, tests: append(apnsEnds, suite{"./internal/sending/h2post", "TestWhyAServer"})},
	{name: "apns: why a connection is ended does not count", file: apnsSender, old: "a.denied() && errors.As(err, &retry)", new: "false && a.denied() && errors.As(err, &retry)", tests: apnsEnds},
	{name: "apns: what may have arrived is said not to be sent", file: apnsSender, old: "a.denied() && errors.As(err, &retry)", new: "a.denied() && (errors.As(err, &retry) || true)", tests: apnsEnds},
	{
		name: "apns: many connections", file: apnsSender, old: "provider.PostsOver(cfg.Client, conns)", new: "provider.Posts(cfg.Client)",
		tests: []suite{{"./internal/sending/apns", "TestThereAreFewConnections"}},
	},
	{
		name: "apns: SETTINGS are not heeded", file: "internal/sending/h2post/read.go", old: "c.maxStreams = int(min(v, math.MaxInt32))", new: "c.maxStreams = int(max(v, 100))",
		tests: []suite{{"./internal/sending/apns", "TestOneMessageAtATime"}},
	},
	{
		name: "apns: another collapse id for a recall", file: apnsPayload, old: "	tag := godwitID(r)\n	switch", new: "	tag := messageID(r)\n	switch",
		tests: []suite{{"./internal/sending/apns", "TestARecall"}},
	},
	{
		name: "apns: a recall is urgent", file: apnsSender, old: "m.kind, m.priority = \"background\", priority(push.UrgencyNormal)", new: "m.kind = \"background\"",
		tests: []suite{{"./internal/sending/apns", "TestARecall"}},
	},
	{
		name: "apns: a recall after the end", file: apnsSender, old: "	case !until.After(now):\n", new: "	case !until.After(now) && !r.Recall:\n",
		tests: []suite{{"./internal/sending/apns", "TestARecall"}},
	},
	{
		name: "apns: answers are shown as they are", file: apnsAnswers, old: `reason = "without a reason"`, new: `reason = strings.Repeat("x", 500)`,
		tests: apnsRows,
	},
}
