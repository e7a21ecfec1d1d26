package pollgate

import "godwit.dev/godwit/internal/gateway"

// Shrink limits the gateway to so many sessions.
func (g *Gateway) Shrink(places int64) { g.pool = gateway.NewPool(places, maxBytes) }
