package main

const fcmTests = "./internal/sending/fcm"

// ofFCM change the meaning of each of FCM's answers, one row of its table after the other.
var ofFCM = []mutation{
	fcmRow("keep tokens that have ended", `case a.Status == http.StatusNotFound && f.Code == "UNREGISTERED":`, `case false:`),
	fcmRow("drop tokens because the project is missing", `case a.Status == http.StatusNotFound && f.Code == "UNREGISTERED":`, `case a.Status == http.StatusNotFound:`),
	fcmRow("keep tokens of another project", `case a.Status == http.StatusForbidden && f.Code == "SENDER_ID_MISMATCH":`, `case false:`),
	fcmRow("drop tokens because the account may not send", `case a.Status == http.StatusForbidden && f.Code == "SENDER_ID_MISMATCH":`, `case a.Status == http.StatusForbidden:`),
	fcmRow("keep tokens that FCM calls wrong", `if field == "message.token" {`, `if field == "" {`),
	fcmRow("drop tokens because a message is wrong", `if field == "message.token" {`, `if field != "" {`),
	fcmRow("take every 400 for the message's fault", `return f.bad && len(f.Fields) == 0 &&`, `return false && f.bad &&`),
	fcmRow("ask which even where FCM has said it", `return f.bad && len(f.Fields) == 0 &&`, `return f.bad &&`),
	fcmRow("stop Android because Apple refuses", `Scope: project + f.party(), Reason`, `Scope: project, Reason`),
	fcmRow("take Apple's objections for the browsers'", "		return \"/apns\"\n", "		return \"/webpush\"\n"),
	fcmRow("wait for nothing after a 429 that does not say how long", "	return quotaWait\n", "	return 0\n"),
	fcmRow("have the project wait for one device", `case a.Status == http.StatusTooManyRequests && f.OfOne:`, `case false:`),
	fcmRow("have one device wait for the project", `case a.Status == http.StatusTooManyRequests && f.OfOne:`, `case a.Status == http.StatusTooManyRequests:`),
	fcmRow("come back at once after a 503 that does not say when", `return leastWait + rand.N(jitter) // no secret`, `return rand.N(jitter) // no secret`),
	fcmRow("come back when it suits after a 500 that says when", "		return after\n	}\n	return leastWait", "		return 0\n	}\n	return leastWait"),
	{
		name: "FCM: try a refused message again", file: "internal/sending/provider/status.go",
		old: `case a.Status >= 500:`, new: `case a.Status >= 400:`, tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: ask about a token with every message", file: "internal/sending/fcm/asked.go",
		old: "known && now.Sub(at) < askAgain {", new: "known && now.Sub(at) < 0 {", tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: ask about a token with the message itself", file: "internal/sending/fcm/fcm.go",
		old: "envelope{ValidateOnly: true, Message: message{Token: device}}", new: "envelope{Message: message{Token: device}}", tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: spend a question that was not answered", file: "internal/sending/fcm/fcm.go",
		old: "	s.asked.forget(device)\n", new: "", tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: take a refused access token for a refused account", file: "internal/sending/fcm/fcm.go",
		old: `if a.Status != http.StatusUnauthorized ||`, new: `if true || a.Status != http.StatusUnauthorized ||`, tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: take any 200 for accepted", file: "internal/sending/fcm/fcm.go",
		old: `readable := json.Unmarshal(a.Body, &m) == nil && m.Name != ""`, new: `readable := json.Unmarshal(a.Body, &m) == nil || true`, tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: renew access tokens when they have ended", file: "internal/sending/fcm/token.go",
		old: "renew: now.Add(life - min(renewEarly, life/2))", new: "renew: now.Add(life)", tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: fetch an access token for each message that waits", file: "internal/sending/fcm/token.go",
		old: "	if t.flight == nil {\n", new: "	if true {\n", tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: send what is too large", file: "internal/sending/fcm/message.go",
		old: "n > MaxPayload {", new: "n > 2*MaxPayload {", tests: []suite{{fcmTests, "."}},
	},
	{
		name: "FCM: let messages live longer than FCM keeps them", file: "internal/sending/fcm/message.go",
		old: "	left = min(left, maxTTL)\n", new: "", tests: []suite{{fcmTests, "."}},
	},
}

// fcmRow is a mutation of an answer's meaning.
func fcmRow(name, old, changed string) mutation {
	return mutation{name: "FCM: " + name, file: "internal/sending/fcm/answer.go", old: old, new: changed, tests: []suite{{fcmTests, "."}}}
}
