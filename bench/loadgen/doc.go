// Package loadgen is the load generator inside one process: thousands of subscribers and publishers on event loops of
// the reactor, so that the load costs little beside the server it is measured with. It speaks the protocols with a
// minimum of its own code on purpose: what stock clients cost is not what is measured.
//
// Times are taken on the system's monotonic clock, which all processes of a machine share: a publisher writes the
// time a message was due into its data, the subscriber subtracts.
package loadgen
