package mqttgate

// ParseFilter takes a filter apart, as the program has it for the filters of devices.
var ParseFilter = parseFilter

// Sweep does what the gateway does every ten seconds.
func (g *Gateway) Sweep() {
	g.kept.sweep()
	g.extendKept()
}
