package main

// The oracle of rights, and the table of rights, in which the test of each way in must fail on its own.
const (
	oracle      = "internal/access/rights.go"
	rightsTests = "./test/api"
)

var (
	sessions   = []string{"WebSocket", "gRPC", "SSE", "poll", "NATS"}
	publishing = []string{"HTTP", "NATS"}
	asking     = []string{"HTTP", "NATS", "the_gateway"}
)

// row returns the tests of a table row for each of the ways.
func row(test string, ways []string) (tests []suite) {
	for _, way := range ways {
		tests = append(tests, suite{rightsTests, test + "_by_" + way + "_?$"})
	}
	return tests
}

// HTTP checks the key's role before the rights, so no mutant of the rights gives anybody more than the role allows.
var ofRights = []mutation{
	{
		name: "let everybody subscribe", file: oracle, old: "return topic.WithinAny(pattern, r.Subscribe)", new: "return true",
		tests: row("TestSubscribing/^rides.>_with_rides..", sessions),
	},
	{
		name: "let nobody subscribe", file: oracle, old: "return topic.WithinAny(pattern, r.Subscribe)", new: "return false",
		tests: row("TestSubscribing/^rides.oslo_with_rides.oslo", sessions),
	},
	{
		name: "let everybody serve", file: oracle, old: "return topic.WithinAny(pattern, r.Serve)", new: "return true",
		tests: row("TestServing/^orders.>_with_orders..", sessions),
	},
	{
		name: "let nobody serve", file: oracle, old: "return topic.WithinAny(pattern, r.Serve)", new: "return false",
		tests: row("TestServing/^orders.get_with_orders..", sessions),
	},
	{
		name: "let everybody publish", file: oracle, old: "return topic.WithinAny(name, r.Publish)", new: "return true",
		tests: row("TestPublishing/^read", publishing[1:]),
	},
	{
		name: "let nobody publish", file: oracle, old: "return topic.WithinAny(name, r.Publish)", new: "return false",
		tests: row("TestPublishing/^publish", publishing),
	},
	{
		name: "let everybody ask", file: oracle, old: "return topic.WithinAny(name, r.Request)", new: "return true",
		tests: row("TestAsking/^read", asking[1:]),
	},
	{
		name: "let nobody ask", file: oracle, old: "return topic.WithinAny(name, r.Request)", new: "return false",
		tests: row("TestAsking/^publish", asking),
	},
}
