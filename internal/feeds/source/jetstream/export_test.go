package jetstream

// AckWait is that of consumers that are made.
const AckWait = ackWait
