// Package api tests from outside what the server promises to back ends:
//
//   - escalation: the real binary, real connections, a receiver of webhooks as the channel beyond live;
//   - hooks and sinks: all events in order, and in ClickHouse once, also when the server is killed;
//   - requests and the gateway: workers that are killed while they work, and random calls beside the same handler without a gateway;
//   - rights: one table of rights to topics and requests, checked on every way in. Each way subscribes, publishes, serves and asks in
//     its own manner, and the messages that arrive decide. A new way in adds itself to the lists, a new rule adds lines to the tables.
//   - modules: the server serves a module's setting, route, page, command, table, listener and metric.
//
// The tests assert order and number, never durations.
package api
