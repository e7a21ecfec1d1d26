package main

const (
	sealedFile  = "internal/sending/sealed/sealed.go"
	receiptFile = "internal/notify/escalation/acknowledge.go"
)

var (
	tokenTests   = []suite{{"./internal/sending/sealed", "."}}
	receiptTests = []suite{{"./internal/notify/escalation", "Token"}}
)

// ofTokens break the checks that make a token secure.
var ofTokens = []mutation{
	{name: "tokens: the signature is not looked at", file: sealedFile, old: "subtle.ConstantTimeCompare(mac, k.mac(payload, bound)) != 1", new: "false && subtle.ConstantTimeCompare(mac, k.mac(payload, bound)) != 1", tests: tokenTests},
	{name: "tokens: one for campaigns acknowledges", file: sealedFile, old: "err != nil || Purpose(b[0]) != p", new: "err != nil", tests: tokenTests},
	{name: "tokens: the purpose is not signed", file: sealedFile, old: "	h.Write(payload)\n", new: "	h.Write(payload[1:])\n", tests: tokenTests},
	{name: "tokens: all apps have one secret", file: sealedFile, old: "t.secrets.TrackKey(ctx, app)", new: "t.secrets.TrackKey(ctx, \"shop\")", tests: tokenTests},
	{name: "tokens: strangers have secrets made", file: sealedFile, old: "!made && t.known != nil && !t.known(app)", new: "false && !made", tests: tokenTests},
	{name: "tokens: one to acknowledge counts for ever", file: receiptFile, old: "now.UnixMilli() > int64(until)", new: "false && now.UnixMilli() > int64(until)", tests: receiptTests},
	{name: "tokens: being shown is enough for any", file: receiptFile, old: "*event != push.Shown || says[0]&tokenShown != 0", new: "true", tests: receiptTests},
	{name: "tokens: being shown is never enough", file: receiptFile, old: "says[0]&tokenShown != 0", new: "false", tests: receiptTests},
	{name: "tokens: what was acknowledged is taken from who did", file: "internal/notify/escalation/withdraw.go", old: " && !one.Answered", new: "", tests: []suite{{"./test/api", "TestAPushIsAcknowledged|TestStepReportsFate"}}},
	{name: "tokens: what is to stay is withdrawn", file: "internal/notify/escalation/withdraw.go", old: " && !one.Options.Keep", new: "", tests: []suite{{"./test/api", "TestStepReportsFate"}}},
}
